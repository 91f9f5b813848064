#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memopt/accounting/allocation_log.h"
#include "memopt/modes/mode.h"
#include "reports/result/result.h"
#include "suite/probes/process_memory.h"
#include "suite/train/observer.h"

namespace noisemark::suite {

/// Keeps at most `limit` (at least 4) of the points, in their order: the first and the last, and of
/// equal spans of time the highest and the last. So every peak of the curve that is highest within
/// its span stays, the highest of all among them.
[[nodiscard]] std::vector<reports::MemoryPoint> thin_timeline(
    const std::vector<reports::MemoryPoint>& points, size_t limit);

/// The holders of tensors across phases, by owner. Memory that lives through a phase boundary and
/// is not among these, not saved for backward and not born in an OwnerScope is reported as
/// unattributed.
struct OwnerRoots {
  /// Loss, prediction and what else the trainer keeps of a micro-batch count as activations. The
  /// probe itself finds the scratch that the device's libraries keep.
  memopt::OwnedTensors held;
  std::vector<at::Tensor> parameters;  ///< their `.grad` are the gradients
};

/// `held`, and the gradients.
[[nodiscard]] memopt::OwnedTensors owned_tensors(OwnerRoots roots);

/// Measures one training step's memory by owner. In every other step it costs nothing: it opens no
/// log and hands the mode's hooks through.
class MemoryProbe final : public StepObserver {
 public:
  /// `roots` is called at the boundaries of the armed step, on the training thread. `mode` must
  /// outlive the probe, and so must `source`, whose allocations are followed; null: the device's.
  MemoryProbe(memopt::Mode& mode, std::function<OwnerRoots()> roots,
              c10::Device device = c10::Device(c10::kCPU),
              memopt::AllocationSource* source = nullptr);
  ~MemoryProbe() override;

  /// Give this to the trainer instead of the mode.
  [[nodiscard]] memopt::SavedTensorSink& sink();

  /// Measures step `step`, which should be a steady one: not the first.
  void arm(int64_t step);

  void on_step_begin(int64_t step) override;
  void on_phase_begin(Phase phase) override;
  void on_phase_end(Phase phase) override;
  void on_step_end(int64_t step) override;

  /// Returns the section of the armed step; `measured` is false, with the reason, when it has not
  /// ended. Rethrows what went wrong while it was observed.
  [[nodiscard]] reports::MemorySection section() const;

  /// Returns, after the armed step ended in an exception, its peak so far, which for a failed
  /// allocation is the moment before it. Closes the log. `measured` is false: there are no
  /// boundaries to close against.
  [[nodiscard]] reports::MemorySection section_at_failure();

  /// All that was written down of the step that section() or section_at_failure() is about; empty
  /// before.
  [[nodiscard]] const memopt::AllocationRecord& record() const { return record_; }

 private:
  class Sink;

  void boundary(const std::string& name);
  void finish();
  void take_outside_of_device();
  template <typename Action>
  void guarded(Action action);

  std::function<OwnerRoots()> roots_;
  c10::Device device_;
  memopt::AllocationSource* source_;  ///< is null for the device's
  std::unique_ptr<Sink> sink_;
  std::optional<int64_t> armed_step_;
  std::unique_ptr<memopt::AllocationLog> log_;  ///< open during the armed step
  std::vector<int> micro_batches_;              ///< ended phases of the step, by Phase
  std::string resident_missing_;
  std::optional<DeviceMemoryWatch> device_memory_;  ///< watch over the armed step
  memopt::AllocationRecord record_;
  reports::MemorySection section_;
  std::exception_ptr error_;
};

}  // namespace noisemark::suite
