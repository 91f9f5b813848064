# Compiles every header alone, so that each includes what it uses. CUDA-only headers end in .cuh and are left out.

# noisemark_set_of_header(variable header): the largest set of precompiled headers that is no more than what the header
# includes anyhow, so that nothing that is missing is hidden; -1 for none.
function(noisemark_set_of_header variable header)
  noisemark_torch_headers(headers ${header})
  noisemark_precompiled_set(number ${header})
  if(NOT noisemark_pch_headers)
    set(number -1)
  elseif(NOT number EQUAL 2)
    set(number -1)
    if(ATen/core/Tensor.h IN_LIST headers)
      set(number 0)
      if(ATen/core/dispatch/Dispatcher.h IN_LIST headers AND ATen/core/ivalue.h IN_LIST headers)
        set(number 3)
      endif()
    endif()
  endif()
  set(${variable} ${number} PARENT_SCOPE)
endfunction()

set(noisemark_header_sources)
foreach(folder reports memopt baselines suite tests)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  foreach(header IN LISTS headers)
    set(source ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
    list(APPEND noisemark_header_sources ${source})
    noisemark_set_of_header(number ${PROJECT_SOURCE_DIR}/${header})
    if(number GREATER -1)
      list(GET noisemark_pch_headers ${number} precompiled)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
        -O1 -include ${precompiled} -Winvalid-pch -fpch-preprocess)
    endif()
  endforeach()
endforeach()

add_library(noisemark_headers OBJECT ${noisemark_header_sources})
target_compile_options(noisemark_headers PRIVATE -O0)
set_target_properties(noisemark_headers PROPERTIES NOISEMARK_WITHOUT_PRECOMPILED ON)
target_link_libraries(noisemark_headers PRIVATE noisemark_options noisemark_torch fmt::fmt
  nlohmann_json::nlohmann_json Boost::program_options spdlog::spdlog OpenSSL::Crypto GTest::gtest)
