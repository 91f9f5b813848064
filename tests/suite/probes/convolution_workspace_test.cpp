#include "suite/probes/convolution_workspace.h"

#include <gtest/gtest.h>

namespace noisemark::suite {
namespace {

using memopt::LogEvent;
using Kind = LogEvent::Kind;

const c10::Device kGpu("cuda:0");

/// An allocation log written by hand, as the operators of a GPU would write it.
class Script {
 public:
  uint32_t open(const std::string& name, uint32_t parent = 0, bool calls_library = true) {
    memopt::OperatorFrame frame;
    frame.name = name;
    frame.parent = parent;
    frame.calls_library = calls_library;
    frame.opened_at = record.events.size();
    record.frames.push_back(frame);
    return static_cast<uint32_t>(record.frames.size());
  }
  void close(uint32_t id) { record.frames[id - 1].closed_at = record.events.size(); }
  void allocate(uint64_t number, int64_t bytes, uint32_t frame = 0) {
    add(Kind::kAllocate, number, bytes, frame);
  }
  void release(uint64_t number, int64_t bytes, uint32_t frame = 0) {
    add(Kind::kRelease, number, bytes, frame);
  }
  /// A forward convolution as LibTorch calls it: a copy, the result, and scratch memory.
  void convolve(uint64_t number, int64_t scratch_bytes) {
    const uint32_t outer = open("aten::convolution");
    const uint32_t inner = open("aten::cudnn_convolution", outer);
    const uint32_t copy = open("aten::empty", inner, /*calls_library=*/false);
    allocate(number, 5000, copy);
    close(copy);
    allocate(number + 1, 9000, inner);  // the result
    allocate(number + 2, scratch_bytes, inner);
    release(number + 2, scratch_bytes, inner);
    release(number, 5000, inner);
    close(inner);
    close(outer);
  }

  [[nodiscard]] reports::ConvolutionWorkspace found(std::optional<int64_t> limit = {}) const {
    return convolution_workspace(kGpu, record, memopt::attribute(record), limit);
  }

  memopt::AllocationRecord record;

 private:
  void add(Kind kind, uint64_t number, int64_t bytes, uint32_t frame) {
    LogEvent event;
    event.kind = kind;
    event.frame = frame;
    event.block = {number, bytes, memopt::Owner::kUnattributed};
    record.events.push_back(event);
  }
};

TEST(ConvolutionWorkspace, is_what_the_operator_took_for_cudnn_and_no_copy_and_no_result) {
  Script script;
  script.convolve(1, 700);
  const reports::ConvolutionWorkspace found = script.found();
  EXPECT_EQ(found.largest_bytes, 700);
  EXPECT_EQ(found.peak_bytes, 5700) << "the copy is scratch of the operator too, at one instant";
  EXPECT_EQ(found.missing_reason, "");
  EXPECT_FALSE(found.limit_bytes);
}

TEST(ConvolutionWorkspace, is_the_largest_of_all_convolutions_of_the_step) {
  Script script;
  script.convolve(1, 700);
  script.convolve(11, 2000);
  script.convolve(21, 1000);
  const uint32_t backward = script.open("aten::convolution_backward");
  script.allocate(31, 3000, backward);
  script.release(31, 3000, backward);
  script.close(backward);
  EXPECT_EQ(script.found().largest_bytes, 3000);
}

TEST(ConvolutionWorkspace, is_not_what_other_operators_of_libraries_take) {
  Script script;
  script.convolve(1, 700);
  const uint32_t product = script.open("aten::mm");
  script.allocate(11, 9000, product);
  script.release(11, 9000, product);
  script.close(product);
  EXPECT_EQ(script.found().largest_bytes, 700);
  EXPECT_EQ(script.found().peak_bytes, 9000);
}

TEST(ConvolutionWorkspace, is_not_what_outlives_the_operator) {
  Script script;
  const uint32_t backward = script.open("aten::convolution_backward");
  script.allocate(1, 4000, backward);
  script.close(backward);
  script.release(1, 4000);
  EXPECT_EQ(script.found().largest_bytes, 0);
}

TEST(ConvolutionWorkspace, of_a_step_in_which_no_convolution_took_any_is_none) {
  const reports::ConvolutionWorkspace found = Script().found();
  EXPECT_EQ(found.largest_bytes, 0);
  EXPECT_EQ(found.peak_bytes, 0);
}

TEST(ConvolutionWorkspace, stands_beside_the_limit) {
  Script script;
  script.convolve(1, 700);
  EXPECT_EQ(script.found(512).limit_bytes, 512);
}

TEST(ConvolutionWorkspace, of_a_cpu_is_not_known_and_says_why) {
  const memopt::AllocationRecord record;
  const auto found = convolution_workspace(c10::Device("cpu"), record, memopt::attribute(record),
                                           int64_t{1} << 20);
  EXPECT_FALSE(found.largest_bytes);
  EXPECT_FALSE(found.peak_bytes);
  EXPECT_EQ(found.limit_bytes, 1 << 20);
  EXPECT_NE(found.missing_reason.find("oneDNN"), std::string::npos);
}

TEST(ConvolutionWorkspaceLimit, is_in_mebibytes_and_nothing_where_it_is_no_number) {
  EXPECT_EQ(workspace_limit("64"), int64_t{64} << 20);
  EXPECT_EQ(workspace_limit("0"), 0);
  EXPECT_EQ(workspace_limit(nullptr), std::nullopt);
  for (const char* text : {"", "many", "-1", "64MiB", " 64", "9223372036854775807"}) {
    EXPECT_EQ(workspace_limit(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace noisemark::suite
