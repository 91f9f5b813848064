# Declares Noisemark's own targets.

# These flags are for our own code alone. Warnings are errors.
add_library(noisemark_options INTERFACE)
target_compile_options(noisemark_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off>
  # GCC takes anonymous namespaces for those of a header where files are joined.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>
  $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra>)
target_include_directories(noisemark_options INTERFACE ${PROJECT_SOURCE_DIR})
if(NOISEMARK_SANITIZE)
  target_compile_options(noisemark_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${NOISEMARK_SANITIZE} -fno-omit-frame-pointer>)
  target_link_options(noisemark_options INTERFACE -fsanitize=${NOISEMARK_SANITIZE})
endif()

# These are for code that runs for seconds, outside of every measured step, and would be compiled for minutes.
set(noisemark_cold_options $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)

# noisemark_library(folder [COLD] SOURCES a.cpp ... LINK target ...): static library noisemark_folder, alias
# noisemark::folder. LINK is public. Nothing of a COLD library runs within a measured step.
function(noisemark_library name)
  cmake_parse_arguments(arg "COLD" "" "SOURCES;LINK" ${ARGN})
  add_library(noisemark_${name} STATIC ${arg_SOURCES})
  if(arg_COLD)
    target_compile_options(noisemark_${name} PRIVATE ${noisemark_cold_options})
  endif()
  add_library(noisemark::${name} ALIAS noisemark_${name})
  target_link_libraries(noisemark_${name} PUBLIC ${arg_LINK} PRIVATE noisemark_options)
  target_include_directories(noisemark_${name} PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()

# noisemark_kernels(folder [NAME name] SOURCES a.cpp ... CHOOSER level.cpp OPTIONS -flag ...): compiles SOURCES into
# noisemark_folder once per instruction set, in a namespace of its own (NOISEMARK_LEVEL); CHOOSER, a source of
# noisemark_folder, chooses at run time. NAME tells several kernels of one folder apart.
# Optimised in debug builds too: what an unoptimised build emits out of line for a newer instruction set could be linked
# into older callers.
function(noisemark_kernels folder)
  cmake_parse_arguments(arg "" "NAME;CHOOSER" "SOURCES;OPTIONS" ${ARGN})
  set(name noisemark_${folder})
  if(arg_NAME)
    string(APPEND name _${arg_NAME})
  endif()
  set(levels default)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND levels avx2 avx512)
    set(flags_avx2 -march=x86-64-v3)
    set(flags_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
    set_source_files_properties(${arg_CHOOSER} TARGET_DIRECTORY noisemark_${folder}
      PROPERTIES COMPILE_DEFINITIONS NOISEMARK_X86_LEVELS)
  endif()
  foreach(level IN LISTS levels)
    set(kernels ${name}_kernels_${level})
    add_library(${kernels} OBJECT ${arg_SOURCES})
    set_target_properties(${kernels} PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(${kernels} PRIVATE noisemark_options)
    target_compile_definitions(${kernels} PRIVATE NOISEMARK_LEVEL=level_${level})
    target_compile_options(${kernels} PRIVATE -O3 -fopenmp-simd ${arg_OPTIONS} ${flags_${level}})
    target_sources(noisemark_${folder} PRIVATE $<TARGET_OBJECTS:${kernels}>)
  endforeach()
endfunction()

# Python with the peers, for tests that run them: the environment that LibTorch was found in, if it is one.
file(REAL_PATH ${Torch_ROOT}/../../../../bin noisemark_venv_bin)
find_program(NOISEMARK_PYTHON python3 PATHS ${noisemark_venv_bin} NO_DEFAULT_PATH)

# noisemark_test(name LABEL unit SOURCES a_test.cpp ... LINK target ... [MAIN main] [EACH suite ...] [NIGHTLY test ...]
# [SERIAL] [DEVICES]): one GoogleTest executable, each suite a ctest test of its own (add_suites.cmake); of the long
# suites named by EACH, each test. Those in NIGHTLY get the label nightly too: they take minutes, and CI leaves them out. MAIN
# must end with run_tests() (tests/run_tests.h), so that a suite that skips everything is shown as Skipped.
# NOISEMARK_PYTHON in a test's environment is a Python that has the peers; it is absent where there is none. Suites
# labelled gpu run one at a time, and their names end in _gpu_test: containers/gpu-check.sh finds them by that; those of
# a SERIAL executable, which are bounded in time, run while nothing else does. DEVICES is of those that reach what a build
# without CUDA leaves out: they get the label devices too, and noisemark_devices_tests builds them.
function(noisemark_test name)
  cmake_parse_arguments(arg "SERIAL;DEVICES" "LABEL;MAIN" "SOURCES;LINK;EACH;NIGHTLY" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  if(NOT arg_MAIN)
    set(arg_MAIN noisemark_test_main)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK} ${arg_MAIN} noisemark_options)
  target_compile_options(${name} PRIVATE ${noisemark_cold_options})
  set(environment OMP_NUM_THREADS=1)
  if(NOISEMARK_PYTHON)
    list(APPEND environment NOISEMARK_PYTHON=${NOISEMARK_PYTHON})
  endif()
  set(lock "")
  if(arg_LABEL STREQUAL gpu)
    if(NOT name MATCHES "_gpu_test$")
      message(FATAL_ERROR "${name}: LABEL gpu: containers/gpu-check.sh runs what is called *_gpu_test")
    endif()
    target_link_libraries(${name} PRIVATE noisemark_torch_cuda)
    set(lock gpu)
  endif()
  set(labels ${arg_LABEL})
  if(arg_DEVICES)
    list(APPEND labels devices)
    if(NOT TARGET noisemark_devices_tests)
      add_custom_target(noisemark_devices_tests)
    endif()
    add_dependencies(noisemark_devices_tests ${name})
  endif()
  list(JOIN labels " " labels)
  set(tests ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  file(GENERATE OUTPUT ${tests} CONTENT "include(\"${PROJECT_SOURCE_DIR}/containers/cmake/add_suites.cmake\")
noisemark_add_suites(\"$<TARGET_FILE:${name}>\" FOLDER \"${CMAKE_CURRENT_BINARY_DIR}\" LABELS ${labels} TIMEOUT 600
  ENVIRONMENT \"${environment}\" LOCK \"${lock}\" SERIAL ${arg_SERIAL} EACH ${arg_EACH} NIGHTLY ${arg_NIGHTLY})
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${tests})
endfunction()
