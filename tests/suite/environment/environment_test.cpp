#include "suite/environment/environment.h"

#include <unistd.h>

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <gtest/gtest.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "reports/result/environment_changes.h"
#include "suite/environment/child.h"
#include "suite/environment/graphics.h"
#include "suite/environment/installation.h"
#include "suite/environment/processor.h"
#include "suite/environment/surroundings.h"
#include "suite/environment/system.h"

namespace noisemark::suite {
namespace {

TEST(SystemFile, finds_a_field_by_its_whole_name) {
  const std::string text = "model name\t: Some CPU @ 2 GHz\nmodel\t\t: 85\nflags : a b\n";
  EXPECT_EQ(field_of(text, "model", ':'), "85");
  EXPECT_EQ(field_of(text, "model name", ':'), "Some CPU @ 2 GHz");
  EXPECT_EQ(field_of(text, "name", ':'), std::nullopt);
  EXPECT_EQ(read_system_file("/nonexistent"), std::nullopt);
}

TEST(Cause, is_told_whole_and_a_pipe_full_of_it_blocks_nobody) {
  const Cause cause;
  setenv(Cause::kVariable, std::to_string(cause.kept()).c_str(), 1);
  EXPECT_EQ(cause.told().words, "");
  const std::string longer(9'000, 'x');
  tell_cause(longer);
  tell_run("0123456789abcdef");
  tell_cause("a second one");
  const Cause::Told told = cause.told();
  EXPECT_EQ(told.words, longer);
  EXPECT_EQ(told.run_id, "0123456789abcdef");
  const std::string longest(size_t{1} << 20U, 'y');
  tell_cause(longest);
  tell_cause("one that finds no room");
  unsetenv(Cause::kVariable);
  const std::string words = cause.told().words;
  EXPECT_GE(words.size(), size_t{4096});
  EXPECT_TRUE(longest.starts_with(words));
}

TEST(Processor, takes_the_highest_instruction_set_whose_flags_are_all_there) {
  const auto flags = split_words("sse4_1 avx avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni");
  EXPECT_EQ(onednn_isa(flags, ""), "avx512_core_vnni");
  EXPECT_EQ(onednn_isa(split_words("sse4_1 avx avx2"), ""), "avx2");
  EXPECT_EQ(onednn_isa(split_words("sse4_1 avx avx2 avx512f"), ""), "avx2") << "avx512f alone";
  EXPECT_EQ(onednn_isa({}, ""), "");
}

TEST(Processor, obeys_the_cap) {
  const auto flags = split_words("sse4_1 avx avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni");
  EXPECT_EQ(onednn_isa(flags, "AVX2"), "avx2");
  EXPECT_EQ(onednn_isa(flags, "AVX512_CORE"), "avx512_core");
  EXPECT_EQ(onednn_isa(flags, "DEFAULT"), "avx512_core_vnni");
}

TEST(Installation, reads_versions_of_installed_packages_only) {
  const std::string status =
      "Package: libfmt-dev\nStatus: install ok installed\nVersion: 9.1.0+ds1-2\n\n"
      "Package: libssl3\nStatus: deinstall ok config-files\nVersion: 3.0.1\n\n"
      "Package: other\nStatus: install ok installed\nVersion: 1\n";
  const reports::Strings versions = package_versions(status, {"libfmt-dev", "libssl3"});
  EXPECT_EQ(versions, (reports::Strings{{"libfmt-dev", "9.1.0+ds1-2"}}));
}

// Reads the list as a shell does: the lines "build PACKAGE".
std::vector<std::string> packages_of_a_build() {
  std::ifstream file(NOISEMARK_SOURCE_DIR "/containers/apt-packages.txt");
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == "build") names.push_back(words[1]);
  }
  return names;
}

TEST(Installation, records_the_version_of_every_package_that_setup_installs) {
  const auto status = read_system_file("/var/lib/dpkg/status");
  if (!status) GTEST_SKIP() << "no Debian packages";
  const auto names = packages_of_a_build();
  ASSERT_GT(names.size(), 20U);
  const reports::Strings recorded = installed_packages();
  for (const auto& [name, version] : package_versions(*status, names)) {
    const auto found = recorded.find("package " + name);
    ASSERT_NE(found, recorded.end()) << name;
    EXPECT_EQ(found->second, version) << name;
  }
}

TEST(Installation, keeps_variables_that_matter_and_no_others) {
  ::setenv("OMP_TEST_OF_NOISEMARK", "7", 1);
  ::setenv("SECRET_OF_NOISEMARK", "hidden", 1);
  const reports::Strings variables = relevant_variables();
  EXPECT_EQ(variables.at("$OMP_TEST_OF_NOISEMARK"), "7");
  EXPECT_FALSE(variables.contains("$SECRET_OF_NOISEMARK"));
}

TEST(Installation, identifies_the_libtorch_that_is_loaded) {
  const reports::Strings identity = libtorch_identity();
  ASSERT_TRUE(identity.contains("libtorch_build_id"));
  EXPECT_EQ(identity.at("libtorch_build_id").size() % 2, 0U);
  EXPECT_GE(identity.at("libtorch_build_id").size(), 16U);
}

TEST(Graphics, says_nothing_of_a_gpu_that_is_not_there) {
  EXPECT_TRUE(describe_gpu(1000).hardware.empty());
}

std::string refusal_of_device(const std::string& spelling) {
  try {
    (void)parse_device(spelling);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST(Device, that_cannot_be_used_is_told_with_the_reason) {
  if (default_device().is_cuda()) GTEST_SKIP() << "a GPU is here";
  for (const char* device : {"cuda", "cuda:3"}) {
    try {
      (void)parse_device(device);
      FAIL() << device;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCannotRunHere);
      EXPECT_EQ(std::string(error.what()),
                std::string("--device: ") + device + ": no usable CUDA device here: " +
                    missing_gpu(look_around()).why + " (see `noisemark doctor`)");
    }
  }
}

TEST(Device, that_is_none_is_refused_with_the_nearest_that_is_one) {
  const std::string all = "one of: cpu, cuda, cuda:N)";
  EXPECT_EQ(refusal_of_device("cup"), "--device: cup (nearest \"cpu\"; " + all);
  EXPECT_EQ(refusal_of_device("cdua"), "--device: cdua (nearest \"cuda\"; " + all);
  EXPECT_EQ(refusal_of_device("cdua:1"), "--device: cdua:1 (nearest \"cuda:N\"; " + all);
  EXPECT_EQ(refusal_of_device("gpu"), "--device: gpu (nearest \"cuda\"; " + all);
  EXPECT_EQ(refusal_of_device("mps"), "--device: mps (nearest \"cpu\"; " + all);
  EXPECT_EQ(refusal_of_device("wonderful"), "--device: wonderful (" + all);
}

TEST(Machine, fills_identity_and_provenance) {
  reports::Result result;
  describe_machine(c10::Device(c10::kCPU), result);
  EXPECT_EQ(result.identity.hardware.at("cpu_isa"), at::get_cpu_capability());
  EXPECT_EQ(result.identity.software.at("libtorch"), TORCH_VERSION);
  EXPECT_FALSE(result.identity.hardware.contains("gpu_model"));
  EXPECT_EQ(result.provenance.binary_sha256, reports::sha256_of_file("/proc/self/exe"));
  EXPECT_FALSE(result.provenance.build.at("compiler").empty());
  EXPECT_EQ(result.provenance.git_dirty, !result.provenance.git_diff_sha256.empty());
  EXPECT_FALSE(result.environment.at("kernel").empty());
}

TEST(Machine, names_what_libtorch_chooses_by) {
  at::Context& context = at::globalContext();
  const bool before = context.benchmarkCuDNN();
  const bool deterministic = context.deterministicCuDNN();
  for (const bool wanted : {true, false}) {
    context.setBenchmarkCuDNN(wanted);
    context.setDeterministicCuDNN(!wanted);
    const reports::Strings environment = capture_machine(c10::Device(c10::kCPU)).environment;
    EXPECT_EQ(environment.at("torch_cudnn_benchmark"), wanted ? "on" : "off");
    EXPECT_EQ(environment.at("torch_deterministic_cudnn"), wanted ? "off" : "on");
    for (const char* flag : {"torch_deterministic_algorithms", "torch_threads"}) {
      EXPECT_TRUE(environment.contains(flag)) << flag;
    }
  }
  context.setBenchmarkCuDNN(before);
  context.setDeterministicCuDNN(deterministic);
}

TEST(Machine, names_where_libtorch_may_round_float32_to_tf32) {
  at::Context& context = at::globalContext();
  const bool products = context.allowTF32CuBLAS();
  const bool convolutions = context.allowTF32CuDNN();
  for (const bool wanted : {true, false}) {
    context.setAllowTF32CuBLAS(wanted);
    context.setAllowTF32CuDNN(!wanted);
    const reports::Strings environment = capture_machine(c10::Device(c10::kCPU)).environment;
    EXPECT_EQ(environment.at("torch_float32_matmul_cuda") == "tf32", wanted);
    EXPECT_EQ(environment.at("torch_float32_conv_cuda") == "tf32", !wanted);
    EXPECT_TRUE(environment.contains("torch_float32_matmul_onednn"));
    EXPECT_TRUE(environment.contains("torch_float32_conv_onednn"));
  }
  context.setAllowTF32CuBLAS(products);
  context.setAllowTF32CuDNN(convolutions);
}

TEST(Machine, identity_is_the_same_twice) {
  const Machine first = capture_machine(c10::Device(c10::kCPU));
  const Machine second = capture_machine(c10::Device(c10::kCPU));
  EXPECT_EQ(first.hardware, second.hardware);
  EXPECT_EQ(first.software, second.software);
}

TEST(Machine, prints_the_same_facts_as_text_and_as_json) {
  const Machine machine = capture_machine(c10::Device(c10::kCPU));
  const auto json = nlohmann::json::parse(machine_json(machine));
  const std::string text = machine_text(machine);
  for (const auto& [key, value] : machine.software) {
    EXPECT_EQ(json["software"][key], value);
    EXPECT_NE(text.find(value), std::string::npos) << key;
  }
}

using reports::Strings;

const std::string kChanged{reports::kChangedWhileItRan};

Strings before() {
  return {{"cpu_governor", "performance"}, {"gpu_clock_reasons", "idle"},
          {"gpu_other_processes", "0"},    {"gpu_sm_clock_mhz", "345"},
          {"kernel", "Linux 6"},           {"package libfmt-dev", "9"}};
}

/// Returns what is recorded where `key` is `value` at the end, and all else as before.
Strings after_change(const std::string& key, const std::string& value) {
  Strings environment = before();
  Strings end = before();
  end[key] = value;
  add_changes(environment, end);
  return environment;
}

TEST(Changes, of_a_setting_are_named_and_both_values_kept) {
  const Strings found = after_change("cpu_governor", "powersave");
  EXPECT_EQ(found.at(kChanged), "cpu_governor");
  EXPECT_EQ(found.at("cpu_governor"), "performance");
  EXPECT_EQ(found.at("at the end: cpu_governor"), "powersave");
}

TEST(Changes, name_a_processor_that_heat_or_a_quota_slowed_down) {
  for (const char* count : {"cpu_thermal_throttles", "cpu_quota_throttles"}) {
    Strings environment = {{count, "7"}};
    add_changes(environment, {{count, "8"}});
    EXPECT_EQ(environment.at(kChanged), count);
  }
}

TEST(Changes, are_none_where_all_is_as_it_was) {
  Strings environment = before();
  add_changes(environment, before());
  Strings expected = before();
  expected[kChanged] = "nothing";
  EXPECT_EQ(environment, expected);
}

TEST(Changes, of_what_differs_always_are_kept_but_not_named) {
  const Strings found = after_change("gpu_sm_clock_mhz", "1980");
  EXPECT_EQ(found.at(kChanged), "nothing");
  EXPECT_EQ(found.at("at the end: gpu_sm_clock_mhz"), "1980");
}

TEST(Changes, tell_a_gpu_that_got_to_work_from_one_that_is_held_down) {
  EXPECT_EQ(after_change("gpu_clock_reasons", "none").at(kChanged), "nothing");
  EXPECT_EQ(after_change("gpu_clock_reasons", "power cap").at(kChanged), "nothing");
  EXPECT_EQ(after_change("gpu_clock_reasons", "power cap").at("at the end: gpu_clock_reasons"),
            "power cap");
  EXPECT_EQ(after_change("gpu_clock_reasons", "power cap, thermal slow-down").at(kChanged),
            "gpu_clock_reasons");
}

TEST(Changes, count_other_processes_only_where_they_can_be_told_from_this_one) {
  EXPECT_EQ(after_change("gpu_other_processes", "1").at(kChanged), "gpu_other_processes");
  Strings environment = {{"gpu_other_processes", process_count(0, true)}};
  add_changes(environment, {{"gpu_other_processes", process_count(1, true)}});
  EXPECT_EQ(environment.at(kChanged), "nothing");
  EXPECT_EQ(environment.at("at the end: gpu_other_processes"), process_count(1, true));
}

TEST(Changes, include_what_can_no_longer_be_read) {
  Strings environment = before();
  add_changes(environment, {});
  EXPECT_EQ(environment.at("at the end: cpu_governor"), "not known");
  EXPECT_NE(environment.at(kChanged).find("cpu_governor"), std::string::npos);
}

TEST(Changes, are_looked_for_in_what_the_environment_began_with) {
  const Strings environment = capture_machine(c10::Device(c10::kCPU)).environment;
  for (const auto& [key, value] : machine_state(c10::Device(c10::kCPU))) {
    EXPECT_TRUE(environment.contains(key)) << key;
  }
}

TEST(Graphics, says_of_a_count_of_processes_that_a_container_made_it) {
  EXPECT_EQ(process_count(3, false), "3");
  EXPECT_EQ(process_count(3, true), "3 seen from a container");
  EXPECT_TRUE(is_count_of_container(process_count(0, true)));
  EXPECT_FALSE(is_count_of_container("0"));
}

TEST(Graphics, names_the_clocks_policy_only_where_both_clocks_are_known) {
  EXPECT_EQ(clock_policy(1980, 1980), "default");
  EXPECT_EQ(clock_policy(1410, 1980), "set to 1410 MHz");
  EXPECT_EQ(clock_policy(std::nullopt, 1980), "");
  EXPECT_EQ(clock_policy(1980, std::nullopt), "");
}

TEST(Processor, names_the_clocks_policy_as_far_as_linux_shows_it) {
  EXPECT_EQ(cpu_clock_policy({{"cpu_governor", "powersave"}, {"cpu_turbo", "on"}}),
            "governor powersave, turbo on");
  EXPECT_EQ(cpu_clock_policy({{"cpu_turbo", "off"}}), "turbo off");
  EXPECT_EQ(cpu_clock_policy({{"kernel", "Linux 6"}}), "");
}

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
