#include "reports/render/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "reports/render/plot.h"
#include "reports/render/report_sections.h"
#include "reports/render/scaling.h"
#include "reports/result/environment_changes.h"
#include "reports/result/gate.h"
#include "reports/result/metrics.h"
#include "reports/result/warmup.h"

namespace noisemark::reports {
namespace {

std::string steady_words(const Protocol& protocol) {
  if (protocol.warmup_stable) return "";
  return fmt::format(
      " (not steady: no end of the warm-up was found in {}, so train longer, or on a quieter "
      "machine, before you cite it)",
      format_counted(protocol.steps, "step"));
}

/// "it trained at 3.79 images/s and held at most 816.25 MiB of memory"; empty where neither was
/// measured.
std::string cost_words(const Result& result) {
  const std::optional<double> rate = metric_value(result, kRateMetric);
  const std::string peak =
      result.memory.measured ? fmt::format("**{}**", format_bytes(result.memory.peak_bytes)) : "";
  if (!rate) return peak.empty() ? "" : "it held at most " + peak + " of memory";
  return fmt::format("it trained at **{} images/s**{}{}", format_per_s(*rate),
                     steady_words(result.protocol),
                     peak.empty() ? "" : " and held at most " + peak + " of memory");
}

/// "20.0 % above the least that any model can reach", or how many times that.
std::string excess_words(double excess_frac) {
  return fmt::format("{} the least that any model can reach",
                     excess_frac < 1 ? format_percent(excess_frac) + " above"
                                     : fmt::format("{:.1f} times", 1 + excess_frac));
}

/// "the validation loss fell from 1.075 to 0.4055"; empty without an evaluation.
std::string loss_words(const Result& result) {
  const auto& evaluations = result.quality.evaluations;
  if (evaluations.empty()) return "";
  const Evaluation& first = evaluations.front();
  const Evaluation& last = evaluations.back();
  if (evaluations.size() == 1) {
    return fmt::format("the validation loss was {} at the start", format_number(first.loss));
  }
  return fmt::format(
      "the validation loss {} from {} to **{}**{}{}", last.loss < first.loss ? "fell" : "went",
      format_number(first.loss), format_number(last.loss),
      last.step < result.protocol.steps ? fmt::format(" after step {}", last.step) : "",
      last.excess_frac ? ", " + excess_words(*last.excess_frac) : "");
}

/// A sentence with the figures that a reader came for.
std::string headline(const Result& result) {
  const Identity& id = result.identity;
  const std::string cost = cost_words(result);
  const std::string loss = loss_words(result);
  std::string text = cost + (cost.empty() || loss.empty() ? "" : "; ") + loss;
  if (!text.empty()) {
    const std::string ranks =
        id.ranks ? fmt::format(" by {}, each", format_counted(*id.ranks, "rank")) : "";
    text = fmt::format("Under mode {}, baseline {} and {}, on {}{} with {}, {}", code(id.mode),
                       code(id.baseline), code(id.precision), plain(id.device), ranks,
                       format_counted(id.threads, "thread"), text);
  }
  const bool interrupted = result.exit.code == static_cast<int>(ExitCode::kInterrupted);
  if (text.empty() || !interrupted) return text;
  return fmt::format("The run was interrupted after training step {}. {}", result.protocol.steps,
                     text);
}

}  // namespace

std::string verdict_words(const Result& result) {
  switch (static_cast<ExitCode>(result.exit.code)) {
    case ExitCode::kPass:
      return result.exit.is_custom() ? "CUSTOM (the benchmark's own gates do not apply)" : "PASS";
    case ExitCode::kFailed:
      return "FAIL";
    default:
      return capitals(result.exit.status);
  }
}

const char* verdict_mark(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "**FAIL**";
    case Verdict::kUnavailable:
      return "**UNAVAILABLE**";
    case Verdict::kNotApplied:
      break;
  }
  return "not applied";
}

std::string benchmark_name(const Identity& identity) {
  return identity.benchmark + "@" + identity.scale;
}

