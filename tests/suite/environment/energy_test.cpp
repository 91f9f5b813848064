#include "suite/environment/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// A file system with Linux's powercap.
class Energy : public testing::Test {
 protected:
  Energy() : root_(fs::path(testing::TempDir()) / ("energy_" + std::to_string(getpid()))) {}
  ~Energy() override { fs::remove_all(root_); }

  void write(const std::string& domain, const std::string& file, const std::string& text) const {
    const fs::path folder = root_ / "sys/class/powercap" / domain;
    fs::create_directories(folder);
    std::ofstream(folder / file) << text << '\n';
  }
  void package(int number, const std::string& microjoules) const {
    const std::string domain = "intel-rapl:" + std::to_string(number);
    write(domain, "name", "package-" + std::to_string(number));
    write(domain, "energy_uj", microjoules);
    write(domain, "max_energy_range_uj", "262143000000");
  }

  fs::path root_;
};

EnergyReading reading(double joules, std::optional<double> range_j = std::nullopt) {
  return {{{"package-0", joules, range_j}}, ""};
}

TEST_F(Energy, is_missing_with_the_reason_where_linux_counts_none) {
  const EnergyReading found = processor_energy(root_);
  EXPECT_TRUE(found.counters.empty());
  EXPECT_EQ(found.missing_reason, "Linux counts no energy of this processor");
}

TEST_F(Energy, is_read_of_whole_packages_and_of_nothing_within_or_around_them) {
  package(1, "3500000");
  package(0, "2000000");
  write("intel-rapl:0:0", "name", "core");
  write("intel-rapl:0:0", "energy_uj", "1000000");
  write("intel-rapl:2", "name", "psys");
  write("intel-rapl:2", "energy_uj", "9000000");
  write("intel-rapl", "enabled", "1");
  const EnergyReading found = processor_energy(root_);
  ASSERT_EQ(found.counters.size(), 2u);
  EXPECT_EQ(found.counters[0].name, "package-0");
  EXPECT_DOUBLE_EQ(found.counters[0].joules, 2.0);
  EXPECT_DOUBLE_EQ(found.counters[1].joules, 3.5);
  EXPECT_DOUBLE_EQ(found.counters[1].range_j.value_or(0), 262143.0);
  EXPECT_EQ(found.counters[1].name, "package-1");
}

/// A file that root alone may read cannot be made for a test that root runs: a folder cannot be
/// read by anyone.
TEST_F(Energy, is_missing_with_the_reason_where_it_cannot_be_read) {
  package(0, "1");
  write("intel-rapl:1", "name", "package-1");
  fs::create_directories(root_ / "sys/class/powercap/intel-rapl:1/energy_uj");
  const EnergyReading found = processor_energy(root_);
  EXPECT_TRUE(found.counters.empty()) << "one of two packages is no sum";
  EXPECT_EQ(found.missing_reason, "Linux shows the energy of this processor to root alone");
}

TEST_F(Energy, used_is_the_sum_of_the_differences) {
  package(0, "2000000");
  package(1, "3500000");
  const EnergyReading before = processor_energy(root_);
  package(0, "5000000");
  package(1, "4000000");
  const EnergyUsed used = energy_used(before, processor_energy(root_), 1);
  EXPECT_DOUBLE_EQ(used.joules.value_or(-1), 3.5);
  EXPECT_EQ(used.method, "package-0, package-1");
}

TEST(EnergyUsed, goes_on_where_a_counter_came_round_once) {
  EXPECT_DOUBLE_EQ(energy_used(reading(65000, 65536), reading(100, 65536), 10).joules.value_or(-1),
                   636);
  EXPECT_DOUBLE_EQ(energy_used(reading(100, 65536), reading(100, 65536), 10).joules.value_or(-1),
                   0);
}

TEST(EnergyUsed, is_never_guessed) {
  const auto reason = [](const EnergyReading& before, const EnergyReading& after, double seconds) {
    const EnergyUsed used = energy_used(before, after, seconds);
    EXPECT_FALSE(used.joules);
    return used.missing_reason;
  };
  EXPECT_EQ(reason(reading(1, 65536), reading(2, 65536), 66),
            "in 66 s the counter of package-0 may come round more than once");
  EXPECT_EQ(reason(reading(2), reading(1), 1), "the counter of package-0 went backwards");
  EXPECT_EQ(reason({{}, "why"}, reading(1), 1), "why");
  EXPECT_EQ(reason(reading(1), {{}, "why"}, 1), "why");
  EXPECT_EQ(reason(reading(1), {{{"package-1", 2, std::nullopt}}, ""}, 1), "the counters changed");
  EnergyReading two = reading(1);
  two.counters.push_back({"package-1", 2, std::nullopt});
  EXPECT_EQ(reason(reading(1), two, 1), "the counters changed");
}

TEST(EnergyOf, this_processor_has_counters_or_says_why_not) {
  const EnergyReading found = energy_of(c10::Device(c10::kCPU));
  EXPECT_EQ(found.counters.empty(), !found.missing_reason.empty());
}

TEST(EnergyMetric, is_that_of_the_counters_or_missing_with_their_reason) {
  const reports::Metric known = energy_metric({12.5, "", "package-0"});
  EXPECT_EQ(known.name, "energy_j");
  EXPECT_EQ(known.unit, "J");
  EXPECT_EQ(known.value, 12.5);
  EXPECT_TRUE(known.method.starts_with("package-0")) << known.method;
  const reports::Metric unknown = energy_metric({std::nullopt, "to root alone", ""});
  EXPECT_EQ(unknown.value, std::nullopt);
  EXPECT_EQ(unknown.missing_reason, "to root alone");
}

}  // namespace
}  // namespace noisemark::suite
