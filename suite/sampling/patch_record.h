#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/seeds/distance_file.h"
#include "suite/sampling/patches.h"

namespace noisemark::suite {

/// The steps of one kind: what they cost, and what they would by figures measured apart.
struct PatchSteps {
  std::string kind;  ///< "synchronous", or the word of the mode
  PatchTally tally;
  double predicted_step_s = 0;
};

/// The cost of a sampling by several ranks. The figures are rank 0's.
struct PatchRecord {
  int64_t ranks = 1;
  PatchOptions options;
  /// The reason why no efficiency is claimed; empty where every rank has processors of its own.
  std::string shared_processors;
  std::vector<PatchSteps> steps;  ///< kinds that were made
};

/// Measures the parts that the prediction adds up, together with all other ranks.
[[nodiscard]] PatchRecord record_of(PatchedDenoiser& patched, const PatchOptions& options,
                                    const Group& group, int64_t threads);

/// "displaced on 2 ranks, 4 warm-up steps": all of it that decides the samples.
[[nodiscard]] std::string patch_words(int64_t ranks, const PatchOptions& options);

/// The section of sampling.json.
[[nodiscard]] reports::SamplingFile::Patches kept_of(const PatchRecord& record);

/// A table of the steps, and what it may not be taken for.
[[nodiscard]] std::string patch_text(const PatchRecord& record);

}  // namespace noisemark::suite
