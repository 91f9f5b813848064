// No other file includes NCCL's header. A build without it refuses ranks on GPUs.
#include "suite/parallel/backend.h"

#include <stdexcept>

#ifdef NOISEMARK_NCCL
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace noisemark::suite {

#ifdef NOISEMARK_NCCL

bool has_nccl() {
  return true;
}

void add_nccl(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              const Rank& rank, std::chrono::milliseconds limit, const std::shared_ptr<Seen>& seen,
              at::Device device) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = limit;
  const auto own = c10::make_intrusive<c10d::PrefixStore>("nccl", store);
  const auto nccl = c10::make_intrusive<Counted<c10d::ProcessGroupNCCL>>(
      seen, own, static_cast<int>(rank.rank), static_cast<int>(rank.ranks), options);
  nccl->setBoundDeviceId(device);
  nccl->eagerConnectSingleDevice(device);
  group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, nccl);
  group.setBoundDeviceId(device);
}

#else

bool has_nccl() {
  return false;
}

void add_nccl(c10d::ProcessGroup& /*group*/, const c10::intrusive_ptr<c10d::Store>& /*store*/,
              const Rank& /*rank*/, std::chrono::milliseconds /*limit*/,
              const std::shared_ptr<Seen>& /*seen*/, at::Device /*device*/) {
  throw std::logic_error("a build without NCCL");
}

#endif

}  // namespace noisemark::suite
