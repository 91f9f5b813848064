# The target noisemark_headers compiles every header of the product alone, so that each includes what it uses. It takes
# four minutes, so that no build of all holds it: a test of the night builds it. CUDA-only headers end in .cuh and are left out.

# noisemark_set_of_header(variable header): the name of the largest set of precompiled headers that is no more than what
# the header includes anyhow, so that nothing that is missing is hidden; empty for none.
function(noisemark_set_of_header variable header)
  set(${variable} "" PARENT_SCOPE)
  noisemark_torch_headers(headers ${header})
  if("${headers}" MATCHES "(^|;)torch/(nn|optim)/")
    set(${variable} module PARENT_SCOPE)
  elseif(ATen/core/Tensor.h IN_LIST headers)
    set(${variable} tensor PARENT_SCOPE)
  endif()
endfunction()

set(noisemark_header_sources)
foreach(folder reports memopt baselines suite)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  foreach(header IN LISTS headers)
    set(source ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
    list(APPEND noisemark_header_sources ${source})
    noisemark_set_of_header(set_name ${PROJECT_SOURCE_DIR}/${header})
    list(FIND noisemark_pch_sets "${set_name}" number)
    if(noisemark_pch_headers AND number GREATER -1)
      list(GET noisemark_pch_headers ${number} precompiled)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
        -O1 -include ${precompiled} -Winvalid-pch -fpch-preprocess)
    endif()
  endforeach()
endforeach()

add_library(noisemark_headers OBJECT EXCLUDE_FROM_ALL ${noisemark_header_sources})
target_compile_options(noisemark_headers PRIVATE -O0)
set_target_properties(noisemark_headers PROPERTIES NOISEMARK_WITHOUT_PRECOMPILED ON UNITY_BUILD OFF)
target_link_libraries(noisemark_headers PRIVATE noisemark_options noisemark_torch fmt::fmt
  nlohmann_json::nlohmann_json Boost::program_options spdlog::spdlog OpenSSL::Crypto GTest::gtest)
target_include_directories(noisemark_headers SYSTEM PRIVATE ${NOISEMARK_TOMLPLUSPLUS_INCLUDE})
