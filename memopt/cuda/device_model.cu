#include "memopt/cuda/device_model.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

namespace noisemark::memopt {

std::string cuda_device_model(c10::Device device) {
  const int index = device.has_index() ? device.index() : c10::cuda::current_device();
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return properties.name;
}

}  // namespace noisemark::memopt
