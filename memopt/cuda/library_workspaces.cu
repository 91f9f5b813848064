#include "memopt/cuda/library_workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/from_blob.h>

#include <shared_mutex>

namespace noisemark::memopt {
namespace {

void add_workspaces(at::cuda::WorkspaceMapWithMutex& workspaces, c10::Device device,
                    std::vector<at::Tensor>& all) {
  const std::shared_lock<std::shared_mutex> lock(workspaces.mutex);
  for (const auto& handle_and_data : workspaces.map) {
    const at::DataPtr& data = handle_and_data.second;
    if (data.get() == nullptr || data.device() != device) continue;
    all.push_back(at::from_blob(data.get(), {1}, at::device(data.device()).dtype(at::kByte)));
  }
}

}  // namespace

std::vector<at::Tensor> cuda_library_workspaces(c10::Device device) {
  std::vector<at::Tensor> all;
  add_workspaces(at::cuda::cublas_handle_stream_to_workspace(), device, all);
  add_workspaces(at::cuda::cublaslt_handle_stream_to_workspace(), device, all);
  return all;
}

}  // namespace noisemark::memopt
