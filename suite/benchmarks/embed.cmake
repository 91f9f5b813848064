# cmake -D OUTPUT=FILE -D DIRECTORY=DIR -P embed.cmake
# Writes a C++ source that holds the definition files and LOCK, so that the binary needs no source tree. Files stand in the
# order of their key `benchmark.order`, and where that is equal by name.

get_filename_component(version "${DIRECTORY}" NAME)
file(GLOB files "${DIRECTORY}/*.toml")
set(sorted "")
foreach(path IN LISTS files)
  file(STRINGS "${path}" order REGEX "^order = [0-9]+" LIMIT_COUNT 1)
  if(order)
    string(REGEX MATCH "[0-9]+" order "${order}")
  else()
    set(order 1000)
  endif()
  get_filename_component(benchmark "${path}" NAME_WE)
  list(APPEND sorted "${order} ${benchmark}")
endforeach()
list(SORT sorted COMPARE NATURAL)
set(entries "")
foreach(item IN LISTS sorted)
  string(REGEX REPLACE "^[0-9]+ " "" benchmark "${item}")
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
