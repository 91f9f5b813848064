#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"

namespace noisemark::reports {

/// The parts of a resolved definition that reports look at, read from Result::definition. A part is
/// empty where the definition has no such key; only the suite knows every key and its default.
struct DefinitionView {
  /// A gate that the definition declares.
  struct DeclaredGate {
    std::string name;
    std::optional<std::string> metric;
    bool at_most = false;  ///< `max`; else `min`
    double bound = 0;
    std::optional<std::vector<std::string>>
        precisions;  ///< those that the bound was calibrated for

    /// Returns whether the gate judges a run: a changed definition and another precision excuse it.
    [[nodiscard]] bool must_apply(const Identity& identity) const;
  };

  /// The settings by which samples are drawn after the training.
  struct Sample {
    std::optional<std::string> sampler;
    std::optional<int64_t> count;
    std::optional<int64_t> ddim_steps;
    std::optional<double> ddim_eta;
    std::optional<std::string> grid;  ///< empty: "lucid"
    std::optional<std::string> ddpm_variance;
  };

  bool readable = false;  ///< the text is a JSON object
  std::optional<std::string> benchmark_id;
  std::optional<std::string> benchmark_scale;
  std::optional<int64_t> train_steps;
  std::optional<int64_t> timesteps;
  std::optional<std::string> eval_weights;
  std::optional<Sample> sample;
  std::map<std::string, double> quality_bounds;  ///< numbers of [quality]: "val_loss_margin"
  std::optional<std::string> quality_extractor;
  std::optional<std::string> quality_resize;
  std::optional<std::string>
      quality_reference;  ///< SHA-256 of the reference's moments, or its name
  std::vector<DeclaredGate> gates;
};

/// Never throws: what is not readable is left empty.
[[nodiscard]] DefinitionView definition_of(const Result& result);

/// Returns the SHA-256 of what the definition says of a single step: without the seed, the number
/// of steps, and what is evaluated, drawn, measured and judged beside them. A text that is no
/// object has the SHA-256 of the whole.
[[nodiscard]] std::string step_sha256(const Result& result);

/// The run without what its definition says of the size of a batch, which predictions vary.
[[nodiscard]] Result at_any_batch(Result result);

/// Returns whether "key=value", as --set takes it, may change a single step.
[[nodiscard]] bool changes_a_step(std::string_view override);

}  // namespace noisemark::reports
