#pragma once

#include <c10/core/Device.h>

#include <compare>
#include <cstdint>
#include <optional>

#include "memopt/replay/kernels/norm_chain.h"

namespace noisemark::memopt::replay {

/// One group of a group norm, which ATen computes like any other of its shape.
struct NormGroup {
  int64_t channels = 0;
  int64_t rows = 0;  ///< of pixels
  int64_t columns = 0;
  bool channels_last = false;
  bool weight = true;
  bool bias = true;

  friend auto operator<=>(const NormGroup&, const NormGroup&) = default;
};

/// The form that gives the bits of ATen's group norm in float32 on this CPU or the current GPU,
/// with its statistics given; empty when there is none. Found by trying, once per shape in a
/// process.
[[nodiscard]] std::optional<NormForm> exact_norm_form(const NormGroup& group,
                                                      c10::DeviceType device = c10::kCPU);

/// Whether the activation's arithmetic gives the bits of ATen's, on a CPU of its vectors. Found by
/// trying, once in a process.
[[nodiscard]] bool is_exact(Activation activation, c10::DeviceType device = c10::kCPU);

/// Whether ATen computes all of so many elements on the CPU in vectors: what is left over at the
/// end of a thread's share goes through the C library, whose exponential has other bits.
[[nodiscard]] bool is_all_vectors(int64_t elements);

}  // namespace noisemark::memopt::replay
