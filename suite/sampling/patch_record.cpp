#include "suite/sampling/patches.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"

namespace noisemark::suite {
namespace {

/// An exchange that is waited for adds to the step. Another one does not, but for what does not fit
/// beside the computing.
double predicted_s(const PatchProbe& probe, const PatchTally& tally) {
  const auto seconds = [&](const Traffic& traffic) {
    return static_cast<double>(traffic.operations) * probe.operation_s +
           static_cast<double>(traffic.bytes) / probe.bytes_per_s;
  };
  const auto steps = static_cast<double>(tally.steps);
  const double hidden_s = seconds(tally.traffic - tally.waited) / steps;
  return std::max(probe.band_s, hidden_s) + seconds(tally.waited) / steps;
}

std::string shared_processors(int64_t ranks, int64_t threads) {
  const int64_t processors = std::thread::hardware_concurrency();
  if (processors == 0 || ranks * threads <= processors) return "";
  return fmt::format("{} ranks of {} share {} processors", ranks,
                     reports::format_counted(threads, "thread"), processors);
}

int64_t per_step(int64_t all, const PatchTally& tally) {
  return all / tally.steps;
}

}  // namespace

PatchRecord record_of(PatchedDenoiser& patched, const PatchOptions& options, const Group& group,
                      int64_t threads) {
  const PatchProbe probe = patched.probe();
  PatchRecord record;
  record.ranks = group.rank().ranks;
  record.options = options;
  // All ranks are on this machine where they were started by --patch-parallel.
  record.shared_processors = shared_processors(record.ranks, threads);
  const auto add = [&](const std::string& kind, const PatchTally& tally) {
    if (tally.steps > 0) record.steps.push_back({kind, tally, predicted_s(probe, tally)});
  };
  add("synchronous", patched.synchronous());
  add(patch_word(options), patched.displaced());
  return record;
}

std::string patch_words(int64_t ranks, const PatchOptions& options) {
  const std::string words = fmt::format("{} on {} ranks", patch_word(options), ranks);
  if (options.mode == PatchMode::kFullSync) return words;
  return fmt::format("{}, {} warm-up steps", words, options.warmup);
}

reports::SamplingFile::Patches kept_of(const PatchRecord& record) {
  reports::SamplingFile::Patches kept{.ranks = record.ranks,
                                      .mode = patch_word(record.options),
                                      .warmup = record.options.warmup,
                                      .shared_processors = record.shared_processors,
                                      .steps = {}};
  for (const auto& [kind, tally, predicted_step_s] : record.steps) {
    const auto steps = static_cast<double>(tally.steps);
    kept.steps.push_back({.kind = kind,
                          .steps = tally.steps,
                          .bytes = tally.traffic.bytes,
                          .bytes_by_formula = tally.expected_bytes,
                          .operations = tally.traffic.operations,
                          .step_s = tally.seconds / steps,
                          .predicted_step_s = predicted_step_s,
                          .exposed_step_s = tally.traffic.exposed_s / steps});
  }
  return kept;
}

std::string patch_text(const PatchRecord& record) {
  using reports::Align;
  reports::MarkdownTable table({{"steps"},
                                {"number", Align::kRight},
                                {"bytes a step, counted", Align::kRight},
                                {"by formula", Align::kRight},
                                {"ms a step", Align::kRight},
                                {"predicted", Align::kRight},
                                {"exposed", Align::kRight}});
  for (const PatchSteps& one : record.steps) {
    const auto milliseconds = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
    const auto steps = static_cast<double>(one.tally.steps);
    table.add_row({one.kind, reports::format_count(one.tally.steps),
                   reports::format_count(per_step(one.tally.traffic.bytes, one.tally)),
                   reports::format_count(per_step(one.tally.expected_bytes, one.tally)),
                   milliseconds(one.tally.seconds / steps), milliseconds(one.predicted_step_s),
                   milliseconds(one.tally.traffic.exposed_s / steps)});
  }
  std::string text = fmt::format(
      "\nPatches: {}. A step is one evaluation of the network by rank 0, and the bytes are those "
      "that it gives. The prediction adds what a band takes without the others and what their "
      "exchange takes alone.\n\n{}",
      patch_words(record.ranks, record.options), table.text());
  if (record.shared_processors.empty()) return text;
  return text + fmt::format("\nNo efficiency is claimed: {}.\n", record.shared_processors);
}

}  // namespace noisemark::suite
