#include "suite/run/passes/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memopt/modes/mode_grammar.h"
#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/render/plot.h"
#include "suite/data/loader.h"
#include "suite/probes/phase_timer.h"

namespace noisemark::suite {
namespace {

/// Two forward passes are recorded; other work on the machine only adds to what a step takes. What
/// the loader makes it wait for is no part of it.
double recorded_step_s(const reports::Samples& samples, int64_t passes_of_a_step) {
  const size_t recorded = std::min<size_t>(passes_of_a_step == 1 ? 2 : 1, samples.step_s.size());
  double shortest_s = std::numeric_limits<double>::infinity();
  for (size_t step = 0; step < recorded; ++step) {
    shortest_s = std::min(shortest_s, samples.step_s[step] - samples.data_wait_s[step]);
  }
  return shortest_s;
}

}  // namespace

MemoryPlan make_memory_plan(const SessionOptions& options) {
  SessionOptions own = options;
  const memopt::Budget& budget = options.spec.mode.budget.value();
  const int64_t steps = memopt::BudgetMode(budget).forwards_until_steady();
  // The loader makes batches ahead, which are live while the step is recorded: as many as in a run.
  own.spec.definition.train.steps = steps + LoaderOptions().prefetch;
  const Session session = make_session(own);
  const auto& mode = dynamic_cast<const memopt::BudgetMode&>(*session.mode);
  Trainer& trainer = *session.trainer;
  PhaseTimer timer(options.spec.device);
  while (trainer.next_step() < steps && mode.planner() == nullptr) {
    static_cast<void>(trainer.step({&timer}));
  }
  if (mode.planner() == nullptr) {
    throw bad_input("plan", "", own.spec.definition.id,
                    "a step that can be recorded; " + mode.report().missing_reason);
  }
  MemoryPlan plan;
  plan.id = own.spec.definition.id + "@" + own.spec.definition.scale;
  plan.variant = variant_label(options.spec);
  plan.budget = budget;
  plan.planner = mode.planner();
  plan.answer = mode.answer();
  plan.recorded_step_s = recorded_step_s(timer.samples(), own.spec.definition.train.accumulation);
  plan.planning_s = mode.planning_s();
  plan.codec_measuring_s = mode.codec_measuring_s();
  plan.measured_error = mode.measured_error();
  plan.probed_passes = mode.probed_passes();
  return plan;
}

double predicted_step_s(const MemoryPlan& plan, const memopt::PlanPoint& point) {
  return plan.recorded_step_s + static_cast<double>(point.cost_ns) * 1e-9;
}

std::string draw_memory_plan(const MemoryPlan& plan, const std::filesystem::path& folder) {
  const memopt::BudgetTarget target = plan.budget.target;
  std::vector<reports::ParetoPoint> points;
  for (const memopt::PlanPoint& point : plan.planner->curve()) {
    const bool chosen = plan.answer && plan.answer->point.same_plan_as(point);
    points.push_back({point.of(target), static_cast<double>(point.cost_ns) * 1e-9, chosen});
  }
  const char* label = target == memopt::BudgetTarget::kPeak ? "peak_bytes" : "peak_saved_bytes";
  return reports::write_plots(folder,
                              std::vector{reports::pareto_plot(points, plan.budget.bytes, label)})
      .left_out;
}

namespace {

using memopt::BudgetAnswer;
using memopt::BudgetTarget;
using memopt::PlanPoint;
using memopt::StepGraph;
using memopt::TreatmentPlan;
using memopt::ValueId;
using reports::Align;
using reports::format_bytes;

double seconds(double ns) {
  return ns * 1e-9;
}

std::string segment_of(const StepGraph& graph, ValueId id) {
  const memopt::RecordedOperator* producer = graph.producer_of(id);
  if (producer == nullptr || producer->segment == memopt::kNone) return "";
  return graph.segments[static_cast<size_t>(producer->segment)];
}

std::string made_by(const StepGraph& graph, ValueId id) {
  const memopt::RecordedOperator* producer = graph.producer_of(id);
  return producer == nullptr ? "outside the model" : producer->name;
}

std::string treatment_words(const TreatmentPlan& plan, ValueId id) {
  const memopt::ValueTreatment& treatment = plan.values[static_cast<size_t>(id)];
  switch (treatment.source) {
    case memopt::Source::kHeld:
      return fmt::format("kept: {}", memopt::keep_reason_name(treatment.reason));
    case memopt::Source::kEncoded:
      return fmt::format("encoded by {}", treatment.codec->name());
    case memopt::Source::kMadeAgain:
      return treatment.light ? "recomputed, twice where that holds less" : "recomputed";
    case memopt::Source::kSliced:
      return "a part is kept";
    case memopt::Source::kModel:
    case memopt::Source::kUnavailable:
      break;
  }
  return "kept";
}

/// The saved storages of a block that one operator made and that are treated alike.
struct StorageRow {
  std::string segment;
  std::string made_by;
  std::string treatment;
  int64_t bytes = 0;
  int64_t storages = 0;

