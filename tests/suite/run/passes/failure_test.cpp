#include "suite/run/passes/failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memopt/modes/budget_mode.h"
#include "suite/run/passes/owners.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

/// Writes an error of CUDA as LibTorch does.
std::string cuda_text(const std::string& what) {
  return "CUDA error: " + what +
         "\nCUDA kernel errors might be asynchronously reported at some other API call, so the "
         "stacktrace below might be incorrect.\nFor debugging consider passing "
         "CUDA_LAUNCH_BLOCKING=1";
}

ExitCode code_of(const std::string& text) {
  const auto failure = device_failure(text);
  return failure ? failure->code : ExitCode::kPass;
}

TEST(DeviceFailure, cannot_run_here_where_the_gpu_or_its_driver_does_not_serve_this_program) {
  const std::vector<std::string> texts{
      cuda_text("CUDA-capable device(s) is/are busy or unavailable"),
      cuda_text("all CUDA-capable devices are busy or unavailable"),
      cuda_text("CUDA driver version is insufficient for CUDA runtime version"),
      "The NVIDIA driver on your system is too old (found version 12040).",
      "Found no NVIDIA driver on your system.",
      cuda_text("no CUDA-capable device is detected"),
      cuda_text("system not yet initialized"),
      cuda_text("no kernel image is available for execution on the device")};
  for (const std::string& text : texts) {
    EXPECT_EQ(code_of(text), ExitCode::kCannotRunHere) << text;
  }
}

TEST(DeviceFailure, of_a_kernel_says_that_it_may_have_happened_before) {
  const auto failure = device_failure(cuda_text("an illegal memory access was encountered"));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ExitCode::kInternal);
  EXPECT_TRUE(failure->reason.starts_with(
      "CUDA error: an illegal memory access was encountered: a kernel failed, maybe long before"))
      << failure->reason;
  EXPECT_EQ(failure->reason.find('\n'), std::string::npos);
  for (const char* what :
       {"device-side assert triggered", "misaligned address",
        "an illegal instruction was encountered", "unspecified launch failure",
        "the launch timed out and was terminated", "uncorrectable ECC error encountered"}) {
    EXPECT_EQ(code_of(cuda_text(what)), ExitCode::kInternal) << what;
  }
}

TEST(DeviceFailure, of_the_driver_is_told_with_what_helps) {
  const std::pair<const char*, const char*> cases[] = {
      {"The NVIDIA driver on your system is too old (found version 12040).", "newer driver"},
      {"CUDA error: all CUDA-capable devices are busy or unavailable", "exclusive compute mode"},
      {"CUDA error: no CUDA-capable device is detected", "noisemark doctor"},
      {"CUDA error: no kernel image is available for execution on the device", "CUDAARCHS"},
      {"CUDA error: system not yet initialized", "fabric manager"}};
  for (const auto& [text, words] : cases) {
    const auto failure = device_failure(text);
    ASSERT_TRUE(failure) << text;
    EXPECT_NE(failure->reason.find(words), std::string::npos) << failure->reason;
  }
}

