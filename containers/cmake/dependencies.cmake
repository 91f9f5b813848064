# Finds what Noisemark links, each part by find_package; LibTorch by Torch_ROOT, by NOISEMARK_TORCH_ROOT in the
# environment, or where containers/setup.sh puts it.
include(versions)

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest 1.12 REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(md4c REQUIRED CONFIG)
find_path(NOISEMARK_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
find_path(NOISEMARK_RAPIDJSON_INCLUDE rapidjson/reader.h REQUIRED)

if(NOT Torch_ROOT)
  if(DEFINED ENV{NOISEMARK_TORCH_ROOT})
    set(Torch_ROOT $ENV{NOISEMARK_TORCH_ROOT})
  else()
    set(venv ${PROJECT_SOURCE_DIR}/build/venv)
    if(DEFINED ENV{NOISEMARK_VENV})
      set(venv $ENV{NOISEMARK_VENV})
    endif()
    file(GLOB venv_torch ${venv}/lib/python3.*/site-packages/torch)
    list(POP_FRONT venv_torch Torch_ROOT)
  endif()
endif()
find_package(LibTorch ${NOISEMARK_PIN_WHEEL_TORCH} EXACT REQUIRED)

# All that the other folders know of LibTorch. Both configurations compile with the same flags.
#
# NDEBUG: RecordFunction has another layout without it, and the wheel is built with it, so every preset defines it.
# fmt: LibTorch's include folder holds headers of another fmt, without its library. A link to the system's headers is
# looked into before them: compiled into every file, fmt takes a sixth of the build.
# OpenMP: without it at::parallel_for in our own code runs on one thread.
add_library(noisemark_torch INTERFACE)
find_path(NOISEMARK_FMT_INCLUDE fmt/format.h PATHS ${fmt_DIR}/../../../include REQUIRED)
file(MAKE_DIRECTORY ${PROJECT_SOURCE_DIR}/build/fmt)
file(CREATE_LINK ${NOISEMARK_FMT_INCLUDE}/fmt ${PROJECT_SOURCE_DIR}/build/fmt/fmt SYMBOLIC)
set(noisemark_torch_folders
  ${PROJECT_SOURCE_DIR}/build/fmt ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
target_include_directories(noisemark_torch SYSTEM INTERFACE ${noisemark_torch_folders})
set(noisemark_torch_definitions NDEBUG USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
target_compile_definitions(noisemark_torch INTERFACE ${noisemark_torch_definitions})
target_compile_options(noisemark_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
# A flag, not the library's path: at run time the OpenMP runtime is then the one that lies beside LibTorch, if any.
target_link_options(noisemark_torch INTERFACE ${OpenMP_CXX_FLAGS})
# The precompiled headers are for this build alone, the rest also for those who link one of its libraries elsewhere.
include(precompiled)
target_link_libraries(noisemark_torch INTERFACE
  LibTorch::cpu LibTorch::c10 fmt::fmt $<$<TARGET_EXISTS:noisemark_precompiled>:noisemark_precompiled>)

# The CUDA half, for .cu files and for programs that run on a GPU; empty with NOISEMARK_CUDA=OFF.
add_library(noisemark_torch_cuda INTERFACE)
target_link_libraries(noisemark_torch_cuda INTERFACE noisemark_torch)
function(noisemark_link_cuda)
  # CMake 3.25 marks CUDA::nvToolsExt as deprecated, which CUDA 13 no longer has, and stops there; but not for a project
  # that asks for an older CMake. Hence a function, where this variable is local.
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit ${NOISEMARK_PIN_CUDA_VERSION} REQUIRED)
  if(NOT TARGET LibTorch::cuda OR NOT TARGET LibTorch::c10_cuda)
    message(FATAL_ERROR "NOISEMARK_CUDA is ON, but the LibTorch in ${Torch_ROOT} has no libtorch_cuda")
  endif()
  # Nothing calls into libtorch_cuda by name, it registers itself: a linker that drops unused libraries must keep it.
  target_link_options(noisemark_torch_cuda INTERFACE
    "LINKER:--push-state,--no-as-needed,${LibTorch_CUDA_LIBRARY},--pop-state")
  # The runtime that libtorch_cuda itself loads: a process must not hold two.
  find_library(NOISEMARK_CUDART NAMES libcudart.so.${CUDAToolkit_VERSION_MAJOR}
    PATHS ${Torch_ROOT}/../nvidia/cu${CUDAToolkit_VERSION_MAJOR}/lib NO_DEFAULT_PATH)
  if(NOT NOISEMARK_CUDART)
    set(NOISEMARK_CUDART ${CUDA_cudart_LIBRARY})
  endif()
  target_link_libraries(noisemark_torch_cuda INTERFACE LibTorch::c10_cuda ${NOISEMARK_CUDART})
endfunction()
if(NOISEMARK_CUDA)
  noisemark_link_cuda()
endif()
