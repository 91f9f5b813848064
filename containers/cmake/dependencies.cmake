# Finds what Noisemark links. Every part is found by find_package; LibTorch by Torch_ROOT (or NOISEMARK_TORCH_ROOT).

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(fmt 9 REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(Threads REQUIRED)
find_path(NOISEMARK_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)

if(DEFINED ENV{NOISEMARK_TORCH_ROOT} AND NOT DEFINED Torch_ROOT)
  set(Torch_ROOT $ENV{NOISEMARK_TORCH_ROOT})
endif()

# One INTERFACE target, noisemark_torch, is all that the other folders know of LibTorch.
# A function keeps the changes that Torch's own package makes to CUDA flags local to it.
function(noisemark_find_torch_cuda)
  find_package(CUDAToolkit 13.0 REQUIRED)  # before Torch, whose bundled finder hides CUDA::nvtx3
  set(TORCH_CUDA_ARCH_LIST "9.0")          # only silences its autodetection; our flags are our own
  set(CUDA_TOOLKIT_ROOT_DIR ${CUDAToolkit_TARGET_DIR})
  find_package(Torch 2.11 EXACT REQUIRED CONFIG)
  if(TARGET caffe2::mkl)
    set_target_properties(caffe2::mkl PROPERTIES INTERFACE_LINK_DIRECTORIES "")
  endif()
  target_link_libraries(noisemark_torch INTERFACE torch_library c10 c10_cuda)
endfunction()

# The CUDA wheel's package refuses to configure without a toolkit, so a CPU build names the libraries itself.
function(noisemark_find_torch_cpu)
  find_library(NOISEMARK_TORCH_CPU torch_cpu PATHS ${Torch_ROOT}/lib REQUIRED NO_DEFAULT_PATH)
  find_library(NOISEMARK_C10 c10 PATHS ${Torch_ROOT}/lib REQUIRED NO_DEFAULT_PATH)
  target_include_directories(noisemark_torch SYSTEM INTERFACE
    ${Torch_ROOT}/include ${Torch_ROOT}/include/torch/csrc/api/include)
  target_compile_definitions(noisemark_torch INTERFACE
    USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
  target_link_libraries(noisemark_torch INTERFACE ${NOISEMARK_TORCH_CPU} ${NOISEMARK_C10})
endfunction()

add_library(noisemark_torch INTERFACE)
if(NOISEMARK_CUDA)
  noisemark_find_torch_cuda()
else()
  noisemark_find_torch_cpu()
endif()
# RecordFunction has another layout without NDEBUG, and the wheel is built with it: every preset defines it.
target_compile_definitions(noisemark_torch INTERFACE NDEBUG)
