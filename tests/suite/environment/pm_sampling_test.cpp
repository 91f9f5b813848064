// Tests what is asked of CUPTI, and what becomes of its answers, beside a stand-in for it.
#include "suite/environment/pm_sampling.h"

#include <gtest/gtest.h>

#include <array>

#include "suite/environment/cupti.h"
#include "tests/suite/environment/driver/cupti_stand_in.h"

namespace noisemark::suite {
namespace {

// The stand-in's window: a hundred samples of a millisecond, after the first.
constexpr double kExpected_s = 1;
constexpr double kWindow_s = 0.1;

class PmSampling : public testing::Test {
 protected:
  PmSampling() { cupti_stand_in_reset(); }
  ~PmSampling() override { cupti_stand_in_reset(); }
};

std::vector<SampledValue> first_window() {
  const auto counters = make_sampled_counters(0);
  if (counters->sampled().windows.empty()) return {};
  counters->begin(0, kExpected_s);
  return counters->end(kWindow_s);
}

/// Says why the first metric is in no window, or why its window gave nothing.
std::string why_not() {
  const std::string missing = make_sampled_counters(0)->sampled().missing.at(0);
  return missing.empty() ? first_window().at(0).missing_reason : missing;
}

TEST_F(PmSampling, gives_means_of_samples_and_their_spread) {
  const auto values = first_window();
  ASSERT_EQ(values.size(), 4U);
  EXPECT_NEAR(values[0].frac.value(), 0.105, 1e-14) << "10 and 11 % in turns";
  EXPECT_DOUBLE_EQ(values[0].lowest.value(), 0.10);
  EXPECT_DOUBLE_EQ(values[0].highest.value(), 0.11);
  EXPECT_NEAR(values[3].frac.value(), 0.405, 1e-14) << "a sum of a hundred";
  EXPECT_EQ(values[3].called, "dram__bytes.avg.pct_of_peak_sustained_elapsed");
  EXPECT_EQ(values[0].samples, 100);
  EXPECT_DOUBLE_EQ(values[0].interval_s, 1e-3) << "a thousandth of what is expected";
}

TEST_F(PmSampling, samples_what_does_not_fit_in_a_window_of_its_own) {
  const auto counters = make_sampled_counters(0);
  const SamplingWindows& chosen = counters->sampled();
  ASSERT_EQ(chosen.windows.size(), 2U);
  EXPECT_EQ(chosen.windows[0].metrics, (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(chosen.windows[1].metrics, (std::vector<size_t>{4}));
  EXPECT_EQ(chosen.windows[1].called[0],
            "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed");
  EXPECT_EQ(chosen.missing[5], "this chip has no counter for it");
  counters->begin(1, kExpected_s);
  EXPECT_NEAR(counters->end(kWindow_s).at(0).frac.value(), 0.105, 1e-14);
}

TEST_F(PmSampling, calls_in_the_order_of_the_documentation_and_gives_all_back) {
  { const auto values = first_window(); }
  std::string calls = cupti_stand_in_calls();
  EXPECT_EQ(calls.find('!'), std::string::npos) << "a structure of another size: " << calls;
  size_t at = 0;
  for (const char* function :
       {"cuptiProfilerInitialize ", "cuptiProfilerDeviceSupported ", "cuptiDeviceGetChipName ",
        "cuptiPmSamplingGetCounterAvailability cuptiPmSamplingGetCounterAvailability ",
        "cuptiProfilerHostInitialize cuptiProfilerHostConfigAddMetrics "
        "cuptiProfilerHostGetConfigImageSize cuptiProfilerHostGetConfigImage "
        "cuptiProfilerHostGetNumOfPasses ",
        "cuptiPmSamplingEnable cuptiActivityRegisterTimestampCallback cuptiPmSamplingSetConfig "
        "cuptiPmSamplingGetCounterDataSize "
        "cuptiPmSamplingCounterDataImageInitialize cuptiPmSamplingStart cuptiPmSamplingStop "
        "cuptiPmSamplingDecodeData cuptiPmSamplingGetCounterDataInfo ",
        "cuptiPmSamplingCounterDataGetSampleInfo cuptiProfilerHostEvaluateToGpuValues ",
        "cuptiPmSamplingDisable ", "cuptiProfilerHostDeinitialize ",
        "cuptiProfilerDeInitialize "}) {
    const size_t found = calls.find(function, at);
    ASSERT_NE(found, std::string::npos) << function << "after " << calls.substr(0, at);
    at = found + 1;
  }
}

TEST_F(PmSampling, has_times_in_nanoseconds_whatever_clock_another_profiler_left) {
  cupti_stand_in_set("ticks_per_ns", 2.5);
  EXPECT_DOUBLE_EQ(first_window().at(0).interval_s, 1e-3);
  cupti_stand_in_reset();
  cupti_stand_in_set("ticks_per_ns", 2.5);
  cupti_stand_in_fail("cuptiActivityRegisterTimestampCallback", 15);
  EXPECT_EQ(first_window().at(0).missing_reason,
            "the samples' times add up to 250 % of the window");
}

TEST_F(PmSampling, can_sample_one_window_after_another) {
  const auto counters = make_sampled_counters(0);
  for (int i = 0; i < 3; ++i) {
    counters->begin(0, kExpected_s);
    EXPECT_TRUE(counters->end(kWindow_s).at(0).frac) << i;
  }
}

TEST_F(PmSampling, gives_the_counters_back_when_a_window_is_left) {
  {
    const auto counters = make_sampled_counters(0);
    counters->begin(0, kExpected_s);
  }
  EXPECT_EQ(why_no_sampling(0), "") << "else they are still taken";
}

TEST_F(PmSampling, counts_clocks_where_a_chip_has_no_trigger_by_time) {
  cupti_stand_in_set("clock_only", 1);
  EXPECT_TRUE(first_window().at(0).frac);
}

struct Refusal {
  const char* function;
  int code;
  const char* words;
};

TEST_F(PmSampling, names_what_was_refused_and_why) {
  constexpr std::array kRefusals{
      Refusal{"cuptiProfilerInitialize", 999, "unknown error, as without a driver"},
      Refusal{"cuptiDeviceGetChipName", 14, "the driver is of another version than CUPTI needs"},
      Refusal{"cuptiPmSamplingGetCounterAvailability", 35,
              "no permission: the driver lets only root read counters"},
      Refusal{"cuptiPmSamplingGetCounterAvailability", 40,
              "no permission on this virtual GPU: its host must allow profiling"},
      Refusal{"cuptiProfilerHostInitialize", 46, "the GPU is newer than CUPTI"},
      Refusal{"cuptiProfilerHostConfigAddMetrics", 17, "no such counter"},
      Refusal{"cuptiProfilerHostGetConfigImageSize", 999, "unknown error, as without a driver"},
      Refusal{"cuptiProfilerHostGetConfigImage", 1,
              "not accepted by this CUPTI, whose structures may have other sizes"},
      Refusal{"cuptiProfilerHostGetNumOfPasses", 4711, "CUPTI error 4711"},
      Refusal{"cuptiPmSamplingEnable", 35,
              "no permission: the driver lets only root read counters"},
      Refusal{"cuptiPmSamplingEnable", 26, "another profiler holds the counters"},
      Refusal{"cuptiPmSamplingEnable", 7, "not possible now: something else may sample the GPU"},
      Refusal{"cuptiPmSamplingEnable", 43, "not supported on a part of a divided GPU (MIG)"},
      Refusal{"cuptiPmSamplingEnable", 41, "not supported with confidential computing"},
      Refusal{"cuptiPmSamplingEnable", 33, "not supported on a virtual GPU"},
      Refusal{"cuptiPmSamplingSetConfig", 27, "not supported by this GPU or driver"},
      Refusal{"cuptiPmSamplingGetCounterDataSize", 8, "out of memory"},
      Refusal{"cuptiPmSamplingCounterDataImageInitialize", 15, "CUPTI is not initialised"},
      Refusal{"cuptiPmSamplingStart", 9, "the hardware failed"},
      Refusal{"cuptiPmSamplingStop", 999, "unknown error, as without a driver"},
      Refusal{"cuptiPmSamplingDecodeData", 999, "unknown error, as without a driver"},
      Refusal{"cuptiPmSamplingGetCounterDataInfo", 999, "unknown error, as without a driver"},
      Refusal{"cuptiPmSamplingCounterDataGetSampleInfo", 999, "unknown error, as without a driver"},
      Refusal{"cuptiProfilerHostEvaluateToGpuValues", 17, "no such counter"}};
  for (const Refusal& refusal : kRefusals) {
    cupti_stand_in_reset();
    cupti_stand_in_fail(refusal.function, refusal.code);
    EXPECT_EQ(why_not(), std::string(refusal.function) + ": " + refusal.words);
    cupti_stand_in_reset();
    EXPECT_TRUE(first_window().at(0).frac) << "it was given back after " << refusal.function;
  }
}

TEST_F(PmSampling, asks_nothing_more_of_a_library_that_could_not_begin) {
  cupti_stand_in_fail("cuptiProfilerInitialize", 999);
  { const auto counters = make_sampled_counters(0); }
  EXPECT_STREQ(cupti_stand_in_calls(), "cuptiProfilerInitialize ");
}

TEST_F(PmSampling, says_what_of_the_machine_stands_against_it) {
  cupti_stand_in_set("support", 1);
  EXPECT_EQ(why_not(), "CUPTI: not supported by this GPU or driver");
  cupti_stand_in_set("confidential_compute", 1);
  EXPECT_EQ(why_not(), "CUPTI: not supported with confidential computing");
  cupti_stand_in_set("virtual_gpu", 2);
  EXPECT_EQ(why_not(), "CUPTI: not allowed with this virtual GPU");
  cupti_stand_in_set("architecture", 1);
  EXPECT_EQ(why_not(), "CUPTI: not supported with GPUs of this architecture");
  cupti_stand_in_set("support", 0);
  EXPECT_EQ(why_not(), "") << "unknown decides nothing";
  cupti_stand_in_set("support", 1);
  cupti_stand_in_fail("cuptiProfilerDeviceSupported", 3);
  EXPECT_EQ(why_not(), "") << "nor does a question that has no answer";
}

TEST_F(PmSampling, does_not_use_a_library_whose_structures_are_others) {
  cupti_stand_in_set("longer_by", 8);
  EXPECT_EQ(why_not(),
            "cuptiProfilerInitialize: not accepted by this CUPTI, whose structures may have other "
            "sizes");
}

TEST_F(PmSampling, does_not_use_a_library_without_it) {
  cupti_stand_in_set("version", 23);
  EXPECT_EQ(why_not(), "CUPTI is too old: its interface is 23, sampling needs 24 (CUDA 12.6)");
  EXPECT_EQ(Cupti("libcupti.so.none").why_not(), "libcupti.so.none cannot be loaded");
  EXPECT_EQ(cupti_refusal("cuptiNew", std::nullopt), "cuptiNew: the library does not have it");
  cupti_stand_in_reset();
  cupti_stand_in_set("empty_chip", 1);
  EXPECT_EQ(why_not(), "CUPTI does not say which chip the GPU has");
}

TEST_F(PmSampling, gives_no_number_where_samples_were_lost) {
  cupti_stand_in_set("overflow", 1);
  EXPECT_EQ(why_not(), "samples were dropped: the hardware's buffer of 128 MiB overflowed");
  cupti_stand_in_reset();
  cupti_stand_in_fail("cuptiPmSamplingDecodeData", 8);
  EXPECT_EQ(why_not(), "samples were dropped: the hardware's buffer of 128 MiB overflowed");
  cupti_stand_in_reset();
  cupti_stand_in_set("stop_reason", 1);
  EXPECT_EQ(why_not(), "the window is too long: it has more than 4096 samples");
  cupti_stand_in_set("stop_reason", 0);
  EXPECT_EQ(why_not(), "decoding the samples came to no end");
  cupti_stand_in_reset();
  cupti_stand_in_set("samples", 60);
  EXPECT_EQ(why_not(), "samples were dropped: there are some of 59 % of the window");
  cupti_stand_in_set("samples", 0);
  EXPECT_EQ(why_not(), "0 samples are too few: it needs 10");
}

TEST_F(PmSampling, gives_no_number_where_a_sample_is_none) {
  cupti_stand_in_set("nan_at", 30);
  EXPECT_EQ(why_not(), "the hardware gave no number, as for what others share");
  cupti_stand_in_reset();
  cupti_stand_in_set("percent_at", 30);
  EXPECT_EQ(why_not(), "the hardware gave 250.0 %, which cannot be");
  cupti_stand_in_reset();
  cupti_stand_in_set("overlap_at", 30);
  EXPECT_EQ(why_not(), "sample 30 overlaps another one in time");
}

TEST_F(PmSampling, is_reachable_or_not_by_a_try_that_gives_the_counters_back) {
  EXPECT_EQ(why_no_sampling(0), "");
  EXPECT_EQ(why_no_sampling(0), "");
  const std::string calls = cupti_stand_in_calls();
  EXPECT_EQ(calls.find("cuptiPmSamplingStart"), std::string::npos) << "nothing is sampled";
  cupti_stand_in_fail("cuptiPmSamplingEnable", 35);
  EXPECT_NE(why_no_sampling(0).find("no permission"), std::string::npos);
  cupti_stand_in_reset();
  EXPECT_EQ(why_no_sampling(1), "cuptiDeviceGetChipName: no such device");
}

TEST_F(PmSampling, reads_neither_too_often_nor_so_seldom_that_counters_come_round) {
  const auto interval_s = [](double expected_s) {
    const auto counters = make_sampled_counters(0);
    counters->begin(0, expected_s);
    const double each_s = counters->end(0.01).at(0).interval_s;
    return each_s;
  };
  EXPECT_DOUBLE_EQ(interval_s(1e-9), 1e-4);
  EXPECT_DOUBLE_EQ(interval_s(2), 2e-3);
  EXPECT_DOUBLE_EQ(interval_s(1e9), 1e-2);
}

}  // namespace
}  // namespace noisemark::suite
