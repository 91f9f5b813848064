#include "suite/probes/convolution_kernels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace noisemark::suite {
namespace {

struct Direction {
  std::string_view word;  ///< in lower case
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
  constexpr double kSecondsPerNanosecond = 1e-9;
  reports::ConvolutionKernel row;
  std::tie(row.direction, row.input, row.weight, row.stride, row.kernel) = key;
  row.calls = static_cast<double>(sum.calls) / steps;
  row.time_s = static_cast<double>(sum.ns) * kSecondsPerNanosecond / steps;
  return row;
}

}  // namespace

std::string_view gradient_direction(std::string_view kernel) {
  std::string lower(kernel);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
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

}  // namespace noisemark::suite
