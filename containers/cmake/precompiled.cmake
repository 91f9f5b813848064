# The headers of LibTorch that nearly every file of ours includes, compiled once: half of a build's time otherwise.
#
# They lie outside the build folder, in a folder named after all that they depend on, so that configurations with the
# same flags share them, and with them the compiler cache: what it remembers of a file includes which precompiled
# headers were used, by the checksum that stands beside them. Sources name what they include all the same; the headers'
# own test compiles without them, and NOISEMARK_PRECOMPILED=OFF builds everything without.
option(NOISEMARK_PRECOMPILED "Compile LibTorch's headers once" ON)

add_library(noisemark_precompiled INTERFACE)
if(NOT NOISEMARK_PRECOMPILED OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  return()
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" noisemark_type)
separate_arguments(noisemark_pch_flags UNIX_COMMAND
  "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${noisemark_type}} ${OpenMP_CXX_FLAGS} -std=c++20 -ffp-contract=off")
if(NOISEMARK_SANITIZE)
  list(APPEND noisemark_pch_flags -fsanitize=${NOISEMARK_SANITIZE} -fno-omit-frame-pointer)
endif()
foreach(definition IN LISTS noisemark_torch_definitions)
  list(APPEND noisemark_pch_flags -D${definition})
endforeach()
foreach(folder ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  list(APPEND noisemark_pch_flags -isystem ${folder})
endforeach()

set(noisemark_pch_content [[
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
]])
string(SHA256 noisemark_pch_sum
  "${noisemark_pch_content} ${noisemark_pch_flags} ${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION} ${LibTorch_VERSION}")
string(SUBSTRING ${noisemark_pch_sum} 0 16 noisemark_pch_name)
set(noisemark_pch ${PROJECT_SOURCE_DIR}/build/precompiled/${noisemark_pch_name}/torch.h)
if(NOT EXISTS ${noisemark_pch})
  file(WRITE ${noisemark_pch} "${noisemark_pch_content}")
endif()
file(WRITE ${noisemark_pch}.gch.sum "${noisemark_pch_sum}\n")

# An existing one is right: its name says what it was made of. Renamed into place, so that it is whole.
add_custom_command(OUTPUT ${noisemark_pch}.gch
  COMMAND sh -c "test -e \"$0\" || { \"$@\" -o \"$0.part\" && mv \"$0.part\" \"$0\"; }"
    ${noisemark_pch}.gch ${CMAKE_CXX_COMPILER} ${noisemark_pch_flags} -x c++-header ${noisemark_pch}
  COMMENT "Precompiling LibTorch's headers"
  VERBATIM)
add_custom_target(noisemark_precompile DEPENDS ${noisemark_pch}.gch)
add_dependencies(noisemark_precompiled noisemark_precompile)

# A target with the property NOISEMARK_WITHOUT_PRECOMPILED compiles without.
string(JOIN " " noisemark_pch_options "-include ${noisemark_pch}" -Winvalid-pch -fpch-preprocess)
set(noisemark_pch_refused $<BOOL:$<TARGET_PROPERTY:NOISEMARK_WITHOUT_PRECOMPILED>>)
target_compile_options(noisemark_precompiled INTERFACE
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:${noisemark_pch_refused}>>:SHELL:${noisemark_pch_options}>")
