#include "suite/probes/convolution_workspace.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "suite/probes/convolution_operators.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kBytesPerMiB = int64_t{1} << 20;

bool is_scratch_of_cudnn(const memopt::BlockLife& life, const memopt::AllocationRecord& record) {
  if (life.frame == 0 || life.owner != memopt::Owner::kWorkspace) return false;
  const memopt::OperatorFrame& frame = record.frames[life.frame - 1];
  return find_convolution_operator(frame.name) != nullptr && life.death <= frame.closed_at;
}

int64_t largest_scratch(const memopt::AllocationRecord& record) {
  int64_t largest = 0;
  for (const memopt::BlockLife& life : memopt::block_lives(record)) {
    if (is_scratch_of_cudnn(life, record)) largest = std::max(largest, life.block.bytes);
  }
  return largest;
}

int64_t peak_of_workspace(const memopt::Attribution& attribution) {
  int64_t peak = 0;
  for (const memopt::OwnedInstant& instant : attribution.timeline) {
    peak = std::max(peak, instant.of(memopt::Owner::kWorkspace));
  }
  return peak;
}

}  // namespace

std::optional<int64_t> workspace_limit(const char* mib) {
  if (mib == nullptr) return std::nullopt;
  const std::string_view text(mib);
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / kBytesPerMiB;
  const bool whole = error == std::errc{} && stop == text.data() + text.size();
  if (!whole || value < 0 || value > kMost) return std::nullopt;
  return value * kBytesPerMiB;
}

reports::ConvolutionWorkspace convolution_workspace(c10::Device device,
                                                    const memopt::AllocationRecord& record,
                                                    const memopt::Attribution& attribution,
                                                    std::optional<int64_t> limit_bytes) {
  reports::ConvolutionWorkspace workspace;
  workspace.limit_bytes = limit_bytes;
  if (!device.is_cuda()) {
    workspace.missing_reason =
        "on a CPU convolutions are oneDNN's, which takes memory beside LibTorch's allocator";
    return workspace;
  }
  workspace.largest_bytes = largest_scratch(record);
  workspace.peak_bytes = peak_of_workspace(attribution);
  return workspace;
}

}  // namespace noisemark::suite
