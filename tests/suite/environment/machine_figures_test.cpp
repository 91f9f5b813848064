#include "suite/environment/machine_figures.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using reports::EventMetadata;
using reports::EventValue;

/// A file system with the processors that Linux would show.
class MachineFigures : public testing::Test {
 protected:
  MachineFigures() : root_(fs::path(testing::TempDir()) / ("now_" + std::to_string(getpid()))) {}
  ~MachineFigures() override { fs::remove_all(root_); }

  [[nodiscard]] EventMetadata with(const std::string& processors) const {
    fs::create_directories(root_ / "proc");
    std::ofstream(root_ / "proc/cpuinfo") << processors;
    return machine_figures(c10::Device(c10::kCPU), root_);
  }

  fs::path root_;
};

void expect_missing(const EventMetadata& figures, const std::string& why) {
  EXPECT_EQ(figures.at("cpu_clock_mhz"), EventValue{});
  EXPECT_EQ(figures.at("cpu_clock_mhz_missing"), EventValue(why));
}

TEST_F(MachineFigures, hold_the_mean_clock_of_the_processors) {
  const EventMetadata figures = with(
      "processor\t: 0\ncpu MHz\t\t: 2400.5\nflags\t\t: fpu avx2\n\nprocessor\t: 1\n"
      "cpu MHz\t\t: 800.5\nflags\t\t: fpu avx2\n");
  EXPECT_EQ(figures, (EventMetadata{{"cpu_clock_mhz", 1600.5}}));
}

TEST_F(MachineFigures, of_a_virtual_machine_are_missing_for_they_are_a_constant) {
  expect_missing(with("cpu MHz\t\t: 2596.096\nflags\t\t: fpu hypervisor avx2\n"),
                 "a virtual machine: its host does not show it");
}

TEST_F(MachineFigures, that_linux_does_not_show_are_missing) {
  expect_missing(with("processor : 0\nBogoMIPS : 50\n"), "Linux does not show it");
  expect_missing(machine_figures(c10::Device(c10::kCPU), root_ / "nowhere"),
                 "Linux does not show it");
}

}  // namespace
}  // namespace noisemark::suite
