#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "baselines/device_parts.h"
#include "tests/gpu_emulator/emulated_kernels.h"
#include "tests/gpu_emulator/emulator.h"
#include "tests/gpu_emulator/guarded_memory.h"

// The norms' kernels against the CPU's, in memory that they cannot leave at its end; the same bits
// whatever the order of threads.
namespace noisemark::baselines::kernels {
namespace {

using test::gpu::Guarded;
using test::gpu::Order;
using test::gpu::Settings;
using test::gpu::WithSettings;

/// Two sides, each right to 1e-5 (float32 sums) or to the rounding of bfloat16.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-5 : 2 * 0x1p-8;
constexpr double kFloatTolerance = kTolerance<float>;

float as_float(float value) {
  return value;
}
float as_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
void assign(float& to, float value) {
  to = value;
}
/// Cuts, which is as good a bfloat16 as any.
void assign(BFloat16& to, float value) {
  to.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

/// Normals about `mean`, in memory whose first `lead` elements are not used.
template <typename T>
Guarded<T> normals(int64_t count, uint32_t seed, float mean = 0, int64_t lead = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(mean);
  Guarded<T> all(count + lead);
  for (int64_t i = 0; i < count; ++i) assign(all.data()[lead + i], normal(generator));
  return all;
}

struct Case {
  const char* name;
  Shape shape;
  int64_t groups;
  int64_t lead = 0;  ///< elements by which values begin behind a whole pack
};

/// Returns an affine map's factor, `which` 0 or 1, for `rows` times the channels. Under ReLU every
/// second channel is cut, and no value is within rounding of zero, where its slope jumps: what is
/// normalised is below 5, as far as 20,000 normals go.
Guarded<float> affine(int which, const Case& c, int64_t rows, Act act) {
  Guarded<float> all = normals<float>(rows * c.shape.channels, 3 + which, which == 0 ? 2 : 0);
  if (act != Act::kRelu) return all;
  for (int64_t i = 0; i < rows * c.shape.channels; ++i) {
    float& value = all.data()[i];
    value = which == 0 ? 1 + 0.1F * (value - 2) : i % c.shape.channels % 2 == 0 ? 8.0F : -8.0F;
  }
  return all;
}

template <typename T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// One behind the other.
template <typename... T>
std::vector<uint8_t> all_bytes_of(const std::vector<T>&... parts) {
  std::vector<uint8_t> all;
  for (const std::vector<uint8_t>& part : {bytes_of(parts)...}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

template <typename T>
void expect_near(const std::vector<T>& values, const std::vector<T>& expected, double tolerance,
                 const char* what) {
  ASSERT_EQ(values.size(), expected.size());
  double size = 0;
  for (const T& value : expected) size = std::max(size, double{std::abs(as_float(value))});
  for (size_t i = 0; i < values.size(); ++i) {
    // EXPECT_LE would not do: of a NaN it must be wrong.
    ASSERT_TRUE(std::abs(double{as_float(values[i])} - double{as_float(expected[i])}) <=
                tolerance * size)
        << what << " " << i << ": " << as_float(values[i]) << " for " << as_float(expected[i]);
  }
}

/// The kernels of a GPU, emulated.
class EmulatedNorms final : public NormDevice {
 public:
  void forward(const GroupNorm<float>& job) const override { emulated::forward(job); }
  void forward(const GroupNorm<BFloat16>& job) const override { emulated::forward(job); }
  void from_statistics(const GroupNorm<float>& job) const override {
    emulated::from_statistics(job);
  }
  void from_statistics(const GroupNorm<BFloat16>& job) const override {
    emulated::from_statistics(job);
  }
  void backward(const GroupNorm<float>& job) const override { emulated::backward(job); }
  void backward(const GroupNorm<BFloat16>& job) const override { emulated::backward(job); }
  void forward(const RmsNorm<float>& job) const override { emulated::forward(job); }
  void forward(const RmsNorm<BFloat16>& job) const override { emulated::forward(job); }
  void from_statistics(const RmsNorm<float>& job) const override { emulated::from_statistics(job); }
  void from_statistics(const RmsNorm<BFloat16>& job) const override {
    emulated::from_statistics(job);
  }
  void backward(const RmsNorm<float>& job) const override { emulated::backward(job); }
  void backward(const RmsNorm<BFloat16>& job) const override { emulated::backward(job); }
  [[nodiscard]] int64_t groups_per_task(const Shape& shape, int64_t groups,
                                        int64_t element_bytes) const override {
    return emulated::groups_per_task(shape, groups, element_bytes);
  }
};

std::vector<Case> cases() {
  const std::vector<Case> sizes = {
      {"whole packs", {2, 64, 64}, 8},
      {"a network's", {1, 128, 256}, 32},
      {"odd channels", {2, 15, 27}, 5},
      {"odd pixels", {2, 64, 35}, 8},
      {"one group", {2, 40, 36}, 1},
      {"one pixel", {3, 32, 1}, 8},
      {"one channel", {2, 1, 143}, 1},
      {"a group for each channel", {2, 8, 16}, 8},
      {"more pixels than a task", {1, 6, 1023}, 3},
      {"more channels than threads", {1, 520, 9}, 2},
      {"more packs of channels than threads", {1, 2056, 4}, 2},
      {"off a pack", {2, 64, 64}, 8, 3},
  };
  std::vector<Case> all;
  for (const Case& c : sizes) {
    all.push_back(c);
    all.push_back(c);
    all.back().shape.channels_last = true;
  }
  return all;
}

/// Every tensor of a group norm, forward and backward, as one device left it.
template <typename T>
struct GroupNormResults {
  std::vector<T> y, again, dx;
  std::vector<float> mean, rstd, dweight, dbias;

  [[nodiscard]] std::vector<uint8_t> bytes() const {
    return all_bytes_of(y, again, dx, mean, rstd, dweight, dbias);
  }
};

template <typename T>
GroupNormResults<T> group_norm(const NormDevice& device, const Case& c, Act act, float mean_of_x) {
  const int64_t count = c.shape.samples * c.shape.channels * c.shape.pixels;
  const int64_t rows = c.shape.samples * c.shape.channels;
  const Guarded<T> x = normals<T>(count, 1, mean_of_x, c.lead);
  const Guarded<T> dy = normals<T>(count, 2, 0, c.lead);
  const Guarded<float> weight = affine(0, c, 1, act), bias = affine(1, c, 1, act);
  const Guarded<float> mean(c.shape.samples * c.groups), rstd(c.shape.samples * c.groups);
  const Guarded<float> scratch(4 * rows), dweight(rows), dbias(rows);
  const Guarded<T> y(count + c.lead), again(count), dx(count);
  GroupNorm<T> job;
  job.shape = c.shape;
  job.groups = c.groups;
  job.groups_per_task = device.groups_per_task(c.shape, c.groups, sizeof(T));
  job.eps = 1e-5;
  job.act = act;
  job.x = x.data() + c.lead;
  job.weight = weight.data();
  job.bias = bias.data();
  job.mean = mean.data();
  job.rstd = rstd.data();
  job.scratch = scratch.data();
  job.y = y.data() + c.lead;
  device.forward(job);
  job.y = again.data();
  device.from_statistics(job);
  job.y = nullptr;
  job.dy = dy.data() + c.lead;
  job.dx = dx.data();
  job.dweight = dweight.data();
  job.dbias = dbias.data();
  device.backward(job);
  std::vector<T> forward = y.values();
  forward.erase(forward.begin(), forward.begin() + c.lead);
  return {forward,       again.values(),   dx.values(),   mean.values(),
          rstd.values(), dweight.values(), dbias.values()};
}

template <typename T>
void expect_group_norm(const Case& c, Act act) {
  SCOPED_TRACE(std::string(c.name) + (c.shape.channels_last ? ", channels last" : ", planes") +
               ", activation " + std::to_string(static_cast<int>(act)));
  const auto expected = group_norm<T>(*find_norm_device(c10::kCPU), c, act, 0.5F);
  const auto found = group_norm<T>(EmulatedNorms(), c, act, 0.5F);
  expect_near(found.y, expected.y, kTolerance<T>, "y");
  expect_near(found.mean, expected.mean, kFloatTolerance, "mean");
  expect_near(found.rstd, expected.rstd, kFloatTolerance, "rstd");
  expect_near(found.dx, expected.dx, kTolerance<T>, "dx");
  expect_near(found.dweight, expected.dweight, kFloatTolerance, "dweight");
  expect_near(found.dbias, expected.dbias, kFloatTolerance, "dbias");
  EXPECT_EQ(bytes_of(found.again), bytes_of(found.y)) << "again from the statistics";
  for (const Order order : {Order::kBackward, Order::kShuffled}) {
    const WithSettings with(Settings{order});
    EXPECT_EQ(group_norm<T>(EmulatedNorms(), c, act, 0.5F).bytes(), found.bytes());
  }
}

TEST(EmulatedNorms, group_norm_equals_the_cpus) {
  for (const Case& c : cases()) {
    for (const Act act : {Act::kNone, Act::kSilu, Act::kRelu}) {
      expect_group_norm<float>(c, act);
      expect_group_norm<BFloat16>(c, act);
    }
  }
}

TEST(EmulatedNorms, group_norm_keeps_the_variance_of_what_has_a_large_mean) {
  for (const Case& c : cases()) {
    if (c.shape.channels * c.shape.pixels / c.groups == 1) continue;
    SCOPED_TRACE(c.name);
    const auto expected = group_norm<float>(*find_norm_device(c10::kCPU), c, Act::kNone, 3000);
    const auto found = group_norm<float>(EmulatedNorms(), c, Act::kNone, 3000);
    // The values themselves are known to 3000 * 2^-24, of deviations of 1.
    expect_near(found.rstd, expected.rstd, 1e-4, "rstd");
  }
}

template <typename T>
struct RmsNormResults {
  std::vector<T> y, again, dx;
  std::vector<float> inverse_norm, dalpha, dbeta;

  [[nodiscard]] std::vector<uint8_t> bytes() const {
    return all_bytes_of(y, again, dx, inverse_norm, dalpha, dbeta);
  }
};

template <typename T>
RmsNormResults<T> rms_norm(const NormDevice& device, const Case& c, Act act, bool row_each,
                           float size_of_x) {
  const int64_t count = c.shape.samples * c.shape.channels * c.shape.pixels;
  const Guarded<T> x = normals<T>(count, 1, 0, c.lead);
  for (int64_t i = 0; i < count; ++i) {
    assign(x.data()[c.lead + i], size_of_x * as_float(x.data()[c.lead + i]));
  }
  const Guarded<T> dy = normals<T>(count, 2, 0, c.lead);
  const int64_t rows = row_each ? c.shape.samples : 1;
  const Guarded<float> alpha = affine(0, c, rows, act), beta = affine(1, c, rows, act);
  RmsNorm<T> job;
  job.shape = c.shape;
  job.eps = 1e-12;
  job.act = act;
  const int64_t tasks = c.shape.samples * job.tasks_per_sample();
  const Guarded<float> inverse_norm(c.shape.samples * c.shape.pixels);
  const Guarded<float> scratch(tasks * c.shape.channels), dalpha(tasks * c.shape.channels),
      dbeta(tasks * c.shape.channels);
  const Guarded<T> y(count), again(count), dx(count);
  job.x = x.data() + c.lead;
  job.alpha = alpha.data();
  job.beta = beta.data();
  job.row_stride = row_each ? c.shape.channels : 0;
  job.inverse_norm = inverse_norm.data();
  job.scratch = scratch.data();
  job.y = y.data();
  device.forward(job);
  job.y = again.data();
  device.from_statistics(job);
  job.dy = dy.data() + c.lead;
  job.dx = dx.data();
  job.dalpha = dalpha.data();
  job.dbeta = dbeta.data();
  device.backward(job);
  return {y.values(),      again.values(), dx.values(), inverse_norm.values(),
          dalpha.values(), dbeta.values()};
}

template <typename T>
void expect_rms_norm(const Case& c, Act act, bool row_each) {
  SCOPED_TRACE(std::string(c.name) + (c.shape.channels_last ? ", channels last" : ", planes") +
               ", activation " + std::to_string(static_cast<int>(act)));
  const auto expected = rms_norm<T>(*find_norm_device(c10::kCPU), c, act, row_each, 1);
  const auto found = rms_norm<T>(EmulatedNorms(), c, act, row_each, 1);
  expect_near(found.y, expected.y, kTolerance<T>, "y");
  expect_near(found.inverse_norm, expected.inverse_norm, kFloatTolerance, "inverse norm");
  expect_near(found.dx, expected.dx, kTolerance<T>, "dx");
  expect_near(found.dalpha, expected.dalpha, kFloatTolerance, "dalpha");
  expect_near(found.dbeta, expected.dbeta, kFloatTolerance, "dbeta");
  EXPECT_EQ(bytes_of(found.again), bytes_of(found.y)) << "again from the statistics";
  for (const Order order : {Order::kBackward, Order::kShuffled}) {
    const WithSettings with(Settings{order});
    EXPECT_EQ(rms_norm<T>(EmulatedNorms(), c, act, row_each, 1).bytes(), found.bytes());
  }
}

TEST(EmulatedNorms, rms_norm_equals_the_cpus) {
  for (const Case& c : cases()) {
    // The RMS norm of one channel is its sign: its gradient is zero, no error is relative to that.
    if (c.shape.channels == 1) continue;
    for (const Act act : {Act::kNone, Act::kSilu, Act::kRelu}) {
      for (const bool row_each : {false, true}) {
        expect_rms_norm<float>(c, act, row_each);
        expect_rms_norm<BFloat16>(c, act, row_each);
      }
    }
  }
}

TEST(EmulatedNorms, rms_norm_of_zeros_is_beta_and_its_gradient_finite) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto expected = rms_norm<float>(*find_norm_device(c10::kCPU), c, Act::kNone, false, 0);
    const auto found = rms_norm<float>(EmulatedNorms(), c, Act::kNone, false, 0);
    EXPECT_EQ(found.y, expected.y);
    expect_near(found.dx, expected.dx, kFloatTolerance, "dx");
  }
}

}  // namespace
}  // namespace noisemark::baselines::kernels
