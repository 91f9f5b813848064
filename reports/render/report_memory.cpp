#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/render/report.h"
#include "reports/render/report_sections.h"
#include "reports/render/table.h"

namespace noisemark::reports::sections {
namespace {

std::vector<const MemorySnapshot*> instants(const MemorySection& memory) {
  std::vector<const MemorySnapshot*> all;
  for (const MemorySnapshot& shot : memory.boundaries) all.push_back(&shot);
  all.push_back(&memory.peak);
  return all;
}

MarkdownTable owners_table(const std::vector<const MemorySnapshot*>& shots) {
  std::vector<MarkdownTable::Column> columns{{"owner (MiB)"}};
  for (const MemorySnapshot* shot : shots) {
    std::string title = shot->at.empty() ? "peak" : shot->at;
    std::replace(title.begin(), title.end(), '_', ' ');
    columns.push_back({title, Align::kRight});
  }
  return MarkdownTable(columns);
}

// Rows of owners that hold something at any instant; the names of the others go to `idle`.
void add_owners(const MemorySection& memory, const std::vector<const MemorySnapshot*>& shots,
                MarkdownTable& table, std::vector<std::string>& idle) {
  for (const std::string& category : memory.categories) {
    std::vector<std::string> row{category};
    bool any = false;
    for (const MemorySnapshot* shot : shots) {
      const int64_t bytes = shot->bytes_of(category);
      any = any || bytes != 0;
      row.push_back(format_mib(bytes));
    }
    if (any) table.add_row(row);
    if (!any) idle.push_back(plain(category));
  }
}

void add_closure(const std::vector<const MemorySnapshot*>& shots, MarkdownTable& table) {
  std::vector<std::string> total{"**live, by the allocator**"};
  std::vector<std::string> closure{"without an owner"};
  for (const MemorySnapshot* shot : shots) {
    total.push_back(format_mib(shot->allocator_bytes));
    closure.push_back(format_exact_bytes(shot->unattributed_bytes));
  }
  table.add_row(closure);
  table.add_row(total);
}

}  // namespace

std::string memory_in_short(const Result& result) {
  const MemorySection& m = result.memory;
  const auto largest =
      std::max_element(m.peak.by_category.begin(), m.peak.by_category.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (!m.measured || m.peak_bytes <= 0 || largest == m.peak.by_category.end()) return "";
  return fmt::format(
      "the largest owner at the peak, in {}, is {} with {} ({})", plain(m.peak_phase),
      plain(largest->first), format_bytes(largest->second),
      format_percent(static_cast<double>(largest->second) / static_cast<double>(m.peak_bytes)));
}

std::string memory(const Result& result, const std::string& plot) {
  const MemorySection& m = result.memory;
  std::string text = "## Memory by owner\n\n";
  if (!m.measured) return text + not_measured(m.missing_reason) + training_memory(result);
  const auto shots = instants(m);
  MarkdownTable table = owners_table(shots);
  std::vector<std::string> idle;
  add_owners(m, shots, table, idle);
  add_closure(shots, table);
  text += table.text();
  text += fmt::format(
      "\nThe peak was {} ({}), in {}, inside {}. Every storage counts once, and the rows add up "
      "to what the allocator holds.\n",
      format_bytes(m.peak_bytes), format_exact_bytes(m.peak_bytes),
      m.peak_phase.empty() ? "no known phase" : plain(m.peak_phase),
      m.peak_operator.empty() ? "no operator" : code(m.peak_operator));
  text +=
      "Temporary is what an operator made in the current phase and nobody keeps when the phase "
      "ends; if it lives on, it is without an owner from then on.\n";
  if (!idle.empty()) text += fmt::format("These owners held nothing: {}.\n", fmt::join(idle, ", "));
  text += fmt::format(
      "The process has {} outside the allocator. After the step {} were left over. A step made {} "
      "allocations.\nThe source of these figures is {}.\n",
      m.outside_allocator_bytes ? format_bytes(*m.outside_allocator_bytes)
                                : "an unknown number of bytes",
      format_exact_bytes(m.leaked_bytes), format_count(m.allocations),
      m.source.empty() ? "not recorded" : fmt::format("the {}", plain(m.source)));
  text += device_memory(m);
  text += convolution_workspace(m);
  text += training_memory(result);
  text += plot;
  return text;
}

std::string saved_tensors(const Result& result) {
  const MemorySection& m = result.memory;
  std::string text = "## Saved for backward\n\n";
  if (!m.measured) return text + not_measured(m.missing_reason);
  MarkdownTable table({{"figure"}, {"value", Align::kRight}, {"what"}});
  table.add_row(
      {"saved", format_bytes(m.saved_bytes),
       "distinct storages that forward leaves: for backward, and the prediction and losses"});
  table.add_row({"at most", format_bytes(m.peak_saved_bytes),
                 "maximum over the step, with what is decoded or recomputed"});
  table.add_row({"summed by tensor", format_bytes(m.naive_saved_bytes),
                 m.saved_bytes > 0
                     ? fmt::format("counts shared storages again: {:.2f} times what is saved",
                                   static_cast<double>(m.naive_saved_bytes) /
                                       static_cast<double>(m.saved_bytes))
                     : "counts shared storages again"});
  table.add_row({"saved tensors", format_count(m.saved_tensors), "kept by autograd in one step"});
  return text + table.text();
}

std::string batch_fit(const Result& result) {
  const BatchFit& fit = result.batch_fit;
  if (!fit.memory_bytes) return "";
  std::string text = fmt::format("## Largest batch within {}\n\n", format_bytes(*fit.memory_bytes));
  if (!fit.missing_reason.empty()) return text + not_measured(fit.missing_reason);
  MarkdownTable table({{"batch"}, {"value", Align::kRight}, {"peak", Align::kRight}});
  table.add_row({"the largest that fits", format_count(fit.batch),
                 fit.peak_bytes ? format_bytes(*fit.peak_bytes) : "none fits"});
  table.add_row({"the next larger", "",
                 fit.next_peak_bytes ? format_bytes(*fit.next_peak_bytes) : fit.next_words});
  return text + table.text() +
         fmt::format(
             "\nThe mode is {}. Peaks were measured in steady steps; nothing is extrapolated.\n",
             code(result.identity.mode));
}

namespace {

constexpr size_t kTensorsShown = 8;
constexpr size_t kHeldShown = 12;

std::string bytes_cell(const std::optional<int64_t>& bytes) {
  return bytes ? format_bytes(*bytes) : "";
}

std::string factor_text(const std::optional<double>& times) {
  return times ? fmt::format("{:.2f}", *times) : "";
}

std::string factor_cell(const std::optional<int64_t>& plain, int64_t under_mode) {
  return factor_text(times_fewer(plain, under_mode));
}

std::string signed_percent(double frac) {
  return fmt::format("{}{}", frac < 0 ? "-" : "+", format_percent(frac < 0 ? -frac : frac));
}

std::string bytes_table(const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  const MemorySection& m = result.memory;
  if (!m.measured) return not_measured(m.missing_reason);
  MarkdownTable table({{"bytes"},
                       {"none, plain", Align::kRight},
                       {"predicted", Align::kRight},
                       {"measured", Align::kRight},
                       {"none / this mode", Align::kRight}});
  struct Row {
    const char* name;
    std::optional<int64_t> StepBytes::*figure;
    int64_t measured;
  };
  const std::array rows{Row{"peak", &StepBytes::peak_bytes, m.peak_bytes},
                        Row{"saved", &StepBytes::saved_bytes, m.saved_bytes},
                        Row{"saved, at most", &StepBytes::peak_saved_bytes, m.peak_saved_bytes}};
  for (const Row& row : rows) {
    const std::optional<int64_t>& plain = mode.plain.*row.figure;
    table.add_row({row.name, bytes_cell(plain), bytes_cell(mode.predicted.*row.figure),
                   format_bytes(row.measured), factor_cell(plain, row.measured)});
  }
  table.add_row({"of saved, encoded", "", "", format_bytes(mode.encoded_bytes), ""});
  if (mode.irreplaceable_bytes) {
    table.add_row({"no plan can recompute", "", bytes_cell(mode.irreplaceable_bytes), "",
                   factor_text(most_times_fewer(mode))});
  }
  return table.text();
}

std::string budget_words(const ModeBudget& budget) {
  if (!budget.bytes) return "";
  std::string text = fmt::format("\nThe budget bounds {} of a steady step to {}",
                                 plain(budget.figure), format_exact_bytes(*budget.bytes));
  if (budget.error_frac) {
    text +=
        fmt::format(" and the gradient's relative error to {}", format_number(*budget.error_frac));
  }
  if (budget.measured_error_frac) {
    text += fmt::format(" ({} on the step by which the plan was chosen)",
                        format_number(*budget.measured_error_frac));
  }
  return text + ".\n";
}

/// Says which passes had steps that did not keep the budget, or whose error is uncertain.
std::string budget_step_words(const MemoryMode& mode) {
  std::string text;
  for (const PassFallbacks& pass : mode.fallbacks) {
    if (!pass.budget) continue;
    const BudgetSteps& kept = *pass.budget;
    const std::string steps =
        fmt::format("of {} steps of the {} pass", format_count(kept.steps), plain(pass.pass));
    if (kept.exceeded > 0) {
      text += fmt::format("The budget was **not kept** in {} {}. In the last one {}.\n",
                          format_count(kept.exceeded), steps, plain(kept.exceeded_reason));
    }
    if (kept.uncertain > 0) {
      text += fmt::format(
          "The gradient's error may have been above twice its bound in {} {}. In the last one "
          "{}.\n",
          format_count(kept.uncertain), steps, plain(kept.uncertain_reason));
    }
  }
  return text;
}

std::string overhead_words(const MemoryMode& mode) {
  const Overhead& overhead = mode.overhead;
  std::string text = "\n**Overhead:** ";
  if (!overhead.frac) return text + not_measured(overhead.missing_reason);
  text +=
      fmt::format("a step takes {} {} than under {} (", format_percent(std::abs(*overhead.frac)),
                  *overhead.frac < 0 ? "less time" : "longer", plain(mode.reference));
  if (overhead.ci95) {
    text += fmt::format("95 %: {} to {}; ", signed_percent(overhead.ci95->low),
                        signed_percent(overhead.ci95->high));
  }
  text += fmt::format("{} in turns in one process).",
                      format_counted(std::ssize(overhead.step_s), "round"));
  if (overhead.noise_frac) {
    text += fmt::format(" Two trainings under none differed by {}.",
                        signed_percent(*overhead.noise_frac));
  }
  constexpr double kWide = 0.1;
  const double width = overhead.ci95 ? overhead.ci95->high - overhead.ci95->low : 0;
  if (width > std::max(kWide, std::abs(*overhead.frac))) {
    text +=
        " **The interval is so wide that this tells little:** the machine did other work "
        "meanwhile, or the rounds were too few.";
  }
  return text + "\n";
}

std::string prediction_words(const MemoryMode& mode) {
  if (!mode.predicted_added_s) return "";
  const std::optional<double> share = predicted_overhead_frac(mode);
  return fmt::format(
      "The plan predicted {} more in a step{}, from the recorded times of operators.\n",
      format_seconds(*mode.predicted_added_s),
      share ? fmt::format(" ({} of a step under none)", signed_percent(*share)) : "");
}

std::string certificate_words(const MemoryMode& mode) {
  const Certificate& proof = mode.certificate;
  const bool applied = proof.verdict != Verdict::kNotApplied;
  std::string text =
      fmt::format("\n**Certificate:** {}{}{}\n", applied ? verdict_mark(proof.verdict) : "",
                  applied ? ": " : "", plain(proof.words));
  const bool judged = proof.verdict == Verdict::kPass || proof.verdict == Verdict::kFail;
  if (!judged || proof.steps.empty()) return text;
  MarkdownTable table({{"after step", Align::kRight}, {"SHA-256"}, {"under none"}});
  // A changed file may have lists of unequal lengths, which `check` names.
  const size_t known =
      std::min({proof.steps.size(), proof.sha256.size(), proof.reference_sha256.size()});
  for (size_t i = 0; i < known; ++i) {
    const bool same = proof.sha256[i] == proof.reference_sha256[i];
    table.add_row({fmt::format("{}", proof.steps[i]), code(proof.sha256[i]),
                   same ? "the same" : code(proof.reference_sha256[i])});
  }
  return text + "\n" + table.text();
}

std::string gradient_words(const MemoryMode& mode) {
  const GradientError& error = mode.gradient_error;
  std::string text = "\n**Gradient error:** ";
  if (!error.error_frac) return text + not_measured(error.missing_reason);
  text += fmt::format(
      "in one step with the weights and the batch of none, the gradient differs from that of none "
      "by {} times its length (2-norm).\n",
      format_number(*error.error_frac));
  if (*error.error_frac == 0) return text;
  std::vector<TensorError> worst = error.tensors;
  std::stable_sort(worst.begin(), worst.end(), [](const TensorError& a, const TensorError& b) {
    return a.error_frac > b.error_frac;
  });
  MarkdownTable table({{"gradient of"}, {"relative error", Align::kRight}});
  for (size_t i = 0; i < std::min(kTensorsShown, worst.size()); ++i) {
    table.add_row({code(worst[i].name), format_number(worst[i].error_frac)});
  }
  return text +
         fmt::format("These are the largest of {} tensors:\n\n", format_count(std::ssize(worst))) +
         table.text();
}

std::string host_words(const HostMemory& host) {
  if (!host.capacity_bytes) return "";
  const std::string text = fmt::format("Host memory: {}; ", format_bytes(*host.capacity_bytes));
  if (host.refused_tensors == 0) return text + "all that was to go there found room.\n";
  return text + fmt::format("{} tensors ({}) found no room there and stayed on the device.\n",
                            format_count(host.refused_tensors), format_bytes(host.refused_bytes));
}

constexpr const char* kFallbackWords =
    "A recipe was not exact if it recomputed other bits; the tensor was then kept. A shortcut, a "
    "cheaper way of recomputing, was not exact if it gave other bits; the full way was then taken. "
    "An operator was not repeatable if its arguments changed between recorded steps. A forward "
    "pass on another path did not follow the recorded one and kept everything. A recipe was made "
    "twice if it ran again in the same backward pass.\n";

std::string fallback_words(const MemoryMode& mode) {
  MarkdownTable table({{"fallbacks in the"},
                       {"recipe not exact", Align::kRight},
                       {"shortcut not exact", Align::kRight},
                       {"not repeatable", Align::kRight},
                       {"not taken by codec", Align::kRight},
                       {"other path", Align::kRight},
                       {"made twice", Align::kRight}});
  std::string notes;
  for (const PassFallbacks& one : mode.fallbacks) {
    const std::string pass = one.pass + " pass";
    if (!one.missing_reason.empty()) {
      table.add_row({pass, "", "", "", "", "", ""});
      notes +=
          fmt::format("**Fallbacks in the {}:** {}", plain(pass), not_measured(one.missing_reason));
      continue;
    }
    table.add_row({pass, format_count(one.kept_after_mismatch),
                   format_count(one.replayed_after_mismatch), format_count(one.unrepeatable),
                   format_count(one.codec_fallbacks), format_count(one.departures),
                   format_count(one.recipes_run_again)});
    if (one.plan_missing_reason.empty()) continue;
    notes += fmt::format("The {} ended without a plan and kept everything: {}.\n", plain(pass),
                         plain(one.plan_missing_reason));
  }
  return fmt::format("\n{}\n{}{}", table.text(), kFallbackWords, notes);
}

std::string held_table(const MemoryMode& mode) {
  if (mode.held.empty()) return "";
  MarkdownTable table(
      {{"held, made by"}, {"because"}, {"storages", Align::kRight}, {"MiB", Align::kRight}});
  for (size_t i = 0; i < std::min(kHeldShown, mode.held.size()); ++i) {
    const HeldStorages& group = mode.held[i];
    table.add_row(
        {code(group.made_by), group.reason, format_count(group.storages), format_mib(group.bytes)});
  }
  return fmt::format("\n{}", table.text());
}

/// The reason why nothing is known of the plan of the memory pass; empty where it was made.
std::string why_no_memory_pass(const Result& result) {
  for (const PassFallbacks& one : result.memory_mode.fallbacks) {
    if (one.pass == "memory") return one.missing_reason;
  }
  return "";
}

std::string plan_words(const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  const std::string no_pass = why_no_memory_pass(result);
  if (!no_pass.empty()) return fmt::format("\n**Plan:** {}", not_measured(no_pass));
  if (!mode.plan_missing_reason.empty()) {
    return fmt::format("\n**Plan:** there is none: {}. Everything is kept.\n",
                       plain(mode.plan_missing_reason));
  }
  // A slice is held for a tensor that is recomputed, so its bytes are counted in both.
  const int64_t slices =
      mode.held_bytes + mode.encoded_from_bytes + mode.dropped_bytes - mode.recorded_bytes;
  std::string text = fmt::format(
      "\n**Plan:** autograd saves {}. The plan holds {} as it is and {} encoded, and recomputes "
      "{} by {}{}.\n",
      format_bytes(mode.recorded_bytes), format_bytes(mode.held_bytes - slices),
      format_bytes(mode.encoded_from_bytes), format_bytes(mode.dropped_bytes),
      format_counted(mode.recipes, "recipe"),
      slices > 0 ? fmt::format(", for which it also keeps slices of {}", format_bytes(slices))
                 : "");
  if (mode.irreplaceable_bytes) {
    text += fmt::format(
        "No plan of this mode could recompute {} of the {}, because their operator is not "
        "recomputed or not repeatable, or has an input that is not kept.\n",
        format_bytes(*mode.irreplaceable_bytes), format_bytes(mode.recorded_bytes));
  }
  return text + host_words(mode.host_memory) + held_table(mode);
}

}  // namespace

std::string memory_mode(const Result& result) {
  const MemoryMode& mode = result.memory_mode;
  if (!result.identity.has_mode()) return "";
  std::string text = fmt::format("## Memory mode {}\n\n", code(result.identity.mode));
  if (!mode.measured) return text + not_measured(mode.missing_reason);
  return text + bytes_table(result) + budget_words(mode.budget) + budget_step_words(mode) +
         overhead_words(mode) + prediction_words(mode) + certificate_words(mode) +
         gradient_words(mode) + plan_words(result) + fallback_words(mode);
}

}  // namespace noisemark::reports::sections
