#pragma once

#include <c10/core/Device.h>

#include <compare>
#include <cstdint>
#include <optional>

#include "memopt/record/step_graph.h"
#include "memopt/treatment/kernels/norm_chain.h"
#include "memopt/treatment/recipe.h"

namespace noisemark::memopt::treatment {

/// One group of a group norm, which ATen computes like any other of its shape.
struct NormGroup {
  int64_t channels = 0;
  int64_t rows = 0;  ///< rows of pixels
  int64_t columns = 0;
  bool channels_last = false;
  bool weight = true;
  bool bias = true;

  friend auto operator<=>(const NormGroup&, const NormGroup&) = default;
};

/// The form that gives the bits of ATen's group norm in float32 on this CPU or the current GPU,
/// with its statistics given; empty when there is none. It is found by trying, once per shape in a
/// process.
[[nodiscard]] std::optional<NormForm> exact_norm_form(const NormGroup& group,
                                                      c10::DeviceType device = c10::kCPU);

/// Returns whether the activation's arithmetic gives the bits of ATen's, on a CPU of its vectors.
/// It is found by trying, once in a process.
[[nodiscard]] bool is_exact(Activation activation, c10::DeviceType device = c10::kCPU);

/// Returns whether ATen computes all of so many elements on the CPU in vectors: what is left over
/// at the end of a thread's share goes through the C library, whose exponential has other bits.
[[nodiscard]] bool is_all_vectors(int64_t elements);

}  // namespace noisemark::memopt::treatment

namespace noisemark::memopt {

/// Returns null when this build has no group norm from saved statistics for the device.
[[nodiscard]] treatment::NormChainOnDevice find_norm_chain(c10::DeviceType device);

/// Makes `id` in one pass over the input of a group norm, with the norm's saved statistics instead
/// of new sums over the input, and without the values in between. Takes float32 on a CPU or GPU,
/// dense in [N, C, ...] or channels-last order, of a group norm's result, of SiLU or ReLU of that,
/// or of either times a tensor of the same shape (dropout); and each of these rounded to bfloat16
/// or float16, as autocast hands it to a convolution. It is empty for any other value, and where no
/// arithmetic is known that gives ATen's bits.
///
/// On a GPU that is all that autocast and channels-last come to: there autocast has group norm in
/// float32, and at::group_norm copies what is not in [N, C, ...] order before it calls
/// aten::native_group_norm, which takes nothing else.
[[nodiscard]] std::optional<Recipe> norm_chain_recipe(const StepGraph& graph, ValueId id);

}  // namespace noisemark::memopt
