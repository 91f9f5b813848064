#include "suite/probes/operator_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reports/base/error.h"
#include "suite/probes/convolutions.h"
#include "suite/probes/flop_counter.h"
#include "tests/memopt/nets.h"

namespace noisemark::suite {
namespace {

const reports::OperatorRow* find(const OperatorProfile& profile, const std::string& name) {
  const auto found = std::find_if(profile.operators.begin(), profile.operators.end(),
                                  [&](const auto& row) { return row.name == name; });
  return found == profile.operators.end() ? nullptr : &*found;
}

TEST(HostRange, is_an_operator_and_no_call_of_cuda_kernel_or_copy) {
  using Type = libkineto::ActivityType;
  EXPECT_TRUE(is_host_range(at::kCPU, Type::CPU_OP));
  EXPECT_TRUE(is_host_range(at::kCPU, Type::USER_ANNOTATION));
  // They stand on the host's time line.
  for (const Type type : {Type::CUDA_RUNTIME, Type::CUDA_DRIVER, Type::OVERHEAD}) {
    EXPECT_FALSE(is_host_range(at::kCPU, type)) << static_cast<int>(type);
  }
  for (const Type type : {Type::CONCURRENT_KERNEL, Type::GPU_MEMCPY, Type::GPU_USER_ANNOTATION}) {
    EXPECT_FALSE(is_host_range(at::kCUDA, type)) << static_cast<int>(type);
  }
}

class OperatorProfileOfSmallNet : public testing::Test {
 protected:
  OperatorProfile profile(const ProfileOptions& options = {}) {
    return profile_operators([this] { net_.train_step(x_, x_); }, c10::Device("cpu"), options);
  }

  memopt::test::SmallNet net_;
  at::Tensor x_ = at::randn({2, 3, 16, 16});
};

TEST_F(OperatorProfileOfSmallNet, counts_the_calls_of_one_step) {
  const OperatorProfile result = profile();
  // Four convolutions, all with a gradient.
  ASSERT_NE(find(result, "aten::convolution"), nullptr);
  EXPECT_EQ(find(result, "aten::convolution")->calls, 4);
  EXPECT_EQ(find(result, "aten::convolution_backward")->calls, 4);
  EXPECT_EQ(find(result, "aten::_fused_adam_")->calls, 1);
}

TEST_F(OperatorProfileOfSmallNet, sorts_by_self_time_and_shares_it_out) {
  const OperatorProfile result = profile();
  double shares = 0;
  for (const auto& row : result.operators) {
    EXPECT_GE(row.self_s, 0) << row.name;
    shares += row.share_frac;
  }
  EXPECT_NEAR(shares, 1, 1e-9);  // rounding of the sum alone
  EXPECT_TRUE(std::is_sorted(result.operators.begin(), result.operators.end(),
                             [](const auto& a, const auto& b) { return a.self_s > b.self_s; }));
}

TEST_F(OperatorProfileOfSmallNet, leaves_what_an_operator_calls_out_of_its_self_time) {
  const OperatorProfile result = profile();
  // conv2d only passes on to convolution, where the work is done below.
  EXPECT_LT(find(result, "aten::conv2d")->self_s, find(result, "aten::mkldnn_convolution")->self_s);
}

TEST_F(OperatorProfileOfSmallNet, puts_the_flops_of_one_step_beside_their_operators) {
  const OperatorProfile result = profile();
  EXPECT_GT(find(result, "aten::convolution_backward")->flops, 0);
  EXPECT_EQ(find(result, "aten::silu")->flops, 0);
}

TEST_F(OperatorProfileOfSmallNet, puts_flops_where_the_time_is_and_not_on_what_passes_the_work_on) {
  const OperatorProfile result = profile();
  EXPECT_GT(find(result, "aten::mkldnn_convolution")->flops, 0);
  EXPECT_EQ(find(result, "aten::convolution")->flops, 0);
  EXPECT_EQ(find(result, "aten::_convolution")->flops, 0);
  int64_t shown = 0;
  for (const auto& row : result.operators) shown += row.flops;
  const FlopCounter counter;
  net_.train_step(x_, x_);
  EXPECT_EQ(shown, counter.total()) << "no work is lost between the rows";
}

TEST_F(OperatorProfileOfSmallNet, puts_flops_where_the_time_is_in_double_precision_too) {
  const at::Tensor x = x_.to(at::kDouble), weight = at::randn({3, 3, 3, 3}, at::kDouble);
  const OperatorProfile result = profile_operators(
      [&] { static_cast<void>(at::conv2d(x, weight, {}, 1, 1)); }, c10::Device("cpu"));
  const auto most_work =
      std::max_element(result.operators.begin(), result.operators.end(),
                       [](const auto& a, const auto& b) { return a.flops < b.flops; });
  EXPECT_EQ(most_work->flops, 2 * 2 * (16 * 16) * 3 * 3 * 9);
  EXPECT_EQ(most_work->name, "aten::_slow_conv2d_forward");
}

TEST_F(OperatorProfileOfSmallNet, says_that_a_cpu_does_not_name_the_algorithm_of_a_convolution) {
  const reports::ConvolutionKernels convolutions = profile().convolutions;
  EXPECT_FALSE(convolutions.measured);
  EXPECT_TRUE(convolutions.kernels.empty());
  EXPECT_NE(convolutions.missing_reason.find("oneDNN"), std::string::npos);
}

TEST_F(OperatorProfileOfSmallNet, takes_as_many_steps_as_it_says) {
  int steps = 0;
  const auto count = [&] { ++steps; };
  static_cast<void>(profile_operators(count, c10::Device("cpu"), {4, ""}));
  EXPECT_EQ(steps, steps_of_profile(c10::Device("cpu"), 4));
}

TEST_F(OperatorProfileOfSmallNet, writes_a_chrome_trace) {
  const auto path = std::filesystem::temp_directory_path() / "noisemark_operator_profile.json";
  static_cast<void>(profile({1, path.string()}));
  const auto trace = nlohmann::json::parse(std::ifstream(path));
  EXPECT_FALSE(trace.at("traceEvents").empty());
  std::filesystem::remove(path);
}

TEST_F(OperatorProfileOfSmallNet, says_when_the_trace_cannot_be_written) {
  try {
    static_cast<void>(profile({1, "/nonexistent/folder/trace.json"}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCannotWrite);
  }
}

TEST_F(OperatorProfileOfSmallNet, stops_the_profiler_when_a_step_throws) {
  int calls = 0;
  const auto failing = [&] {
    if (++calls == 3) throw std::runtime_error("third step");
  };
  EXPECT_THROW(static_cast<void>(profile_operators(failing, c10::Device("cpu"), {1, ""})),
               std::runtime_error);
  EXPECT_NO_THROW(static_cast<void>(profile({1, ""})));
}

}  // namespace
}  // namespace noisemark::suite
