#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "memopt/accounting/allocation_source.h"
#include "reports/result/result.h"
#include "suite/probes/memory_probe.h"
#include "suite/train/observer.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {

/// Returns what a trainer holds, as the memory probe wants it.
[[nodiscard]] OwnerRoots owner_roots(const Trainer& trainer);

/// "weights 0.97 MiB, activations 12.51 MiB": who held something at the section's peak, in the
/// table's order.
[[nodiscard]] std::string holders(const reports::MemorySection& section);

/// Adds "weights 0.97 MiB" behind a comma; nothing for no bytes.
void append_holder(std::string& words, std::string_view name, int64_t bytes);

/// The same of this moment, by a walk over what the trainer holds; "rest" is what else is live.
[[nodiscard]] std::string holders_now(const Trainer& trainer);

/// Runs `action`. A failed allocation in it comes out as OutOfMemory with holders_now(): the step
/// that failed has been cleaned up by then, so it tells what stays, not the peak.
void name_owners_when_full(const Trainer& trainer, const std::function<void()>& action);

/// Follows a device's allocations while a model is made ready for training, so that one that fails
/// can say who held what: by then nothing of the half-made model is left to be asked. What this
/// thread allocates belongs to the part in progress, at first the weights; what was live before is
/// "rest". Nothing else may listen to the device meanwhile.
class BuildMemory final : public BuildObserver, private memopt::AllocationListener {
 public:
  explicit BuildMemory(c10::Device device);
  ~BuildMemory() override;
  BuildMemory(const BuildMemory&) = delete;
  BuildMemory& operator=(const BuildMemory&) = delete;

  void on_part(memopt::Owner owner) override { part_ = owner; }

  /// "weights 0.97 MiB, optimizer 0.31 MiB, rest 8.00 KiB": of now, or while an exception is on its
  /// way or caught, of the moment when it was thrown. "nothing yet" for no bytes, and where the
  /// device's allocations cannot be followed.
  [[nodiscard]] std::string holders() const;

 private:
  void on_allocate(const memopt::Block& block) noexcept override;
  void on_release(const memopt::Block& block) noexcept override;
  [[nodiscard]] int64_t& bytes_of_part() { return bytes_[static_cast<size_t>(part_)]; }

  memopt::AllocationSource* source_;  ///< is null where there is none
  std::thread::id thread_;
  int exceptions_;  ///< number on their way when this was made
  memopt::Owner part_ = memopt::Owner::kWeights;
  int64_t before_bytes_ = 0;
  std::array<int64_t, memopt::kOwnerCount> bytes_{};
};

}  // namespace noisemark::suite
