#include "reports/convolution_workspace.h"

#include <fmt/format.h>

#include <optional>

#include "reports/gate.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"

namespace noisemark::reports {
namespace {

std::string mib(const std::optional<int64_t>& bytes) {
  return bytes ? format_mib(*bytes) : "none";
}

std::string setting(const Result& result, const std::string& name) {
  const auto found = result.environment.find(name);
  return found == result.environment.end() ? "not known" : found->second;
}

std::string rate(const Result& result) {
  const Metric* metric = find_metric(result, "images_per_s");
  return metric != nullptr && metric->value ? format_per_s(*metric->value) : "none";
}

bool has_any(const Result& result) {
  const ConvolutionWorkspace& workspace = result.memory.convolution_workspace;
  return workspace.largest_bytes || workspace.limit_bytes;
}

}  // namespace

WorkspaceLimit limit_of(const ConvolutionWorkspace& workspace) {
  if (!workspace.limit_bytes) return WorkspaceLimit::kNone;
  if (!workspace.largest_bytes) return WorkspaceLimit::kUnknown;
  return *workspace.largest_bytes <= *workspace.limit_bytes ? WorkspaceLimit::kKept
                                                            : WorkspaceLimit::kExceeded;
}

std::string limit_cell(const ConvolutionWorkspace& workspace) {
  switch (limit_of(workspace)) {
    case WorkspaceLimit::kNone:
      return "none";
    case WorkspaceLimit::kUnknown:
      return "not known";
    case WorkspaceLimit::kKept:
      return "kept to";
    case WorkspaceLimit::kExceeded:
      return "**no effect**";
  }
  return "";
}

std::string workspace_table(const std::vector<NamedResult>& results) {
  MarkdownTable table({{"result"},
                       {"cuDNN times algorithms"},
                       {"deterministic"},
                       {"images/s", Align::kRight},
                       {"limit (MiB)", Align::kRight},
                       {"largest (MiB)", Align::kRight},
                       {"all at most (MiB)", Align::kRight},
                       {"limit was"}});
  for (const NamedResult& named : results) {
    const Result& result = named.result;
    if (!has_any(result)) continue;
    const ConvolutionWorkspace& workspace = result.memory.convolution_workspace;
    table.add_row({named.name, setting(result, "torch_cudnn_benchmark"),
                   setting(result, "torch_deterministic_cudnn"), rate(result),
                   mib(workspace.limit_bytes), mib(workspace.largest_bytes),
                   mib(workspace.peak_bytes), limit_cell(workspace)});
  }
  if (table.empty()) return "";
  return table.text() +
         "\nlargest: scratch memory that one call of cuDNN took for a convolution in one training "
         "step. all: the most of category workspace at one instant. limit: "
         "CUDNN_CONV_WSCAP_DBG.\n";
}

namespace sections {

std::string convolution_workspace(const MemorySection& memory) {
  const ConvolutionWorkspace& workspace = memory.convolution_workspace;
  std::string text;
  if (workspace.largest_bytes) {
    text = fmt::format(
        "\nScratch memory of convolutions: at most {} in one call of cuDNN; of all operators, with "
        "what cuBLAS keeps, at most {} at one instant.\n",
        format_bytes(*workspace.largest_bytes), format_bytes(workspace.peak_bytes.value_or(0)));
  } else if (!workspace.missing_reason.empty()) {
    text = "\nScratch memory of convolutions. " + not_measured(workspace.missing_reason);
  }
  if (!workspace.limit_bytes) return text;
  const std::string limit = format_bytes(*workspace.limit_bytes);
  switch (limit_of(workspace)) {
    case WorkspaceLimit::kExceeded:
      return text + fmt::format(
                        "**The limit of {} (CUDNN_CONV_WSCAP_DBG) had no effect: a "
                        "convolution took more.**\n",
                        limit);
    case WorkspaceLimit::kKept:
      return text + fmt::format("The limit of {} (CUDNN_CONV_WSCAP_DBG) was kept to.\n", limit);
    default:
      return text +
             fmt::format(
                 "Whether the limit of {} (CUDNN_CONV_WSCAP_DBG) took effect is not known.\n",
                 limit);
  }
}

}  // namespace sections
}  // namespace noisemark::reports
