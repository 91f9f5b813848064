#include "suite/train/precision.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <limits>

#include "reports/error.h"

namespace noisemark::suite {
namespace {

TEST(Precision, refuses_what_the_cpu_does_not_have_and_names_what_is_accepted) {
  for (const char* name : {"tf32", "fp16", "bf61"}) {
    try {
      (void)parse_precision(name, at::kCPU);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos) << error.what();
    }
  }
}

TEST(AutocastGuard, is_on_only_while_alive_and_only_for_bf16) {
  {
    const AutocastGuard guard(parse_precision("bf16", at::kCPU), at::kCPU);
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  const AutocastGuard guard(parse_precision("fp32", at::kCPU), at::kCPU);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(LossScaler, unscales_and_keeps_its_scale_after_a_good_step) {
  LossScaler scaler(at::kCPU);
  const at::Tensor gradient = scaler.scale(at::full({3}, 0.5));
  const at::Tensor found = scaler.unscale({gradient});
  scaler.update(found);
  EXPECT_EQ(gradient[0].item<double>(), 0.5);
  EXPECT_EQ(found.item<double>(), 0.0);
  EXPECT_EQ(scaler.current_scale(), 65536.0);
  EXPECT_EQ(scaler.skipped_steps(), 0);
}

TEST(LossScaler, halves_the_scale_and_counts_a_skip_after_an_overflow) {
  LossScaler scaler(at::kCPU);
  const at::Tensor gradient = at::full({3}, std::numeric_limits<float>::infinity());
  const at::Tensor found = scaler.unscale({gradient});
  scaler.update(found);
  EXPECT_EQ(found.item<double>(), 1.0);
  EXPECT_EQ(scaler.current_scale(), 32768.0);
  EXPECT_EQ(scaler.skipped_steps(), 1);
}

}  // namespace
}  // namespace noisemark::suite