std::string why_no_profile(const Result& result) {
  const Identity& id = result.identity;
  if (id.ranks) {
    return fmt::format("a profile is of one process, and this run has {}",
                       format_counted(*id.ranks, "rank"));
  }
  if (id.repeats_steps()) {
    return fmt::format(
        "a profile is of operators that the host issues, and under the baseline {} "
        "the device repeats a recorded step",
        id.baseline);
  }
  return "";
}

std::string custom_words(const Identity& identity) {
  if (!identity.custom) return "";
  return fmt::format("custom{}{}", identity.overrides.empty() ? "" : " ",
                     fmt::join(identity.overrides, " "));
}

namespace sections {

std::string not_measured(const std::string& reason) {
  return fmt::format("This was not measured: {}.\n",
                     reason.empty() ? "no reason was recorded" : plain(reason));
}

std::string verdict(const Result& result) {
  const Identity& id = result.identity;
  std::string text = fmt::format("# {}: {}\n\n{}\n\n", plain(verdict_words(result)),
                                 plain(benchmark_name(id)), plain(result.title));
  const std::string figures = headline(result);
  if (!figures.empty()) text += figures + ".\n\n";
  const auto count = [&](Verdict verdict) {
    return std::count_if(result.gates.begin(), result.gates.end(),
                         [&](const Gate& gate) { return gate.verdict == verdict; });
  };
  const auto left_out = count(Verdict::kNotApplied);
  text +=
      fmt::format("{} passed, {} failed and {} {} not applied. The exit code is {} ({}).\n",
                  format_counted(count(Verdict::kPass), "gate"), count(Verdict::kFail), left_out,
                  left_out == 1 ? "was" : "were", result.exit.code, plain(result.exit.status));
  return text + bullets(result.exit.reasons);
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
  table.add_row({"device", fmt::format("{}, {}", id.device, format_counted(id.threads, "thread"))});
  if (id.ranks) {
    const std::string rounded =
        id.reduction.empty() ? "" : fmt::format(", gradients rounded to {}", id.reduction);
    const std::string shares = id.shards.empty() ? "" : ", optimizer and average in shares";
    const std::string stages = id.pipeline.empty() ? "" : ", " + pipeline_words(id);
    table.add_row({"ranks", fmt::format("{}, over {}{}{}{}", *id.ranks, id.backend, rounded, shares,
                                        stages)});
  }
  table.add_row({"data", id.data});
  if (protocol.loader_threads > 1) {
    table.add_row({"loader", fmt::format("{} threads", protocol.loader_threads)});
  }
  table.add_row(
      {"steps", fmt::format("{} of {} ({} each)", format_count(protocol.steps),
                            format_counted(protocol.batch, "image"),
                            format_counted(id.micro_batches.value_or(protocol.accumulation),
                                           "micro-batch"))});
  if (protocol.resumed_at_step > 0) {
    table.add_row({"resumed", fmt::format("at step {}", format_count(protocol.resumed_at_step))});
  }
  if (const auto skipped = metric_value(result, kSkippedMetric)) {
    table.add_row({"skipped by loss scaling",
                   fmt::format("{} steps", format_count(static_cast<int64_t>(*skipped)))});
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
  MarkdownTable table({{"gate"}, {"verdict"}, {"value", Align::kRight}, {"must be"}, {"in words"}});
  for (const Gate& gate : result.gates) {
    table.add_row({gate.name, verdict_mark(gate.verdict),
                   gate.value ? format_quantity(*gate.value, gate.unit) : "",
                   (gate.relation == "equals" ? "exactly" : gate.relation) + " " +
                       format_quantity(gate.bound, gate.unit),
                   gate.words});
  }
  return "## Gates\n\n" + table.text();
}

std::string throughput(const Result& result) {
  const Metric* rate = find_metric(result, kRateMetric);
  const Utilization& use = result.utilization;
  MarkdownTable table({{"figure"}, {"value", Align::kRight}, {"how"}});
  if (rate != nullptr && rate->value) {
    table.add_row({"images/s", format_per_s(*rate->value), rate->method});
    table.add_row({"95 % interval",
                   rate->ci95 ? fmt::format("{} to {}", format_per_s(rate->ci95->low),
                                            format_per_s(rate->ci95->high))
                              : std::string(kMissing),
                   rate->ci95 ? fmt::format("from {} of this run", format_counted(rate->n, "step"))
                              : fmt::format("{} steps are too few", rate->n)});
  } else {
    table.add_row({"images/s", std::string(kMissing),
                   rate == nullptr ? "no such metric" : rate->missing_reason});
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
  if (!use.measured) text += "\n**Utilization:** " + not_measured(use.missing_reason);
  return text;
}

namespace {

std::string or_unknown(const std::string& text) {
  return text.empty() ? "not recorded" : text;
}

void add_all(MarkdownTable& table, const std::string& kind, const Strings& strings) {
  for (const auto& [key, value] : strings) table.add_row({kind, key, value});
}

// A reader should not have to find these in a long table.
std::string changes(const Strings& environment) {
  if (!environment.contains(std::string(kChangedWhileItRan))) return "";
  const std::vector<std::string> changed = changes_while_it_ran(environment);
  if (changed.empty()) {
    return "Settings of the machine were read again at the end; none had changed.\n\n";
  }
  return fmt::format("**Changed while it ran: {}.** What it was at the end is in the table.\n\n",
                     plain(fmt::format("{}", fmt::join(changed, ", "))));
}

}  // namespace

std::string environment(const Result& result) {
  MarkdownTable table({{"part"}, {"what"}, {"value"}});
  add_all(table, "hardware", result.identity.hardware);
  add_all(table, "software", result.identity.software);
  add_all(table, "system", result.environment);
  if (table.empty()) return "## Environment\n\nNothing was recorded.\n";
  return "## Environment\n\n" + changes(result.environment) + table.text();
}

std::string seeds(const Result& result) {
  MarkdownTable table({{"stream"}, {"first number", Align::kRight}});
  for (const auto& [stream, number] : result.seeds.streams) {
    table.add_row({stream, fmt::format("{}", number)});
  }
  return fmt::format(
      "## Seeds\n\nThe seed is {}. The first number of each stream shows whether another program "
      "draws the same; that of `init`, torch's own generator, is the seed.\n\n{}",
      result.seeds.base, table.text());
}

std::string data(const Result& result) {
  std::string text = fmt::format("## Data ({})\n\n", plain(or_unknown(result.identity.data)));
  if (result.provenance.data.empty()) return text + "No file was read.\n";
  MarkdownTable table({{"file"},
                       {"bytes", Align::kRight},
                       {"images", Align::kRight},
                       {"SHA-256"},
                       {"is the locked one"}});
  std::string left_out;
  for (const DataFile& file : result.provenance.data) {
    if (is_left_out(file)) {
      left_out +=
          fmt::format("\n{} (their list has SHA-256 {}).\n", plain(file.name), code(file.sha256));
      continue;
    }
    table.add_row({code(file.name), format_count(file.bytes),
                   file.pictures ? format_count(*file.pictures) : "not counted", code(file.sha256),
                   file.verified ? "yes" : "no"});
  }
  return text + table.text() + left_out;
}

std::string repeat(const Result& result) {
  if (result.repeat_command.empty()) return "## Repeat it\n\nNo command was recorded.\n";
  std::string text =
      fmt::format("## Repeat it\n\n{}", code_block(one_line(result.repeat_command), "sh"));
  if (result.repeat_command.starts_with("noisemark ")) {
    text += "\n`noisemark` is in `bin/` of the build folder (`build/release/bin/noisemark`).\n";
  }
  return text;
}

std::string provenance(const Result& result, const std::string& result_sha256) {
  const Provenance& from = result.provenance;
  MarkdownTable table({{"what"}, {"value"}});
  const auto add_digest = [&](const std::string& name, const std::string& digest) {
    table.add_row({name, digest.empty() ? "not recorded" : code(digest)});
  };
  add_digest("definition, SHA-256", result.identity.definition_sha256);
  add_digest("initial weights, SHA-256", from.init_weights_sha256);
  add_digest("trained weights, SHA-256", result.determinism.weights_sha256);
  if (const std::string& average = result.determinism.ema_sha256; !average.empty()) {
    add_digest("their average, SHA-256", average);
  }
  add_digest("loss trace, SHA-256", result.determinism.loss_trace_sha256);
  for (const auto& [key, value] : from.build) table.add_row({"build: " + key, value});
  for (const auto& [key, value] : from.container) table.add_row({"container: " + key, value});
  if (from.container.empty()) table.add_row({"container", "none"});
  add_digest("commit", from.git_commit);
  table.add_row({"working tree", from.git_dirty ? "changed since the commit" : "as committed"});
  if (from.git_dirty) add_digest("changes, SHA-256", from.git_diff_sha256);
  add_digest("binary, SHA-256", from.binary_sha256);
  for (const Artifact& artifact : result.artifacts) {
    add_digest(fmt::format("{}, SHA-256", artifact.path), artifact.sha256);
  }
  table.add_row({"run", code(result.run_id)});
  table.add_row({"made", result.created_utc});
  add_digest("result.json, SHA-256", result_sha256);
  return "## Provenance\n\n" + table.text();
}

}  // namespace sections

namespace {

/// The benchmark as the run was given it: the path of a definition file, else its name and scale.
std::string given_benchmark(const Result& result) {
  const std::vector<std::string>& argv = result.argv;
  for (size_t i = 1; i < argv.size(); ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("-")) continue;
    if (word.substr(0, word.rfind('@')).ends_with(".toml")) return shell_word(argv[i]);
  }
  return benchmark_name(result.identity);
}

}  // namespace

std::string command_of_work(std::string_view command, const Result& result,
                            const std::string& compared) {
  const Identity& id = result.identity;
  const std::string benchmark = given_benchmark(result);
  const bool known = !id.custom || !id.overrides.empty() || benchmark != benchmark_name(id);
  if (!id.is_own() || !known) return "";
  std::string line = fmt::format("noisemark {} {}", command, benchmark);
  if (!compared.empty()) line += " --axis baseline=" + compared;
  const auto add = [&](const char* option, const std::string& value, const char* usual) {
    if (value != usual) line += fmt::format(" {} {}", option, value);
  };
  add("--mode", id.mode, "none");
  if (compared.empty()) add("--baseline", id.baseline, "plain");
  add("--precision", id.precision, "fp32");
  line += fmt::format(" --device {} --threads {}", id.device, id.threads);
  const Protocol& protocol = result.protocol;
  if (protocol.loader_threads > 1) {
    line += fmt::format(" --loader-threads {}", protocol.loader_threads);
  }
  if (protocol.deterministic) line += " --deterministic";
  for (const std::string& one : id.overrides) {
    line += fmt::format(" --set {}", quoted_shell_word(one));
  }
  if (id.data != "generated") line += " --data DATA";
  return line;
}

namespace {

std::string limit_line(const Result& result, const Insight& insight) {
  if (!insight.limit.empty()) return plain(insight.limit) + ".";
  if (const std::string why = why_no_profile(result); !why.empty()) {
    return fmt::format("not known: {}.", plain(why));
  }
  const std::string command = command_of_work("profile", result);
  if (command.empty()) return "not known, and no command can profile this run.";
  return fmt::format(
      "not known; {} finds it for this folder, DIR, and `noisemark report DIR` says it here.",
      code(command + " --out DIR/profile"));
}

/// The first screen's list: what a person must know.
std::string in_short(const Result& result, const Insight& insight) {
  std::string text;
  const auto add = [&](const char* name, const std::string& words) {
    if (!words.empty()) text += fmt::format("- **{}:** {}\n", name, words);
  };
  const auto sentence = [](std::string words) { return words.empty() ? words : words + "."; };
  const std::string speed = sections::speed_in_short(result);
  add("Speed", sentence(speed));
  add("Memory", sentence(sections::memory_in_short(result)));
  add("Quality", sentence(sections::quality_in_short(result)));
  if (!speed.empty()) add("What limits it", limit_line(result, insight));
  if (!insight.since.empty()) {
    add("Since an earlier run", plain(insight.since) + ".");
  } else if (!speed.empty()) {
    add("Since an earlier run",
        "not compared; `noisemark report DIR --base BASE`, with BASE the folder of a run of the "
        "same mode and baseline, made by other code, says here what changed.");
  }
  return text.empty() ? "" : "\n" + text;
}

/// Sections behind one line that opens them. Those that are empty are left out.
std::string folded(std::string_view name, const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += "\n" + part;
  }
  return fmt::format("\n<details><summary>{}</summary>\n{}\n</details>\n", name, text);
}

}  // namespace

