# Other projects find the library where it was built: find_package(noisemark_memopt) with noisemark_memopt_DIR set to
# this folder's build folder gives them noisemark::memopt.
set(packaged noisemark_memopt noisemark_block_program noisemark_torch noisemark_options)
if(NOISEMARK_CUDA)
  list(APPEND packaged noisemark_torch_cuda)
endif()
set_target_properties(noisemark_memopt PROPERTIES EXPORT_NAME memopt)
export(TARGETS ${packaged} NAMESPACE noisemark:: FILE ${CMAKE_CURRENT_BINARY_DIR}/noisemark_memopt-targets.cmake)
configure_file(noisemark_memopt-config.cmake.in noisemark_memopt-config.cmake @ONLY)
