#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "baselines/baseline.h"
#include "memopt/modes/budget.h"
#include "memopt/modes/mode.h"
#include "suite/config/definition.h"
#include "suite/train/precision.h"

namespace noisemark::suite {

/// A memory mode, resolved from its spelling. The default is mode "none".
struct ModeSpec {
  std::string name = "none";             ///< canonical spelling
  bool lossless = true;                  ///< every gradient is bitwise that of mode "none"
  int64_t forwards_until_steady = 0;     ///< passes before the mode does what its name says
  std::string needs_host;                ///< why a device cannot repeat its steps; empty: it can
  std::optional<memopt::Budget> budget;  ///< limits of a budget mode; empty: another mode
  double gradient_bound = 0;             ///< the most that a step's gradient may be off; 0: nothing

  [[nodiscard]] bool is_none() const { return name == "none"; }
  /// Makes the mode anew, attached to nothing.
  [[nodiscard]] std::unique_ptr<memopt::Mode> make() const { return memopt::make_mode(name); }
};

/// Throws std::invalid_argument, which names the nearest valid spelling.
[[nodiscard]] ModeSpec resolve_mode(const std::string& spelling);

/// The way in which the locked computation is executed, resolved from its spelling. The default is
/// "plain".
struct BaselineSpec {
  std::string name = "plain";  ///< canonical spelling
  baselines::Execution execution;
};

/// Throws std::invalid_argument, which names the nearest valid spelling.
[[nodiscard]] BaselineSpec resolve_baseline(const std::string& spelling);

/// The training and how it is executed: everything that may change a number, resolved once where
/// the command line or a file is read.
struct RunSpec {
  Definition definition;  ///< is locked or overridden
  ModeSpec mode;
  BaselineSpec baseline;
  Precision precision;
  c10::Device device = c10::kCPU;
  int64_t threads = 0;  ///< number in force
  int64_t ranks = 1;
  std::string reduction;         ///< to which type ranks round gradients, "bf16"; empty: to none
  bool shard_optimizer = false;  ///< each rank keeps a share of optimizer and average
  std::string pipeline;          ///< schedule of the stages that ranks are, "1f1b"; empty: none
  int64_t micro_batches = 0;     ///< micro-batches of the pipeline; 0: none
  bool deterministic = false;

  /// Returns the forward passes of one step of this process: its micro-batches.
  [[nodiscard]] int64_t forwards_of_step() const {
    return micro_batches > 0 ? micro_batches : definition.train.accumulation;
  }
  /// Returns how many of them count as watched by a memory mode. In a pipeline it is one, because
  /// stages have one micro-batch at a time for as many steps as the mode watches passes (Trainer).
  [[nodiscard]] int64_t watched_of_step() const {
    return micro_batches > 0 ? 1 : definition.train.accumulation;
  }
};

/// The most that a step's gradient may be off, as a share of it: the definition's
/// quality.gradient_error_max, if it sets one, else the bound of its mode.
[[nodiscard]] double gradient_bound(const RunSpec& spec);

/// "none-plain-fp32": the folder and label of a run of this spec.
[[nodiscard]] std::string variant_label(const RunSpec& spec);

/// Throws Error, exit code 2, when the baseline has no kernels for this device and precision (plain
/// operators would run under its name), or cannot be had together with the mode.
void require_kernels(const RunSpec& spec);

}  // namespace noisemark::suite
