#include "suite/run/out_of_memory.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include "suite/run/owners.h"
#include "tests/suite/train/tiny.h"

namespace noisemark::suite {
namespace {

constexpr const char* kNoEngine = "GET was unable to find an engine to execute this computation";
constexpr int64_t kGiB = int64_t{1} << 30;

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

}  // namespace
}  // namespace noisemark::suite
