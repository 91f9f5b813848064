#pragma once

#include <memory>
#include <string>

#include "baselines/baseline.h"
#include "memopt/mode.h"
#include "suite/config/definition.h"
#include "suite/data/dataset.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {

/// How a locked definition is executed: everything outside the lock that may change a number.
struct Variant {
  std::string mode = "none";       ///< canonical spelling
  std::string baseline = "plain";  ///< canonical spelling
  Precision precision;
  at::Device device = at::kCPU;
  int64_t threads = 0;  ///< in force
  bool deterministic = false;
};

/// "none-plain-fp32": the variant's folder and label.
[[nodiscard]] std::string variant_label(const Variant& variant);

/// A definition brought to life: model, data, process, optimizer, mode. Every pass makes its own,
/// from the same seed, so that passes do not disturb each other.
struct Session {
  std::unique_ptr<memopt::Mode> mode;  ///< before the trainer, which refers to it
  std::unique_ptr<Trainer> trainer;
};

struct SessionOptions {
  Definition definition;
  Variant variant;
  std::shared_ptr<const Dataset> dataset;
  double data_open_s = 0;    ///< what opening `dataset` took: reading, hashing, making
  std::string init_weights;  ///< file, empty: drawn from the definition's seed
  int64_t loader_threads = 1;
  Fault fault;  ///< none, but in a self-test
  /// The baseline's graph is used, where it has one: in passes that time steps. Elsewhere every
  /// step is issued by the host, where it can be looked at.
  bool timed = false;
};

/// Initial weights come from torch's own generator seeded with the definition's seed, in the peer's
/// order of construction. Throws Error, exit code 2, when the weights file does not fit the model;
/// OutOfMemory, with who held what until then, when there is no room for it.
[[nodiscard]] Session make_session(const SessionOptions& options);

}  // namespace noisemark::suite
