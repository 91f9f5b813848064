# cmake -D OUTPUT=FILE -D DIRECTORY=DIR -D BENCHMARKS=a,b,c -P embed.cmake
# Writes a C++ source that holds the definition files and LOCK, so that the binary needs no source tree.

string(REPLACE "," ";" benchmarks "${BENCHMARKS}")
get_filename_component(version "${DIRECTORY}" NAME)
set(entries "")
foreach(benchmark IN LISTS benchmarks)
  file(READ "${DIRECTORY}/${benchmark}.toml" text)
  string(APPEND entries
    "    {\"${benchmark}\", \"suite/benchmarks/${version}/${benchmark}.toml\", R\"noisemark(${text})noisemark\"},\n")
endforeach()
file(READ "${DIRECTORY}/LOCK" lock)

set(source "// Made from suite/benchmarks/${version}/ by suite/benchmarks/embed.cmake.
#include \"suite/config/catalogue.h\"

namespace noisemark::suite {
namespace {

constexpr BenchmarkFile kFiles[] = {
${entries}};
constexpr std::string_view kLock = R\"noisemark(${lock})noisemark\";

}  // namespace

std::span<const BenchmarkFile> benchmark_files() { return kFiles; }
std::string_view lock_text() { return kLock; }

}  // namespace noisemark::suite
")
file(WRITE "${OUTPUT}" "${source}")
