// The whole LOCK, computed again: a failure here means that a benchmark of the same name and
// version has come to compute something else.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "suite/config/catalogue.h"
#include "suite/lock/compute.h"

namespace noisemark::suite {
namespace {

/// One for all benchmarks: those that differ in nothing that a trace depends on are trained once.
class ShippedLock : public testing::TestWithParam<std::string> {
 protected:
  static LockComputer& computer() {
    static LockComputer shared;
    return shared;
  }
};

TEST_P(ShippedLock, is_what_the_code_computes) {
  const std::string name = GetParam();
  const size_t at = name.find('@');
  const Definition definition = load_definition(name.substr(0, at), name.substr(at + 1));
  ASSERT_TRUE(shipped_lock().contains(name));
  const LockEntry& locked = shipped_lock().at(name);
  for (const std::string& words : lock_differences(locked, computer().compute(definition))) {
    ADD_FAILURE() << name << ": " << words;
  }
}

std::vector<std::string> all_at(const std::string& scale) {
  std::vector<std::string> names;
  for (const BenchmarkFile& file : benchmark_files()) {
    names.push_back(std::string(file.id) + "@" + scale);
  }
  return names;
}

/// Returns the benchmarks of CPU scale that draw a mixture, whose nets take a second each, or the
/// others.
std::vector<std::string> at_cpu_scale(bool mixtures) {
  std::vector<std::string> names = all_at("cpu");
  std::erase_if(names,
                [&](const std::string& name) { return name.starts_with("gmm") != mixtures; });
  return names;
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.find('@'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(MixturesOfCpuScale, ShippedLock, testing::ValuesIn(at_cpu_scale(true)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ImagesOfCpuScale, ShippedLock, testing::ValuesIn(at_cpu_scale(false)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GpuScale, ShippedLock, testing::ValuesIn(all_at("gpu")), name_of);

}  // namespace
}  // namespace noisemark::suite