std::string render_report(const Result& result, const std::string& result_sha256,
                          const Plots& plots, const Insight& insight) {
  std::string text = mark_line({result.run_id, result_sha256}) + "\n";
  text += sections::verdict(result) + in_short(result, insight) + left_out_line(plots);
  text += folded("What ran, and its gates", {sections::what_ran(result), sections::gates(result)});
  text += folded(
      "Speed: throughput, time of a step, ranks",
      {sections::throughput(result), sections::step_time(result, plot_line(plots, kStepTimePlot)),
       sections::ranks(result)});
  text += folded(
      "Memory: by owner, saved tensors, mode",
      {sections::memory(result, plot_line(plots, kMemoryPlot)), sections::saved_tensors(result),
       sections::memory_mode(result), sections::batch_fit(result)});
  text += folded("Operators, device, precision",
                 {sections::operators(result), sections::device_use(result),
                  sections::mixed_precision(result)});
  text +=
      folded("Quality: losses and samples",
             {sections::quality(result, plot_line(plots, kLossPlot)), sections::samples(result)});
  text += folded("How to repeat it: noise, environment, seeds, data, command, provenance",
                 {sections::noise(result), sections::environment(result), sections::seeds(result),
                  sections::data(result), sections::repeat(result),
                  sections::provenance(result, result_sha256)});
  return finished_page(text + std::string(kGlossaryLine));
}

