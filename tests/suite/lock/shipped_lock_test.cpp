// The whole LOCK, computed again: a failure here means that a benchmark of the same name and
// version has come to compute something else.

#include <gtest/gtest.h>

#include <string>

#include "suite/config/catalogue.h"
#include "suite/lock/compute.h"

namespace noisemark::suite {
namespace {

class ShippedLock : public testing::TestWithParam<std::string> {};

TEST_P(ShippedLock, is_what_the_code_computes) {
  LockComputer computer;
  for (const char* scale : {"cpu", "gpu"}) {
    const Definition definition = load_definition(GetParam(), scale);
    const std::string name = GetParam() + "@" + scale;
    ASSERT_TRUE(shipped_lock().contains(name));
    const LockEntry& locked = shipped_lock().at(name);
    for (const std::string& words : lock_differences(locked, computer.compute(definition))) {
      ADD_FAILURE() << name << ": " << words;
    }
  }
}

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const BenchmarkFile& file : benchmark_files()) ids.emplace_back(file.id);
  return ids;
}

INSTANTIATE_TEST_SUITE_P(Benchmarks, ShippedLock, testing::ValuesIn(all_ids()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace noisemark::suite
