#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>

#include "memopt/allocation_source.h"
#include "suite/train/build_observer.h"

namespace noisemark::suite {

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

  memopt::AllocationSource* source_;  ///< null where there is none
  std::thread::id thread_;
  int exceptions_;  ///< on their way when this was made
  memopt::Owner part_ = memopt::Owner::kWeights;
  int64_t before_bytes_ = 0;
  std::array<int64_t, memopt::kOwnerCount> bytes_{};
};

}  // namespace noisemark::suite
