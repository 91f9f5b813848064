// The only file that includes NCCL's headers. A build without them refuses ranks on GPUs.
#include "suite/parallel/backend.h"

#ifdef NOISEMARK_NCCL
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "suite/parallel/counted.h"
#endif

namespace noisemark::suite {

#ifdef NOISEMARK_NCCL

void add_nccl(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              const Rank& rank, std::chrono::milliseconds limit, const std::shared_ptr<Seen>& seen,
              at::Device device) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = limit;
  const auto own = c10::make_intrusive<c10d::PrefixStore>("nccl", store);
  const auto nccl = c10::make_intrusive<Counted<c10d::ProcessGroupNCCL>>(
      seen, own, static_cast<int>(rank.rank), static_cast<int>(rank.ranks), options);
  nccl->setBoundDeviceId(device);
  group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, nccl);
  group.setBoundDeviceId(device);
}

#else

void add_nccl(c10d::ProcessGroup& /*group*/, const c10::intrusive_ptr<c10d::Store>& /*store*/,
              const Rank& /*rank*/, std::chrono::milliseconds /*limit*/,
              const std::shared_ptr<Seen>& /*seen*/, at::Device device) {
  throw Error(ExitCode::kCannotRunHere,
              "--ranks: on " + device.str() + ": this build has no NCCL (--device cpu)");
}

#endif

}  // namespace noisemark::suite
