#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reports/seeds/distance_file.h"
#include "suite/config/definition.h"
#include "suite/models/denoiser.h"
#include "suite/models/rows.h"
#include "suite/parallel/group.h"

/// Several ranks draw the same samples together, each computing one band of rows (Li et al. 2024,
/// DistriFusion).
namespace noisemark::suite {

enum class PatchMode {
  kFullSync,   ///< every layer waits for the other bands: the samples of one rank, but for rounding
  kDisplaced,  ///< layers take what the others had in the step before, which came meanwhile
  kNoSync,     ///< layers keep what the others had in the last synchronous step: a control
};

struct PatchOptions {
  PatchMode mode = PatchMode::kDisplaced;
  int64_t warmup = 4;  ///< synchronous steps after the first, which always is
  NormRule norm = NormRule::kCorrectedStale;  ///< the rule of displaced steps
  bool unbiased_variance = false;             ///< the peer's factor n / (n - 1)
};

/// The words of --patch-mode. Each is a mode and, where layers are displaced, a rule for group
/// norms.
[[nodiscard]] std::vector<std::string> patch_modes();
/// Sets mode and rule to those of one of these words; leaves them for an empty one.
void set_patch_mode(const std::string& word, PatchOptions& to);
[[nodiscard]] std::string patch_word(const PatchOptions& options);

/// Throws Error, exit code 2, unless so many bands have equally many rows in every
/// stage, and no layer reaches beyond the next band.
void require_equal_bands(int64_t ranks, const ModelConfig& model);

/// The evaluations of the network by one rank.
struct PatchTally {
  int64_t steps = 0;
  int64_t expected_bytes = 0;  ///< bytes that patch_elements() predicts
  Traffic waited;              ///< the part of `traffic` that evaluations wait for
  double seconds = 0;
  Traffic traffic;
};

/// The parts of an evaluation, measured apart.
struct PatchProbe {
  double band_s = 0;       ///< the network on a band, where nobody is asked
  double operation_s = 0;  ///< a gathering of next to nothing
  double bytes_per_s = 0;  ///< bytes per second that one rank gives in a large gathering
};

/// A network whose evaluations all ranks of a group make together. Every rank is given the whole
/// image, computes its band, and returns the whole output.
class PatchedDenoiser final : public Denoiser {
 public:
  PatchedDenoiser(std::shared_ptr<Denoiser> whole, const ModelConfig& model,
                  std::shared_ptr<Group> group, const PatchOptions& options);
  ~PatchedDenoiser() override;

  /// The next evaluation is the first of other samples.
  void begin_samples();
  at::Tensor forward(const at::Tensor& x, const at::Tensor& t) override;

  /// Synchronous evaluations, and the others.
  [[nodiscard]] const PatchTally& synchronous() const { return synchronous_; }
  [[nodiscard]] const PatchTally& displaced() const { return displaced_; }

  /// Measures, with all ranks at once, on the shape of the last evaluation.
  [[nodiscard]] PatchProbe probe();

 private:
  class Exchange;

  std::shared_ptr<Denoiser> whole_;
  ModelConfig model_;
  std::shared_ptr<Group> group_;
  PatchOptions options_;
  std::unique_ptr<Exchange> exchange_;
  int64_t step_ = 0;
  at::Tensor last_band_;
  at::Tensor last_t_;
  PatchTally synchronous_;
  PatchTally displaced_;
};

/// The elements that one rank of `ranks` gives to the others in one evaluation of the network on
/// B = `batch` images [B, C, H, W], each computed in bands of rows. By layer, from the definition
/// alone:
/// - a convolution of reach p, but for the network's first: 2 B C_in p W
/// - a convolution of stride 2, padded below and to the right: B C_in (W + 1)
/// - a group norm: 2 B groups
/// - attention: B (H / ranks) W, times the channels of keys and values
/// - the output: B C (H / ranks) W
struct PatchElements {
  int64_t layers = 0;
  int64_t norms = 0;        ///< the part of `layers` that group norms give
  int64_t group_norms = 0;  ///< their number
  int64_t output = 0;
};

[[nodiscard]] PatchElements patch_elements(const ModelConfig& model, int64_t batch, int64_t ranks);

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