namespace {

constexpr std::string_view kReason = "gnuplot ";

/// Returns the reason why plots are missing, by the text; empty when it gives none of gnuplot's
/// reasons.
std::string stated_reason(std::string_view text) {
  const size_t begin = text.find(kPlotsLeftOut);
  if (begin == std::string_view::npos) return "";
  std::string_view reason = text.substr(begin + kPlotsLeftOut.size());
  reason = reason.substr(0, reason.find('\n'));
  if (!reason.starts_with(kReason) || !reason.ends_with('.')) return "";
  reason.remove_suffix(1);
  return std::string(reason);
}

/// The plots that the report may have left out or not.
Plots plots_in(std::string_view text, const Result& result) {
  Plots plots;
  const std::string reason = stated_reason(text);
  for (const PlotSource& source : plot_sources(result)) {
    const std::string file = plot_file(source.name);
    const bool shown = text.find(fmt::format("]({})", file)) != std::string_view::npos;
    if (shown || reason.empty()) {
      plots.links.push_back({source.title, file});
    } else {
      plots.left_out = reason;
    }
  }
  return plots;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::string text_difference(std::string_view text, std::string_view rendered) {
  if (text == rendered) return "";
  for (int line = 1; !text.empty() || !rendered.empty(); ++line) {
    const std::string_view found = take_line(text);
    const std::string_view expected = take_line(rendered);
    if (found == expected) continue;
    return fmt::format("line {} is \"{}\", and the results say \"{}\"", line, found, expected);
  }
  return "its last line has no end";
}

std::string report_difference(std::string_view text, const Result& result,
                              const std::string& result_sha256, const Insight& insight) {
  return text_difference(text,
                         render_report(result, result_sha256, plots_in(text, result), insight));
}

namespace {

constexpr std::string_view kBegin = "<!-- noisemark run_id=";
constexpr std::string_view kMiddle = " result_sha256=";
constexpr std::string_view kEnd = " -->";

}  // namespace

std::string mark_line(const Mark& mark) {
  std::string line(kBegin);
  // An id is of letters and digits; what another one holds could end the comment.
  for (const char c : mark.run_id) line += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  line += kMiddle;
  line += mark.result_sha256;
  return line += kEnd;
}

std::optional<Mark> read_mark(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t middle = line.find(kMiddle);
  if (!line.starts_with(kBegin) || !line.ends_with(kEnd) || middle == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t digest = middle + kMiddle.size();
  Mark mark;
  mark.run_id = line.substr(kBegin.size(), middle - kBegin.size());
  mark.result_sha256 = line.substr(digest, line.size() - kEnd.size() - digest);
  if (mark.run_id.empty() || !is_sha256(mark.result_sha256)) return std::nullopt;
  return mark;
}

}  // namespace noisemark::reports
