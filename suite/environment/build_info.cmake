# cmake -D OUTPUT=FILE -D SOURCE=DIR -D VERSION= -D TYPE= -D COMPILER= -D FLAGS= -D CUDA_COMPILER= -P build_info.cmake
# Runs in every build; touches OUTPUT only when something changed.

function(noisemark_git variable)
  execute_process(COMMAND git -c safe.directory=* -C ${SOURCE} ${ARGN}
    OUTPUT_VARIABLE output ERROR_QUIET RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(output "")
  endif()
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()

# The folders that the program is made from. An image holds these and nothing else of the repository.
set(sources CMakeLists.txt CMakePresets.json README.md baselines containers memopt reports suite tests)

set(diff_sha256 "")
set(dirty false)
noisemark_git(top rev-parse --show-toplevel)
noisemark_git(commit rev-parse HEAD)
file(REAL_PATH "${SOURCE}" source)
if(NOT top STREQUAL source)
  set(commit "")  # the source lies inside some other repository
endif()
if(commit)
  noisemark_git(status status --porcelain -- ${sources})
  if(status)
    set(dirty true)
    noisemark_git(diff diff --binary HEAD -- ${sources})
    execute_process(COMMAND git -c safe.directory=* -C ${SOURCE} ls-files --others --exclude-standard -- ${sources}
      COMMAND git -c safe.directory=* -C ${SOURCE} hash-object --stdin-paths
      WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE untracked ERROR_QUIET)
    string(SHA256 diff_sha256 "${diff}\n${untracked}")
  endif()
endif()

set(text "// Made by suite/environment/build_info.cmake.
#include \"suite/environment/installation.h\"

namespace noisemark::suite {

const BuildInfo& build_info() {
  static constexpr BuildInfo kInfo{
      .version = R\"(${VERSION})\",
      .type = R\"(${TYPE})\",
      .compiler = R\"(${COMPILER})\",
      .flags = R\"(${FLAGS})\",
      .cuda_compiler = R\"(${CUDA_COMPILER})\",
      .git_commit = \"${commit}\",
      .git_dirty = ${dirty},
      .git_diff_sha256 = \"${diff_sha256}\",
  };
  return kInfo;
}

}  // namespace noisemark::suite
")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
