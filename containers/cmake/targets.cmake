# How Noisemark's own targets are declared.

# Flags of our own code alone. Warnings are errors.
add_library(noisemark_options INTERFACE)
target_compile_options(noisemark_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off>)
target_include_directories(noisemark_options INTERFACE ${PROJECT_SOURCE_DIR})
if(NOISEMARK_SANITIZE)
  target_compile_options(noisemark_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${NOISEMARK_SANITIZE} -fno-omit-frame-pointer>)
  target_link_options(noisemark_options INTERFACE -fsanitize=${NOISEMARK_SANITIZE})
endif()

# noisemark_library(folder SOURCES a.cpp ... LINK target ...): static library noisemark_folder, alias noisemark::folder.
# LINK is public.
function(noisemark_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(noisemark_${name} STATIC ${arg_SOURCES})
  add_library(noisemark::${name} ALIAS noisemark_${name})
  target_link_libraries(noisemark_${name} PUBLIC ${arg_LINK} PRIVATE noisemark_options)
  target_include_directories(noisemark_${name} PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()

# noisemark_test(name LABEL unit SOURCES a_test.cpp ... LINK target ...): one GoogleTest executable, each test a ctest
# test of its own. Exit code 77 is shown as Skipped.
function(noisemark_test name)
  cmake_parse_arguments(arg "" "LABEL;MAIN" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  if(NOT arg_MAIN)
    set(arg_MAIN GTest::gtest_main)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK} ${arg_MAIN} noisemark_options)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${arg_LABEL}" SKIP_RETURN_CODE 77 TIMEOUT 300 ENVIRONMENT "OMP_NUM_THREADS=1")
endfunction()
