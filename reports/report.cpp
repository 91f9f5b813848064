#include "reports/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "reports/error.h"
#include "reports/gate.h"
#include "reports/mark.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"
#include "reports/warmup.h"

namespace noisemark::reports {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string plot_line(const Plots& plots, const std::string& name) {
  const std::string file = "plots/" + name + ".svg";
  for (const PlotLink& link : plots.links) {
    if (link.file == file) return fmt::format("\n![{}]({})\n", link.title, link.file);
  }
  return "";
}

std::string verdict_of(const Gate& gate) {
  if (gate.verdict == Verdict::kNotApplied) return "not applied";
  return gate.verdict == Verdict::kPass ? "PASS" : "**FAIL**";
}

// The two or three figures that a reader came for.
std::string headline(const Result& result) {
  std::vector<std::string> figures;
  const Metric* rate = find_metric(result, "images_per_s");
  if (rate != nullptr && rate->value) {
    figures.push_back(fmt::format("**{} images/s**{}", format_per_s(*rate->value),
                                  rate_caveat(result.protocol.warmup_stable)));
  }
  if (result.memory.measured) {
    figures.push_back(fmt::format("peak memory **{}**", format_bytes(result.memory.peak_bytes)));
  }
  if (!result.quality.evaluations.empty()) {
    const auto& evaluations = result.quality.evaluations;
    const std::string at_start = "at the start " + format_number(evaluations.front().loss);
    figures.push_back(evaluations.size() == 1
                          ? "validation loss " + at_start
                          : fmt::format("validation loss **{}** ({})",
                                        format_number(evaluations.back().loss), at_start));
  }
  return fmt::format("{}", fmt::join(figures, ", "));
}

}  // namespace

std::string verdict_words(const Result& result) {
  switch (static_cast<ExitCode>(result.exit.code)) {
    case ExitCode::kPass:
      return result.exit.status == "custom" ? "CUSTOM (no gate of the definition applies)" : "PASS";
    case ExitCode::kFailed:
      return "FAIL";
    default:
      return upper(result.exit.status);
  }
}

std::string benchmark_name(const Identity& identity) {
  return identity.benchmark + "@" + identity.scale;
}

