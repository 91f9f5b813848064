#include "suite/probes/convolutions.h"

#include <kineto/ActivityType.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "reports/base/error.h"
#include "suite/probes/device_window.h"

namespace noisemark::suite {
namespace {

/// Source: the schemas of LibTorch 2.11 (ATen/ops/*_ops.h).
constexpr std::array kOperators{
    ConvolutionOperator{"aten::cudnn_convolution", 0, 1, 3, false},
    ConvolutionOperator{"aten::cudnn_convolution_transpose", 0, 1, 4, false},
    ConvolutionOperator{"aten::convolution_backward", 1, 2, 4, true}};

}  // namespace

const ConvolutionOperator* find_convolution_operator(std::string_view name) {
  const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                   [&](const auto& one) { return one.name == name; });
  return found == kOperators.end() ? nullptr : found;
}

namespace {

struct Direction {
  std::string_view word;  ///< is in lower case
  std::string_view name;
};
constexpr std::array kDirections{
    Direction{"dgrad", "data"},         Direction{"bwd_data", "data"},
    Direction{"backward_data", "data"}, Direction{"wgrad", "weight"},
    Direction{"bwd_filter", "weight"},  Direction{"backward_filter", "weight"},
    Direction{"bwd_weight", "weight"},  Direction{"backward_weight", "weight"},
};

struct Sum {
  int64_t calls = 0;
  int64_t ns = 0;
};

using Sizes = std::vector<int64_t>;
/// Direction, input, weight, stride, kernel.
using Key = std::tuple<std::string, Sizes, Sizes, Sizes, std::string>;

Key key_of(const ConvolutionCall& call, const LaunchedKernel& kernel) {
  const std::string_view direction = call.gradient ? gradient_direction(kernel.name) : "forward";
  return {std::string(direction), call.input, call.weight, call.stride, kernel.name};
}

reports::ConvolutionKernel row_of(const Key& key, const Sum& sum, int steps) {
  reports::ConvolutionKernel row;
  std::tie(row.direction, row.input, row.weight, row.stride, row.kernel) = key;
  row.calls = static_cast<double>(sum.calls) / steps;
  row.time_s = static_cast<double>(sum.ns) * kSecondsPerNanosecond / steps;
  return row;
}

}  // namespace

std::string_view gradient_direction(std::string_view kernel) {
  const std::string lower = reports::lower_case(kernel);
  for (const Direction& direction : kDirections) {
    if (lower.find(direction.word) != std::string::npos) return direction.name;
  }
  return "gradient";
}

std::vector<reports::ConvolutionKernel> convolution_kernels(const ConvolutionEvents& events,
                                                            int steps) {
  std::unordered_map<uint64_t, const ConvolutionCall*> calls;
  for (const ConvolutionCall& call : events.calls) calls[call.correlation] = &call;
  std::map<Key, Sum> sums;
  for (const LaunchedKernel& kernel : events.kernels) {
    const auto call = calls.find(kernel.launched_by);
    if (call == calls.end()) continue;
    Sum& sum = sums[key_of(*call->second, kernel)];
    ++sum.calls;
    sum.ns += kernel.duration_ns;
  }
  std::vector<reports::ConvolutionKernel> rows;
  for (const auto& [key, sum] : sums) rows.push_back(row_of(key, sum, steps));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.time_s > b.time_s; });
  return rows;
}

namespace {

namespace kineto = torch::autograd::profiler;

std::vector<int64_t> sizes_of(const kineto::KinetoEvent& event, size_t argument) {
  const auto shapes = event.shapes();
  return argument < shapes.size() ? shapes[argument] : std::vector<int64_t>{};
}

std::vector<int64_t> integers_of(const kineto::KinetoEvent& event, size_t argument) {
  const auto inputs = event.concreteInputs();
  if (argument >= inputs.size() || !inputs[argument].isList()) return {};
  std::vector<int64_t> integers;
  for (const c10::IValue& value : inputs[argument].toListRef()) {
    if (!value.isInt()) return {};
    integers.push_back(value.toInt());
  }
  return integers;
}

}  // namespace

ConvolutionEvents convolution_events(const kineto::ProfilerResult& result) {
  ConvolutionEvents events;
  for (const kineto::KinetoEvent& event : result.events()) {
    if (type_of(event) == libkineto::ActivityType::CONCURRENT_KERNEL) {
      events.kernels.push_back(
          {event.name(), event.linkedCorrelationId(), static_cast<int64_t>(event.durationNs())});
      continue;
    }
    if (!is_host_range(event.deviceType(), type_of(event))) continue;
    const ConvolutionOperator* found = find_convolution_operator(event.name());
    if (found == nullptr) continue;
    events.calls.push_back({event.correlationId(), found->gradient, sizes_of(event, found->input),
                            sizes_of(event, found->weight), integers_of(event, found->stride)});
  }
  return events;
}

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
