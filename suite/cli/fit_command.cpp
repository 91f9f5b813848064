#include "suite/cli/fit_command.h"

#include <fmt/format.h>

#include <optional>

#include "memopt/budget_mode.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "suite/cli/output_format.h"
#include "suite/run/deterministic.h"
#include "suite/run/interrupt.h"
#include "suite/run/largest_batch.h"
#include "suite/run/plan.h"
#include "suite/run/single_run.h"

namespace noisemark::suite {
namespace {

std::vector<std::string> row_of(const PlannedRun& plan, const reports::BatchFit& found) {
  return {plan.variant.mode,
          plan.variant.baseline,
          plan.variant.precision.name,
          reports::format_count(found.batch),
          found.peak_bytes ? reports::format_bytes(*found.peak_bytes) : "",
          found.next_peak_bytes ? reports::format_bytes(*found.next_peak_bytes) : found.next_words};
}

reports::BatchFit fit_one(const RunOptions& options, const PlannedRun& plan, int64_t memory_bytes,
                          const InterruptGuard& interrupt) {
  apply_variant(plan.variant);
  Progress line(plan.id + " " + variant_label(plan.variant), 1, 1);
  try {
    return largest_batch(session_options(options, plan), memory_bytes, {line, interrupt});
  } catch (const Interrupted& error) {
    throw Error(ExitCode::kInterrupted, error.what());
  }
}

}  // namespace

int64_t size_of(const Arguments& arguments, const std::string& flag) {
  const std::string accepted(memopt::kSizeForms);
  const std::string where = "--" + flag;
  if (!arguments.has(flag)) throw bad_input(where, "", "nothing given", accepted);
  const std::string text = arguments.text(flag);
  const std::optional<int64_t> bytes = memopt::parse_bytes(text);
  if (!bytes) throw bad_input(where, "", text, accepted);
  return *bytes;
}

Answer fit_batches(const Arguments& arguments, const RunOptions& options) {
  choose_cublas_workspace();  // that of a run, whose memory it counts in
  const int64_t memory_bytes = size_of(arguments, "memory");
  require_benchmark("fit", options.id);
  const std::vector<PlannedRun> plans = plan_runs(options);
  for (const PlannedRun& plan : plans) require_countable_batch(plan.variant);
  using reports::Align;
  reports::MarkdownTable table({{"mode"},
                                {"baseline"},
                                {"precision"},
                                {"largest batch", Align::kRight},
                                {"its peak", Align::kRight},
                                {"peak of the next", Align::kRight}});
  const InterruptGuard interrupt;
  Answer answer;
  for (const PlannedRun& plan : plans) {
    const reports::BatchFit found = fit_one(options, plan, memory_bytes, interrupt);
    if (found.batch == 0) answer.code = ExitCode::kFailed;
    table.add_row(row_of(plan, found));
  }
  answer.text = deliver(arguments, fmt::format("# {} within {}\n\n{}", plans.front().id,
                                               reports::format_bytes(memory_bytes), table.text()));
  return answer;
}

}  // namespace noisemark::suite
