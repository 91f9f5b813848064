# Read by ctest, not by CMake's configuration: turns the suites of a GoogleTest executable into ctest tests. One process
# for each suite, because starting one costs half a second, which is more than most tests take.
cmake_minimum_required(VERSION 3.25)  # ctest itself sets no policies

# noisemark_ask(executable folder out word ...): what the executable prints when it is called with these words. Kept in
# `folder`, if that can be written, and asked again only after the executable was rebuilt. ctest knows no current folder:
# a relative name would lie in the root of the file system.
function(noisemark_ask executable folder out)
  get_filename_component(name ${executable} NAME)
  set(list ${folder}/${name}_list.txt)
  if(${executable} IS_NEWER_THAN ${list})
    execute_process(COMMAND ${executable} ${ARGN}
      OUTPUT_VARIABLE text ERROR_VARIABLE complaints RESULT_VARIABLE status TIMEOUT 60)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${executable} ${ARGN}: ${status}\n${complaints}")
    endif()
    execute_process(COMMAND test -w ${folder} RESULT_VARIABLE refused)
    if(NOT refused)
      file(WRITE ${list} "${text}")
    endif()
  else()
    file(READ ${list} text)
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# noisemark_list_tests(executable folder out): the suites and tests that the executable holds, a line each.
function(noisemark_list_tests executable folder out)
  noisemark_ask(${executable} ${folder} text --gtest_list_tests)
  # The types and values after «#» may hold what CMake's lists cannot.
  string(REGEX REPLACE " *#[^\n]*" "" text "${text}")
  string(REGEX MATCHALL "[^\n]+" lines "${text}")
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

# noisemark_add_suites(executable FOLDER build LABELS unit ... TIMEOUT seconds ENVIRONMENT A=1;B=2 [LOCK gpu] [SERIAL TRUE]
# [EACH suite ...] [NIGHTLY test ...]): a ctest test «Suite» for each suite, instances of a typed suite together; of the suites in EACH, one «Suite.test» for
# each test. Those in NIGHTLY get the label nightly too. FOLDER keeps what the executable said.
function(noisemark_add_suites executable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER;TIMEOUT;ENVIRONMENT;LOCK;SERIAL" "LABELS;EACH;NIGHTLY")
  get_filename_component(name ${executable} NAME)
  if(NOT EXISTS ${executable})
    add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
    return()
  endif()
  noisemark_list_tests(${executable} ${arg_FOLDER} lines)
  set(tests "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
      set(listed ${CMAKE_MATCH_1})
      string(REGEX REPLACE "/[0-9]+$" "" suite ${listed})
      # «Suite/*» would also take the suites that are instantiated under this one's name.
      string(APPEND filter_of_${suite} "${listed}.*:")
      if(NOT suite IN_LIST arg_EACH)
        list(APPEND tests ${suite})
      endif()
    elseif(suite IN_LIST arg_EACH AND NOT line MATCHES "^  DISABLED_" AND line MATCHES "^  ([^ ]+)$")
      list(APPEND tests ${suite}.${CMAKE_MATCH_1})
      set(filter_of_${suite}.${CMAKE_MATCH_1} ${suite}.${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES tests)
  foreach(test IN LISTS arg_NIGHTLY)
    if(NOT test IN_LIST tests)  # or the executable is older than the list: a failing test leaves the others their runs
      add_test(${name}_HAS_NO_${test} ${name}_HAS_NO_${test})
    endif()
  endforeach()
  foreach(test IN LISTS tests)
    get_property(owner GLOBAL PROPERTY noisemark_executable_of_${test})
    if(owner)
      message(FATAL_ERROR "two executables have the suite ${test}: ${owner} and ${name}")
    endif()
    set_property(GLOBAL PROPERTY noisemark_executable_of_${test} ${name})
    set(labels ${arg_LABELS})
    if(test IN_LIST arg_NIGHTLY)
      list(APPEND labels nightly)
    endif()
    add_test(${test} ${executable} --gtest_filter=${filter_of_${test}} --gtest_color=no)
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77 TIMEOUT "${arg_TIMEOUT}"
      ENVIRONMENT "${arg_ENVIRONMENT}" RESOURCE_LOCK "${arg_LOCK}" RUN_SERIAL "${arg_SERIAL}")
  endforeach()
endfunction()
