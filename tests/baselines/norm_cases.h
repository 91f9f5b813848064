#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "baselines/ops.h"

/// The tests of the fused norms share this, on the CPU and on a GPU.
namespace noisemark::baselines::test {

enum class Order { kPlanes, kPixels, kStrided };

struct NormShape {
  const char* name;
  std::vector<int64_t> sizes;  ///< N, C, H, W
  int64_t groups;
};

/// Awkward ones.
inline const std::vector<NormShape> kNormShapes = {
    {"usual", {3, 64, 16, 16}, 32},     {"one_sample", {1, 24, 5, 7}, 4},
    {"odd_channels", {2, 15, 9, 3}, 5}, {"channel_groups", {2, 8, 4, 4}, 8},
    {"one_group", {2, 40, 6, 6}, 1},    {"one_pixel", {4, 32, 1, 1}, 8},
    {"one_channel", {2, 1, 11, 13}, 1}, {"many_pixels", {2, 6, 33, 31}, 3},
    {"wide", {2, 512, 4, 4}, 32},
};

struct NormCase {
  std::string name;
  std::vector<int64_t> sizes;  ///< N, C, H, W
  int64_t groups;
  Order order;
  at::ScalarType type;
};

/// Every shape in every order, in float32 and in bfloat16.
[[nodiscard]] std::vector<NormCase> norm_cases(const std::vector<NormShape>& shapes);

/// The same values in another order in memory.
[[nodiscard]] at::Tensor in_order(const at::Tensor& x, Order order);

using Inputs = std::vector<at::Tensor>;
using Group = std::function<at::Tensor(const Ops&, const Inputs&)>;
using GroupOfCase = std::function<at::Tensor(const NormCase&, const Ops&, const Inputs&)>;

/// Holds all that one group computes and passes back, where its inputs are.
struct Outcome {
  at::Tensor y;
  Inputs grads;
};

[[nodiscard]] Outcome outcome(const Ops& ops, const Group& group, const Inputs& inputs,
                              const at::Tensor& dy);

/// The same group by the plain operators in float64.
[[nodiscard]] Outcome exact_outcome(const Group& group, const Inputs& inputs, const at::Tensor& dy);

/// Largest difference, relative to the reference's largest value.
[[nodiscard]] double error(const at::Tensor& x, const at::Tensor& reference);

/// Float32: sums of up to 1e4 terms in float32 and an exponential that is right to 2^-20, so 1e-5.
/// Bfloat16: the result is rounded to 8 bits (2^-9 relative), everything before is float32 on the
/// same bfloat16 inputs. Gradients of parameters are float32 sums either way.
[[nodiscard]] double tolerance(at::ScalarType type);

/// `tested` is right: of the case's type, within tolerance() of `exact`, in the input's order.
void expect_right(const NormCase& c, const Inputs& inputs, const Outcome& tested,
                  const Outcome& exact);

/// The RMS norm of one channel is its sign: its gradient is zero, no error is relative to that.
inline constexpr int64_t kLeastRmsChannels = 2;

/// Calls `check` with every case of at least that many channels, the group at that case and its
/// inputs: x first, then what `more` makes.
void for_each_case(const std::vector<NormCase>& cases, const GroupOfCase& group,
                   const std::function<Inputs(const NormCase&)>& more,
                   const std::function<void(const NormCase&, const Group&, const Inputs&)>& check,
                   int64_t least_channels = 1);

[[nodiscard]] Inputs weight_and_bias(const NormCase& c);

/// Keeps every value away from zero by more than rounding, for ReLU's slope jumps there.
[[nodiscard]] Inputs weight_and_bias_away_from_zero(const NormCase& c);

[[nodiscard]] Inputs just_g(const NormCase& c);

/// Scale and shift are strided views, as chunk() makes them.
[[nodiscard]] Inputs g_scale_shift(const NormCase& c);

/// Group norms of x with a weight and a bias.
[[nodiscard]] GroupOfCase group_norm_then(Activation activation);
[[nodiscard]] at::Tensor group_norm_alone(const NormCase& c, const Ops& ops, const Inputs& in);

/// RMS norm with g; and with scale, shift and SiLU after it.
[[nodiscard]] at::Tensor rms_norm_alone(const NormCase& c, const Ops& ops, const Inputs& in);
[[nodiscard]] at::Tensor rms_norm_film(const NormCase& c, const Ops& ops, const Inputs& in);

}  // namespace noisemark::baselines::test
