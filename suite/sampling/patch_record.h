#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "suite/sampling/patches.h"

namespace noisemark::suite {

/// The steps of one kind: what they cost, and what they would by figures measured apart.
struct PatchSteps {
  std::string kind;  ///< "synchronous", or the word of the mode
  PatchTally tally;
  double predicted_step_s = 0;
};

/// What became of a sampling by several ranks. The figures are rank 0's.
struct PatchRecord {
  int64_t ranks = 1;
  PatchOptions options;
  std::string
      shared_processors;  ///< why no efficiency is claimed; empty where every rank has its own
  std::vector<PatchSteps> steps;  ///< kinds that were made
};

/// Measures what the prediction is of, with all other ranks, and adds up.
[[nodiscard]] PatchRecord record_of(PatchedDenoiser& patched, const PatchOptions& options,
                                    const Group& group, int64_t threads);

/// "displaced on 2 ranks, 4 warm-up steps": all of it that decides the samples.
[[nodiscard]] std::string patch_words(int64_t ranks, const PatchOptions& options);

[[nodiscard]] nlohmann::ordered_json patch_json(const PatchRecord& record);

/// A table of the steps, and what it may not be taken for.
[[nodiscard]] std::string patch_text(const PatchRecord& record);

}  // namespace noisemark::suite
