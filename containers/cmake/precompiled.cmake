# The headers of LibTorch that many files of ours include, compiled once: half of a build's time otherwise.
#
# There are three sets of them, since what a file has of them costs time too: templates that the headers use are
# instantiated again. A target gets the smallest set that holds what its files include, themselves or through our
# headers, and none if they include nothing of LibTorch. That is looked up when CMake configures; a target that includes
# more since then is compiled rightly, only not as fast.
#
# They lie outside the build folder, in a folder named after all that they depend on, so that configurations with the
# same flags share them, and with them the compiler cache: what it remembers of a file includes which precompiled
# headers were used, by the checksum that stands beside them. Sources name what they include all the same; the headers'
# own test compiles without them, and NOISEMARK_PRECOMPILED=OFF builds everything without.
option(NOISEMARK_PRECOMPILED "Compile LibTorch's headers once" ON)

# From small to large; a set's number is its place.
set(noisemark_pch_sets tensor operators module)
set(noisemark_pch_tensor "#include <ATen/core/Tensor.h>\n")
set(noisemark_pch_operators "${noisemark_pch_tensor}#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>\n")
set(noisemark_pch_module "${noisemark_pch_tensor}#include <torch/nn/module.h>\n")
# These patterns match what LibTorch's other headers bring with them.
set(noisemark_pch_needs_module "^torch/(nn|optim)/")
string(CONCAT noisemark_pch_needs_operators "^(torch/|ATen/ops/|ATen/core/(dispatch/|ivalue|stack)|"
  "ATen/(ExpandUtils|Functions|TensorOperators|autocast_mode|record_function))")
set(noisemark_pch_needs_tensor "^(ATen|c10)/")

add_library(noisemark_precompiled INTERFACE)

# noisemark_torch_headers(variable file): the headers of LibTorch that the file includes, itself or through our headers.
function(noisemark_torch_headers variable file)
  get_property(is_known GLOBAL PROPERTY noisemark_torch_headers_of_${file} SET)
  if(is_known)
    get_property(found GLOBAL PROPERTY noisemark_torch_headers_of_${file})
    set(${variable} ${found} PARENT_SCOPE)
    return()
  endif()
  set(found)
  file(STRINGS ${file} lines REGEX "^#include [<\"]")
  cmake_path(GET file PARENT_PATH folder)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include [<\"]([^>\"]+)[>\"].*" "\\1" header "${line}")
    set(through)
    if(header MATCHES "${noisemark_pch_needs_tensor}|${noisemark_pch_needs_operators}")
      set(through ${header})
    elseif(EXISTS ${PROJECT_SOURCE_DIR}/${header})
      noisemark_torch_headers(through ${PROJECT_SOURCE_DIR}/${header})
    elseif(EXISTS ${folder}/${header})
      noisemark_torch_headers(through ${folder}/${header})
    endif()
    list(APPEND found ${through})
  endforeach()
  list(REMOVE_DUPLICATES found)
  set_property(GLOBAL PROPERTY noisemark_torch_headers_of_${file} ${found})
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# noisemark_precompiled_set(variable file): the number of the set that the file needs, -1 for none.
function(noisemark_precompiled_set variable file)
  noisemark_torch_headers(headers ${file})
  set(number -1)
  foreach(header IN LISTS headers)
    set(of_header 0)
    if(header MATCHES "${noisemark_pch_needs_module}")
      set(of_header 2)
    elseif(header MATCHES "${noisemark_pch_needs_operators}")
      set(of_header 1)
    endif()
    if(of_header GREATER number)
      set(number ${of_header})
    endif()
  endforeach()
  set(${variable} ${number} PARENT_SCOPE)
endfunction()

# noisemark_use_precompiled(folder): gives the targets in and below the folder their sets; to be called when all targets
# are there. Targets with the property NOISEMARK_WITHOUT_PRECOMPILED get none. The header is an option of the target and
# not of its files: CMake joins no files that have options of their own (CMAKE_UNITY_BUILD).
function(noisemark_use_precompiled folder)
  if(NOT noisemark_pch_headers)
    return()
  endif()
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(without ${target} NOISEMARK_WITHOUT_PRECOMPILED)
    get_target_property(sources ${target} SOURCES)
    if(without OR NOT sources)
      continue()
    endif()
    set(largest -1)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
      if(source MATCHES "\\.cpp$" AND EXISTS ${source})
        noisemark_precompiled_set(number ${source})
        if(number GREATER largest)
          set(largest ${number})
        endif()
      endif()
    endforeach()
    if(largest GREATER -1)
      list(GET noisemark_pch_headers ${largest} header)
      target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${header} -Winvalid-pch -fpch-preprocess>")
    endif()
  endforeach()
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    noisemark_use_precompiled(${subfolder})
  endforeach()
endfunction()

set(noisemark_pch_headers)
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
foreach(folder IN LISTS noisemark_torch_folders)
  list(APPEND noisemark_pch_flags -isystem ${folder})
endforeach()

set(noisemark_pch_compiled)
foreach(set_name IN LISTS noisemark_pch_sets)
  set(content "${noisemark_pch_${set_name}}")
  string(SHA256 sum
    "${content} ${noisemark_pch_flags} ${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION} ${LibTorch_VERSION}")
  string(SUBSTRING ${sum} 0 16 name)
  set(header ${PROJECT_SOURCE_DIR}/build/precompiled/${name}/${set_name}.h)
  if(NOT EXISTS ${header})
    file(WRITE ${header} "${content}")
  endif()
  file(WRITE ${header}.gch.sum "${sum}\n")
  # An existing one is right: its name says what it was made of. Renamed into place, so that it is whole.
  add_custom_command(OUTPUT ${header}.gch
    COMMAND sh -c "test -e \"$0\" || { \"$@\" -o \"$0.part\" && mv \"$0.part\" \"$0\"; }"
      ${header}.gch ${CMAKE_CXX_COMPILER} ${noisemark_pch_flags} -x c++-header ${header}
    COMMENT "Precompiling LibTorch's headers (${set_name})"
    VERBATIM)
  list(APPEND noisemark_pch_headers ${header})
  list(APPEND noisemark_pch_compiled ${header}.gch)
endforeach()
add_custom_target(noisemark_precompile DEPENDS ${noisemark_pch_compiled})
add_dependencies(noisemark_precompiled noisemark_precompile)
