# Compiles every header alone, so that each includes what it uses. CUDA-only headers end in .cuh and are left out.
set(noisemark_header_sources)
foreach(folder reports memopt baselines suite tests)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  foreach(header IN LISTS headers)
    set(source ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
    list(APPEND noisemark_header_sources ${source})
    # The third set is no more than what each header that needs it includes anyhow, so nothing that is missing is hidden.
    noisemark_precompiled_set(number ${PROJECT_SOURCE_DIR}/${header})
    if(number EQUAL 2 AND noisemark_pch_headers)
      list(GET noisemark_pch_headers 2 precompiled)
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
