# cmake -D OUTPUT=FILE -D DIRECTORY=DIR -D RUNS=base/01,base/02 -P embed.cmake
# Writes a C++ source that holds the recorded results, so that the binary needs no source tree.

string(REPLACE "," ";" runs "${RUNS}")
list(LENGTH runs count)
set(entries "")
foreach(run IN LISTS runs)
  file(READ "${DIRECTORY}/${run}/result.json" text)
  string(APPEND entries "    {\"${run}\", R\"noisemark(${text})noisemark\"},\n")
endforeach()

file(WRITE "${OUTPUT}" "// Made from suite/selftest/recorded/ by suite/selftest/embed.cmake.
#include <array>

#include \"suite/selftest/selftest.h\"

namespace noisemark::suite {
namespace {

constexpr std::array<RecordedFile, ${count}> kFiles = {{
${entries}}};

}  // namespace

std::span<const RecordedFile> recorded_files() { return kFiles; }

}  // namespace noisemark::suite
")
