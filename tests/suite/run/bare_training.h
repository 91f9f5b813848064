#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memopt/modes/mode.h"
#include "suite/data/loader.h"
#include "suite/diffusion/process.h"
#include "suite/models/denoiser.h"
#include "suite/probes/memory_probe.h"
#include "suite/run/passes/session.h"
#include "suite/train/adam.h"
#include "suite/train/ema.h"

namespace noisemark::suite {

/// The knowledge that a training has of its memory.
enum class Accounting : uint8_t {
  kNone,      ///< LibTorch's own allocator, and nobody listens
  kFollowed,  ///< every allocation is counted, as in every run of `noisemark`
  kLogged,    ///< and every step is written down and its bytes given to owners, as in a memory pass
};

/// The steps that a user would write by hand with this project's parts: no trainer, no timers, no
/// memory mode. In float32, tf32 or under autocast without loss scaling. On a CPU kFollowed and
/// kLogged need the tracking allocator, and kLogged everywhere the saved-tensor engine.
class BareTraining {
 public:
  BareTraining(const SessionOptions& options, Accounting accounting);

  /// One optimizer step; its loss, for which the host waits.
  double step();

 private:
  void load_batch();
  void backward_of_batch();
  void update();
  [[nodiscard]] OwnerRoots roots() const;

  Definition definition_;
  RunSpec spec_;
  std::shared_ptr<Denoiser> model_;
  DiffusionProcess process_;
  Adam adam_;
  Ema ema_;
  Loader loader_;
  std::unique_ptr<memopt::Mode> none_ = memopt::make_mode("none");
  std::optional<MemoryProbe> probe_;
  std::vector<StepObserver*> observers_;
  Batch batch_;
  at::Tensor loss_;
  int64_t step_ = 0;
};

}  // namespace noisemark::suite