TEST(DeviceFailure, of_a_librarys_allocation_is_out_of_memory) {
  EXPECT_EQ(code_of("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            ExitCode::kOutOfMemory);
  for (const char* status :
       {"CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
        "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"}) {
    EXPECT_EQ(code_of("cuDNN error: " + std::string(status)), ExitCode::kOutOfMemory) << status;
  }
  EXPECT_EQ(code_of(cuda_text("out of memory")), ExitCode::kOutOfMemory) << "of the driver's own";
  EXPECT_EQ(code_of("CUDA driver error: out of memory"), ExitCode::kOutOfMemory);
}

constexpr const char* kNoEngine = "GET was unable to find an engine to execute this computation";
constexpr int64_t kGiB = int64_t{1} << 30;

TEST(DeviceFailure, of_no_algorithm_is_out_of_memory_only_where_memory_is_short) {
  const auto code_with = [](const std::optional<DeviceRoom>& room) {
    const auto failure = device_failure(kNoEngine, room);
    return failure ? failure->code : ExitCode::kPass;
  };
  EXPECT_EQ(code_with(DeviceRoom{.free_bytes = 1 << 20, .refusals = 0}), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_with(DeviceRoom{.free_bytes = kGiB, .refusals = 1}), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_with(DeviceRoom{.free_bytes = kGiB, .refusals = 0}), ExitCode::kInternal);
  EXPECT_EQ(code_with(std::nullopt), ExitCode::kInternal);
  EXPECT_NE(device_failure(kNoEngine)->reason.find("no algorithm for this type"),
            std::string::npos);
}

TEST(DeviceFailure, is_no_error_of_another_kind) {
  EXPECT_FALSE(device_failure("mat1 and mat2 shapes cannot be multiplied"));
  EXPECT_FALSE(device_failure("illegal memory access"));
  EXPECT_FALSE(device_failure(cuda_text("something that CUDA 99 may say")));
}

TEST(Failure, of_the_devices_allocator_is_out_of_memory_whatever_it_says) {
  const c10::OutOfMemoryError error({__func__, __FILE__, __LINE__},
                                    "CUDA out of memory. Tried to allocate 20.00 GiB.\nMore.");
  const Failure failure = failure_of(error);
  EXPECT_EQ(failure.code, ExitCode::kOutOfMemory);
  EXPECT_EQ(failure.reason, "CUDA out of memory. Tried to allocate 20.00 GiB.");
}

TEST(Failure, of_a_kernel_is_no_result_and_says_where_to_look) {
  constexpr int32_t kAssert = 710;  // cudaErrorAssert
  const c10::AcceleratorError error({__func__, __FILE__, __LINE__}, kAssert,
                                    cuda_text("device-side assert triggered"));
  const Failure failure = failure_of(error);
  EXPECT_EQ(failure.code, ExitCode::kInternal);
  EXPECT_NE(failure.message.find("CUDA_LAUNCH_BLOCKING=1"), std::string::npos) << failure.message;
}

TEST(Failure, of_a_gpu_that_is_taken_is_told_as_such) {
  const c10::Error error({__func__, __FILE__, __LINE__},
                         cuda_text("CUDA-capable device(s) is/are busy or unavailable"));
  const Failure failure = failure_of(error);
  EXPECT_EQ(failure.code, ExitCode::kCannotRunHere);
  EXPECT_EQ(failure.status, "cannot run here");
  EXPECT_NE(failure.reason.find("exclusive compute mode"), std::string::npos) << failure.reason;
}

c10::Error error_of(const std::string& text) {
  return {{__func__, __FILE__, __LINE__}, text};
}

std::optional<DeviceRoom> plenty() {
  return DeviceRoom{.free_bytes = kGiB, .refusals = 0};
}

std::optional<DeviceRoom> almost_none() {
  return DeviceRoom{.free_bytes = 4096, .refusals = 0};
}

TEST(FailedAllocation, of_a_library_of_the_gpu_counts_as_one_of_the_allocator) {
  for (const std::string& text :
       {std::string("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        std::string("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        std::string(
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")}) {
    const auto what = failed_allocation(error_of(text), plenty);
    ASSERT_TRUE(what) << text;
    EXPECT_TRUE(what->starts_with(text.substr(0, text.find('\n')))) << *what;
    EXPECT_EQ(what->find('\n'), std::string::npos) << *what;
  }
  EXPECT_FALSE(failed_allocation(error_of("CUDA error: an illegal memory access was encountered")));
  EXPECT_FALSE(failed_allocation(error_of("mat1 and mat2 shapes cannot be multiplied")));
}

TEST(FailedAllocation, is_asked_of_the_gpu_where_cudnn_has_no_algorithm) {
  EXPECT_TRUE(failed_allocation(error_of(kNoEngine), almost_none));
  EXPECT_FALSE(failed_allocation(error_of(kNoEngine), plenty));
  EXPECT_FALSE(failed_allocation(error_of(kNoEngine))) << "no GPU was used by this program";
}

TEST(FailedAllocation, of_a_library_in_a_step_names_the_owners) {
  const test::TinySession session(test::tiny_definition());
  try {
    name_owners_when_full(*session.trainer, [] {
      throw error_of("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED");
    });
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("given up: weights "), std::string::npos)
        << error.what();
  }
}

TEST(FailedAllocation, of_the_host_is_one_wherever_it_was_asked_for) {
  EXPECT_TRUE(failed_allocation(std::bad_alloc()));
  EXPECT_EQ(
      failed_allocation(error_of("[enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: "
                                 "can't allocate memory: you tried to allocate 8 bytes\nmore")),
      "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes");
}

TEST(Failure, of_a_budget_is_bad_input_where_no_plan_keeps_it_and_failed_where_a_step_did_not) {
  const memopt::Budget budget = memopt::parse_budget("budget:saved=1MiB,strict");
  const Failure refused = failure_of(memopt::BudgetTooSmall(budget, int64_t{2} << 20));
  EXPECT_EQ(refused.code, ExitCode::kBadInput);
  EXPECT_NE(refused.reason.find("budget:saved=2MiB,strict"), std::string::npos) << refused.reason;
  const Failure exceeded = failure_of(memopt::BudgetNotKept("budget:saved=1MiB was not kept"));
  EXPECT_EQ(exceeded.code, ExitCode::kFailed);
  EXPECT_EQ(exceeded.reason, "budget:saved=1MiB was not kept");
}

}  // namespace

}  // namespace noisemark::suite
