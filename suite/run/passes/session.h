#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "memopt/modes/mode.h"
#include "suite/data/dataset.h"
#include "suite/io/safetensors.h"
#include "suite/models/denoiser.h"
#include "suite/run/spec/options.h"
#include "suite/run/spec/plan.h"
#include "suite/run/spec/run_spec.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {

/// Gives cuBLAS a workspace under which its results repeat, unless the environment chooses one:
/// --deterministic asks for it, and so do the passes that compare modes bit for bit. It is the one
/// that LibTorch takes on Hopper anyway. The program calls it once, at its start: cuBLAS reads the
/// environment when CUDA is first touched, and child processes inherit it.
void choose_cublas_workspace();

/// Throws Error, exit code 2, when the environment gives cuBLAS a workspace that does not repeat.
void require_cublas_workspace();

/// Admits only operators that give the same bits every time; any other one throws. `wanted` false
/// takes it back.
void set_deterministic(bool wanted);

/// Deterministic algorithms for as long as it lives, then what was in force before. Memory is not
/// filled, which --deterministic does to find reads of uninitialised memory: that takes time. On
/// CUDA without a repeatable cuBLAS workspace only cuDNN is made deterministic; LibTorch would
/// refuse matrix products otherwise.
class DeterministicScope {
 public:
  explicit DeterministicScope(c10::Device device);
  ~DeterministicScope();
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool algorithms_;
  bool fill_;
  bool cudnn_;
  bool benchmark_;
};

/// A definition brought to life: model, data, process, optimizer, mode. Every pass makes its own,
/// from the same seed, so that passes do not disturb each other.
struct Session {
  std::unique_ptr<memopt::Mode> mode;  ///< stands before the trainer, which refers to it
  std::unique_ptr<Trainer> trainer;
};

struct SessionOptions {
  RunSpec spec;  ///< its definition's seed is the one in force
  std::shared_ptr<const Dataset> dataset;
  double data_open_s = 0;    ///< time to open `dataset`: reading, hashing, making
  std::string init_weights;  ///< file, empty: drawn from the definition's seed
  int64_t loader_threads = 1;
  Fault fault;                   ///< none, but in a self-test
  std::shared_ptr<Group> group;  ///< the ranks that train together; null: this process alone
  /// The cuts between stages, alike in all sessions of a run.
  std::shared_ptr<Division> division = std::make_shared<Division>();
  /// The baseline's graph is used, where it has one: in passes that time steps. Elsewhere every
  /// step is issued by the host, where it can be looked at.
  bool timed = false;
};

/// Gives the network the weights of a file. Throws Error, exit code 2, when they do not fit; it
/// names the benchmarks whose networks they do fit.
void copy_weights(const NamedTensors& weights, Denoiser& model, const std::string& file);

/// Initial weights come from torch's own generator seeded with the definition's seed, in the peer's
/// order of construction. Throws Error, exit code 2, when the weights file does not fit the model;
/// OutOfMemory, with who held what until then, when there is no room for it.
[[nodiscard]] Session make_session(const SessionOptions& options);

/// Puts threads, determinism, TF32 and the C library's memory in force for the rest of the process.
void configure_process(const RunSpec& spec);

/// Session options of a plan, with the data opened.
[[nodiscard]] SessionOptions session_options(const RunOptions& options, const PlannedRun& plan);

}  // namespace noisemark::suite
