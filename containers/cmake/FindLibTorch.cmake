# Finds LibTorch below Torch_ROOT: a torch wheel's torch/ folder, or an unpacked LibTorch archive.
#
# Torch's own TorchConfig.cmake is not used. It refuses to configure a CUDA build of LibTorch without a toolkit, edits
# the caller's CUDA flags, adds run paths that do not exist, and gives other definitions and include paths with CUDA
# than without. Here every source file sees the same command line in both configurations.
#
# Defines LibTorch::cpu, LibTorch::c10 and, where the LibTorch has them, LibTorch::cuda and LibTorch::c10_cuda.

find_path(LibTorch_INCLUDE_DIR torch/headeronly/version.h
  PATHS ${Torch_ROOT}/include NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS ${Torch_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS ${Torch_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS ${Torch_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda PATHS ${Torch_ROOT}/lib NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY
  LibTorch_CUDA_LIBRARY LibTorch_C10_CUDA_LIBRARY)

if(LibTorch_INCLUDE_DIR)
  file(STRINGS ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h version_lines
    REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
  string(REGEX REPLACE "#define TORCH_VERSION_[A-Z]+ " "" version_numbers "${version_lines}")
  list(JOIN version_numbers "." LibTorch_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
    "Looked in \"${Torch_ROOT}\" (Torch_ROOT). To install it: containers/setup.sh deps")

function(noisemark_import_libtorch name library)
  if(library AND NOT TARGET LibTorch::${name})
    add_library(LibTorch::${name} SHARED IMPORTED)
    set_target_properties(LibTorch::${name} PROPERTIES IMPORTED_LOCATION ${library})
  endif()
endfunction()

if(LibTorch_FOUND)
  noisemark_import_libtorch(c10 "${LibTorch_C10_LIBRARY}")
  noisemark_import_libtorch(cpu "${LibTorch_CPU_LIBRARY}")
  noisemark_import_libtorch(c10_cuda "${LibTorch_C10_CUDA_LIBRARY}")
  noisemark_import_libtorch(cuda "${LibTorch_CUDA_LIBRARY}")
endif()