  [[nodiscard]] bool is_like(const StorageRow& other) const {
    return segment == other.segment && made_by == other.made_by && treatment == other.treatment;
  }
};

/// Tabulates the saved storages, the most bytes first.
std::vector<StorageRow> storage_rows(const TreatmentPlan& plan) {
  const StepGraph& graph = *plan.graph;
  std::set<memopt::StorageId> seen;
  std::vector<StorageRow> rows;
  for (const memopt::RecordedSlot& slot : graph.slots) {
    const memopt::StorageId id = graph.values[static_cast<size_t>(slot.value)].storage;
    const memopt::RecordedStorage& storage = graph.storages[static_cast<size_t>(id)];
    if (storage.external || !seen.insert(id).second) continue;
    StorageRow row{segment_of(graph, slot.value), made_by(graph, slot.value),
                   treatment_words(plan, slot.value)};
    auto alike = std::find_if(rows.begin(), rows.end(),
                              [&](const StorageRow& other) { return row.is_like(other); });
    if (alike == rows.end()) alike = rows.insert(rows.end(), std::move(row));
    alike->bytes += storage.bytes;
    ++alike->storages;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const StorageRow& a, const StorageRow& b) { return a.bytes > b.bytes; });
  return rows;
}

std::string storages_table(const TreatmentPlan& plan) {
  reports::MarkdownTable table({{"bytes", Align::kRight},
                                {"storages", Align::kRight},
                                {"block"},
                                {"made by"},
                                {"treatment"}});
  for (const StorageRow& row : storage_rows(plan)) {
    table.add_row({format_bytes(row.bytes), reports::format_count(row.storages), row.segment,
                   row.made_by, row.treatment});
  }
  return table.text() +
         "\nA codec `mask1` holds a mask in one bit for each element; `memopt/codecs/README.md` "
         "describes all codecs.\n";
}

std::string segments_table(const memopt::Planner& planner, const PlanPoint& point) {
  reports::MarkdownTable table({{"block"}, {"treated as"}});
  const memopt::BlockOptions& options = planner.options();
  for (size_t block = 0; block < point.chosen.size(); ++block) {
    if (options.name(block).empty()) continue;
    table.add_row({options.name(block), options.options()[point.chosen[block]].name});
  }
  constexpr const char* kWords =
      "\n`keep` holds what autograd saves. `exact` does too, but with masks in one bit and casts "
      "in the narrower type. The others are memory modes; `up to` is the most time that they spend "
      "to recompute a byte.\n";
  if (point.held.empty()) return table.text() + kWords;
  return fmt::format(
      "{}{}{} of these blocks {} held all the same.\n", table.text(), kWords,
      reports::format_counted(static_cast<int64_t>(point.held.size()), "saved storage"),
      point.held.size() == 1 ? "is" : "are");
}

/// Milliseconds, and how much more that is than keeping everything takes.
std::string step_words(const MemoryPlan& plan, const PlanPoint& point) {
  const double step_s = predicted_step_s(plan, point);
  return fmt::format("{} ms, +{}", reports::format_ms(step_s),
                     reports::format_percent(step_s / plan.recorded_step_s - 1));
}

std::string curve_table(const MemoryPlan& plan) {
  reports::MarkdownTable table({{"peak_bytes", Align::kRight},
                                {"peak_saved_bytes", Align::kRight},
                                {"saved_bytes", Align::kRight},
                                {"added to a step", Align::kRight},
                                {"predicted step", Align::kRight},
                                {"gradient error, expected", Align::kRight},
                                {"chosen"}});
  for (const PlanPoint& point : plan.planner->curve()) {
    const bool chosen = plan.answer && plan.answer->point.same_plan_as(point);
    const bool known = plan.budget.target == BudgetTarget::kPeak;
    table.add_row(
        {known ? format_bytes(point.peak_bytes) : "", format_bytes(point.peak_saved_bytes),
         format_bytes(point.saved_bytes),
         reports::format_seconds(seconds(static_cast<double>(point.cost_ns))),
         step_words(plan, point),
         plan.budget.error ? reports::format_number(point.error) : std::string(reports::kMissing),
         chosen ? "by the budget" : ""});
  }
  return table.text();
}

/// Describes the bytes that no plan goes below.
std::string bound_words(const BudgetAnswer& answer) {
  if (!answer.gap()) return "no bound known";
  return reports::format_seconds(seconds(answer.lower_bound_ns));
}

std::string gap_words(const BudgetAnswer& answer) {
  const std::optional<double> gap = answer.gap();
  if (!gap) return "not known";
  const auto cost = static_cast<double>(answer.point.cost_ns);
  return fmt::format("{}, {}", reports::format_percent(*gap),
                     reports::format_seconds(seconds(cost - answer.lower_bound_ns)));
}

void add_error_rows(const MemoryPlan& plan, reports::MarkdownTable& table) {
  if (!plan.budget.error) return;
  table.add_row(
      {"bound of the gradient's relative error", reports::format_number(*plan.budget.error)});
  table.add_row({"expected of the plan", reports::format_number(plan.answer->point.error)});
  table.add_row({"measured on the recorded step", reports::format_number(*plan.measured_error)});
  table.add_row({"backward passes that measured errors", fmt::format("{}", plan.probed_passes)});
}

std::string answer_table(const MemoryPlan& plan) {
  const BudgetAnswer& answer = *plan.answer;
  reports::MarkdownTable table({{"figure"}, {"value", Align::kRight}});
  const bool peak = plan.budget.target == BudgetTarget::kPeak;
  table.add_row({peak ? "budget of peak_bytes" : "budget of peak_saved_bytes",
                 format_bytes(plan.budget.bytes)});
  if (peak) table.add_row({"predicted peak_bytes", format_bytes(answer.point.peak_bytes)});
  table.add_row({"predicted peak_saved_bytes", format_bytes(answer.point.peak_saved_bytes)});
  table.add_row({"predicted saved_bytes", format_bytes(answer.point.saved_bytes)});
  table.add_row({"predicted to be added to a step",
                 reports::format_seconds(seconds(static_cast<double>(answer.point.cost_ns)))});
  table.add_row({"recorded step, which keeps everything",
                 fmt::format("{} ms", reports::format_ms(plan.recorded_step_s))});
  table.add_row({"predicted step", step_words(plan, answer.point)});
  table.add_row({"least time that any plan adds (lower bound)", bound_words(answer)});
  table.add_row({"added above that bound", gap_words(answer)});
  table.add_row(
      {"choices for the blocks", answer.exact ? "all were tried" : "searched, not all were tried"});
  add_error_rows(plan, table);
  table.add_row({"smallest budget that can be met, with a margin",
                 memopt::spell_at_least(plan.planner->smallest_bytes())});
  table.add_row({"planning took", reports::format_seconds(plan.planning_s)});
  table.add_row({"measuring codecs before that", reports::format_seconds(plan.codec_measuring_s)});
  return table.text();
}

/// A sentence with what a reader came for; empty where no budget asked for a plan.
std::string verdict_words(const MemoryPlan& plan) {
  if (!plan.answer) return "";
  const bool peak = plan.budget.target == BudgetTarget::kPeak;
  const PlanPoint& point = plan.answer->point;
  return fmt::format(
      "The plan keeps {} at {} of the budget's {}; a step is predicted to take {} ms, {} longer "
      "than one that keeps everything.\n\n",
      peak ? "peak_bytes" : "peak_saved_bytes",
      format_bytes(peak ? point.peak_bytes : point.peak_saved_bytes),
      format_bytes(plan.budget.bytes), reports::format_ms(predicted_step_s(plan, point)),
      reports::format_percent(predicted_step_s(plan, point) / plan.recorded_step_s - 1));
}

}  // namespace

std::string memory_plan_text(const MemoryPlan& plan) {
  std::string text =
      fmt::format("# Plan of {}, {}\n\n{}", plan.id, plan.variant, verdict_words(plan));
  if (plan.answer) text += answer_table(plan) + "\n";
  text +=
      "## Pareto curve\n\nNone of these plans has both less memory and less time than another "
      "one.\n\n" +
      curve_table(plan);
  if (!plan.answer) return reports::finished_page(text + std::string(reports::kGlossaryLine));
  const TreatmentPlan treatment = plan.planner->plan(plan.answer->point);
  text += "\n## Blocks\n\n" + segments_table(*plan.planner, plan.answer->point);
  text += "\n## Saved storages\n\n" + storages_table(treatment);
  return reports::finished_page(text + std::string(reports::kGlossaryLine));
}

}  // namespace noisemark::suite
