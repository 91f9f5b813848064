// The bytes that modes are to save on the benchmarks' own networks. Bytes do not depend on what the
// pictures show, so generated ones serve; all but gist's, whose sparse storage does, are exact.

#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <ostream>
#include <string>

#include "suite/run/interrupt.h"
#include "suite/run/memory_pass.h"
#include "suite/run/plan.h"
#include "suite/run/progress.h"
#include "suite/run/single_run.h"

namespace noisemark::suite {
namespace {

using Figure = int64_t reports::MemorySection::*;
constexpr Figure kSaved = &reports::MemorySection::saved_bytes;
constexpr Figure kPeakSaved = &reports::MemorySection::peak_saved_bytes;

struct Target {
  std::string id;
  std::string mode;
  Figure figure;
  double factor;  ///< so many times fewer bytes than mode "none"
};

std::ostream& operator<<(std::ostream& to, const Target& target) {
  return to << target.id << ' ' << target.mode;
}

/// Two pictures a step: bytes by picture are then those of larger batches. Of one alone attention
/// is given a view where it copies several, and "none" saves less.
SessionOptions session_of(const std::string& id, const std::string& mode) {
  RunOptions options;
  options.id = id + "@cpu";
  options.device = "cpu";
  options.modes = {mode};
  options.sets = {"data.name=synthetic", "data.train_samples=16", "train.batch=2",
                  "measure.memory_steps=1"};
  return session_options(options, plan_runs(options).front());
}

reports::MemorySection measured(const std::string& id, const std::string& mode) {
  Progress line("", 1, 1);
  const InterruptGuard interrupt;
  return memory_pass(session_of(id, mode), {line, interrupt});
}

/// Once for all modes of a network.
const reports::MemorySection& without_mode(const std::string& id) {
  static std::map<std::string, reports::MemorySection> known;
  const auto found = known.find(id);
  return found == known.end() ? known.emplace(id, measured(id, "none")).first->second
                              : found->second;
}

class ByteTargets : public testing::TestWithParam<Target> {};

TEST_P(ByteTargets, are_reached) {
  const Target& target = GetParam();
  const reports::MemorySection& none = without_mode(target.id);
  const reports::MemorySection mode = measured(target.id, target.mode);
  ASSERT_TRUE(none.measured) << none.missing_reason;
  ASSERT_TRUE(mode.measured) << mode.missing_reason;
  ASSERT_GT(mode.*target.figure, 0);
  const double factor =
      static_cast<double>(none.*target.figure) / static_cast<double>(mode.*target.figure);
  RecordProperty("factor", std::to_string(factor));
  EXPECT_GE(factor, target.factor) << none.*target.figure << " against " << mode.*target.figure;
}

INSTANTIATE_TEST_SUITE_P(Networks, ByteTargets,
                         testing::Values(Target{"ho-cifar10", "echo", kSaved, 2.9},
                                         Target{"ho-cifar10", "echo+attn", kSaved, 4.2},
                                         Target{"ho-cifar10", "mirror+echo", kPeakSaved, 4.0},
                                         Target{"ho-cifar10", "echo+dpr8", kSaved, 10},
                                         Target{"ho-relu-cifar10", "gist", kSaved, 1.23},
                                         Target{"lucid-cifar10", "echo", kSaved, 2}),
                         [](const auto& info) {
                           std::string name = info.param.id + '_' + info.param.mode;
                           for (char& letter : name) {
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0) {
                               letter = '_';
                             }
                           }
                           return name;
                         });

}  // namespace
}  // namespace noisemark::suite
