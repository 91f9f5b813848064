#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/kernel_name.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"

namespace noisemark::reports::sections {
namespace {

constexpr size_t kMostRows = 15;

/// "128x3x32x32"
std::string sizes(const std::vector<int64_t>& all) {
  return fmt::format("{}", fmt::join(all, "x"));
}

}  // namespace

std::string convolutions(const Result& result) {
  const ConvolutionKernels& run = result.utilization.convolutions;
  // Results from before these figures have nothing to say of them.
  if (!run.measured && run.missing_reason.empty()) return "";
  if (!run.measured) return "\nKernels of convolutions. " + not_measured(run.missing_reason);
  MarkdownTable table({{"convolution"},
                       {"input"},
                       {"weight"},
                       {"stride"},
                       {"kernel"},
                       {"calls", Align::kRight},
                       {"time (ms)", Align::kRight}});
  const size_t shown = std::min(kMostRows, run.kernels.size());
  for (size_t i = 0; i < shown; ++i) {
    const ConvolutionKernel& one = run.kernels[i];
    table.add_row({one.direction, sizes(one.input), sizes(one.weight), sizes(one.stride),
                   code(short_kernel_name(one.kernel)), format_number(one.calls),
                   format_ms(one.time_s)});
  }
  return fmt::format(
      "\n{}\nKernels by which cuDNN computed convolutions, per step, by falling time; {} of {}, "
      "all with their whole names in `result.json`, under `utilization.convolutions`. data, "
      "weight: the gradient of that; gradient: the kernel's name does not say of which.\n",
      table.text(), shown, run.kernels.size());
}

}  // namespace noisemark::reports::sections