namespace sections {

std::string not_measured(const std::string& reason) {
  return fmt::format("Not measured: {}.\n", reason.empty() ? "no reason was recorded" : reason);
}

std::vector<double> steady(const Result& result, const std::vector<double>& samples) {
  const auto dropped = std::min<int64_t>(std::max<int64_t>(0, result.protocol.warmup_steps),
                                         static_cast<int64_t>(samples.size()));
  return {samples.begin() + dropped, samples.end()};
}

std::string verdict(const Result& result) {
  const Identity& id = result.identity;
  std::string text =
      fmt::format("# {}: {}\n\n{}\n\n", verdict_words(result), benchmark_name(id), result.title);
  const std::string figures = headline(result);
  if (!figures.empty()) text += figures + ".\n\n";
  const auto count = [&](Verdict verdict) {
    return std::count_if(result.gates.begin(), result.gates.end(),
                         [&](const Gate& gate) { return gate.verdict == verdict; });
  };
  text += fmt::format("Gates: {} passed, {} failed, {} not applied. Exit code {} ({}).\n",
                      count(Verdict::kPass), count(Verdict::kFail), count(Verdict::kNotApplied),
                      result.exit.code, result.exit.status);
  if (!result.exit.reasons.empty()) text += '\n';
  for (const std::string& reason : result.exit.reasons) text += fmt::format("- {}\n", reason);
  return text;
}

std::string what_ran(const Result& result) {
  const Identity& id = result.identity;
  const Protocol& protocol = result.protocol;
  MarkdownTable table({{"what"}, {"value"}});
  table.add_row({"benchmark", fmt::format("{}, version {}", benchmark_name(id), id.version)});
  table.add_row({"framework", id.framework});
  table.add_row({"mode", id.mode});
  table.add_row({"baseline", id.baseline});
  table.add_row({"precision", id.precision});
  table.add_row({"device", fmt::format("{}, {} threads", id.device, id.threads)});
  table.add_row({"data", id.data});
  if (protocol.loader_threads > 1) {
    table.add_row({"loader", fmt::format("{} threads", protocol.loader_threads)});
  }
  table.add_row(
      {"steps", fmt::format("{} of {} images ({} micro-batches each)", format_count(protocol.steps),
                            format_count(protocol.batch), protocol.accumulation)});
  if (protocol.resumed_at_step > 0) {
    table.add_row({"resumed", fmt::format("at step {}", format_count(protocol.resumed_at_step))});
  }
  if (const Metric* skipped = find_metric(result, "skipped_steps");
      skipped != nullptr && skipped->value) {
    table.add_row({"skipped by loss scaling",
                   fmt::format("{} steps", format_count(static_cast<int64_t>(*skipped->value)))});
  }
  table.add_row({"deterministic", protocol.deterministic ? "yes" : "no"});
  std::vector<std::string> overrides;
  for (const std::string& one : id.overrides) overrides.push_back(code(one));
  if (overrides.empty()) overrides.emplace_back("not the locked definition");
  table.add_row({"custom", id.custom ? fmt::format("{}", fmt::join(overrides, " ")) : "no"});
  return "## What ran\n\n" + table.text();
}

std::string gates(const Result& result) {
  if (result.gates.empty()) return "## Gates\n\nNone was evaluated.\n";
  MarkdownTable table({{"gate"}, {"value", Align::kRight}, {"must be"}, {"verdict"}, {"in words"}});
  for (const Gate& gate : result.gates) {
    table.add_row({gate.name, gate.value ? format_quantity(*gate.value, gate.unit) : "",
                   gate.relation + " " + format_quantity(gate.bound, gate.unit), verdict_of(gate),
                   gate.words});
  }
  return "## Gates\n\n" + table.text();
}

std::string throughput(const Result& result) {
  const Metric* rate = find_metric(result, "images_per_s");
  const Utilization& use = result.utilization;
  MarkdownTable table({{"figure"}, {"value", Align::kRight}, {"how"}});
  if (rate != nullptr && rate->value) {
    table.add_row({"images/s", format_per_s(*rate->value), rate->method});
    table.add_row({"95 % interval",
                   rate->ci95 ? fmt::format("{} to {}", format_per_s(rate->ci95->low),
                                            format_per_s(rate->ci95->high))
                              : "none",
                   rate->ci95 ? fmt::format("of this run, {} steps", rate->n)
                              : fmt::format("{} steps are too few", rate->n)});
  } else {
    table.add_row({"images/s", "none", rate == nullptr ? "no such metric" : rate->missing_reason});
  }
  if (use.parameters > 0) table.add_row({"parameters", format_count(use.parameters), ""});
  if (use.measured) {
    const auto forward = static_cast<double>(use.forward_flop_per_image);
    const auto backward = static_cast<double>(use.backward_flop_per_image);
    table.add_row({"work per image", format_flop(forward + backward),
                   fmt::format("forward {}, backward {}; a fused multiply-add counts as two",
                               format_flop(forward), format_flop(backward))});
    table.add_row(
        {"achieved", format_flop_per_s(use.achieved_flop_per_s), "work per image x images/s"});
    table.add_row(
        {"measured peak", format_flop_per_s(use.gemm_peak_flop_per_s), use.gemm_peak_method});
    table.add_row({"utilization (MFU)", format_percent(use.mfu_frac), "achieved / measured peak"});
  }
  std::string text = "## Throughput\n\n" + table.text();
  if (!use.measured) text += "\nUtilization. " + not_measured(use.missing_reason);
  return text;
}

}  // namespace sections

std::string render_report(const Result& result, const std::string& result_sha256,
                          const Plots& plots) {
  const std::array parts{sections::verdict(result),
                         sections::what_ran(result),
                         sections::gates(result),
                         sections::throughput(result),
                         sections::step_time(result, plot_line(plots, "step_time")),
                         sections::memory(result, plot_line(plots, "memory")),
                         sections::saved_tensors(result),
                         sections::memory_mode(result),
                         sections::batch_fit(result),
                         sections::operators(result),
                         sections::device_use(result),
                         sections::mixed_precision(result),
                         sections::quality(result, plot_line(plots, "loss")),
                         sections::samples(result),
                         sections::noise(result),
                         sections::environment(result),
                         sections::seeds(result),
                         sections::data(result),
                         sections::repeat(result),
                         sections::provenance(result, result_sha256)};
  std::string text = mark_line({result.run_id, result_sha256}) + "\n";
  text += parts.front();
  if (!plots.left_out.empty()) text += fmt::format("\nPlots were left out: {}.\n", plots.left_out);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    text += '\n';
    text += parts[i];
  }
  return text;
}

}  // namespace noisemark::reports
