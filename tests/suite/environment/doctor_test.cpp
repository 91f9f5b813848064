#include "suite/environment/doctor.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "suite/environment/energy.h"
#include "suite/environment/graphics.h"
#include "suite/environment/surroundings.h"

namespace noisemark::suite {
namespace {

/// A machine of which everything is known and nothing disturbs.
Machine good_machine() {
  Machine machine;
  machine.git_commit = std::string(40, 'a');
  machine.build = {{"type", "Release"}};
  machine.container = {{"kind", "docker"}, {"digest", "sha256:12"}};
  machine.hardware = {{"gpu_model", "Example GPU"}, {"gpu_ecc", "on"}, {"gpu_mig", "off"}};
  machine.software = {{"cuda_driver", "580.1"}};
  machine.environment = {{"cpu_governor", "performance"},
                         {"cpu_turbo", "off"},
                         {"cpu_frequency_min_khz", "800000"},
                         {"cpu_frequency_max_khz", "2500000"},
                         {"cpu_thermal_throttles", "0"},
                         {"cgroup_cpu_max", "max 100000"},
                         {"gpu_sm_clock_mhz", "1980"},
                         {"gpu_sm_clock_applications_mhz", "1980"},
                         {"gpu_memory_clock_applications_mhz", "3201"},
                         {"gpu_energy_mj", "123456"},
                         {"gpu_persistence", "on"},
                         {"gpu_power_mw", "120000"},
                         {"gpu_power_limit_mw", "700000"},
                         {"gpu_temperature_c", "40"},
                         {"gpu_clock_reasons", "none"},
                         {"gpu_compute_mode", "default"},
                         {kGpuColumns, kReachable},
                         {"gpu_other_processes", "0"}};
  return machine;
}

Surroundings good_surroundings() {
  Surroundings around;
  around.frequency_driver = around.cuda_build = around.gpu_device = true;
  around.driver_library = around.nvml_library = true;
  around.cuda_build_major = 13;
  around.driver_cuda_version = 13000;
  around.cuda_init_code = 0;
  around.counters_for_root_only = false;
  around.no_sampling = "";
  around.gnuplot = around.package_list = true;
  around.load = 0.1;
  around.processors = 16;
  return around;
}

/// The diagnosis of what no driver tells of any GPU.
const std::string kNeverKnown = "GPU clock lock";

using Change = std::function<void(Machine&, Surroundings&)>;

/// Returns what is said of `what` after one change to good circumstances.
Diagnosis after(const std::string& what, const Change& change) {
  Machine machine = good_machine();
  Surroundings around = good_surroundings();
  change(machine, around);
  for (const Diagnosis& one : diagnose(machine, around)) {
    if (one.what == what) return one;
  }
  ADD_FAILURE() << "nothing was said of " << what;
  return {};
}

void expect_said(const std::string& what, Health health, const std::string& words,
                 const Change& change) {
  const Diagnosis one = after(what, change);
  EXPECT_EQ(one.health, health) << what << ": " << one.found;
  EXPECT_NE((one.found + " " + one.to_do).find(words), std::string::npos)
      << what << ": " << one.found << " " << one.to_do;
}

TEST(Doctor, finds_nothing_where_all_is_known_and_calm) {
  for (const Diagnosis& one : diagnose(good_machine(), good_surroundings())) {
    if (one.what == kNeverKnown) continue;
    EXPECT_EQ(one.health, Health::kFine) << one.what << ": " << one.found;
    EXPECT_EQ(one.to_do, "") << one.what;
  }
}

TEST(Doctor, names_a_source_that_nobody_else_has) {
  expect_said("source", Health::kMissing, "git checkout",
              [](Machine& m, Surroundings&) { m.git_commit.clear(); });
  expect_said("source", Health::kDisturbs, "Commit", [](Machine& m, Surroundings&) {
    m.git_dirty = true;
    m.git_diff_sha256 = std::string(64, 'd');
  });
  expect_said("build", Health::kDisturbs, "release",
              [](Machine& m, Surroundings&) { m.build["type"] = "Debug"; });
}

TEST(Doctor, asks_for_the_digest_of_a_container_and_not_of_none) {
  expect_said("container", Health::kMissing, "NOISEMARK_IMAGE_DIGEST",
              [](Machine& m, Surroundings&) { m.container.erase("digest"); });
  expect_said("container", Health::kFine, "none",
              [](Machine& m, Surroundings&) { m.container.clear(); });
}

TEST(Doctor, explains_why_clocks_are_unknown) {
  const Change no_values = [](Machine& m, Surroundings& around) {
    m.environment.erase("cpu_governor");
    m.environment.erase("cpu_turbo");
    around.frequency_driver = false;
  };
  expect_said("CPU governor", Health::kMissing, "no frequency driver", no_values);
  expect_said("CPU turbo", Health::kMissing, "virtual machine",
              [&](Machine& m, Surroundings& around) {
                no_values(m, around);
                around.hypervisor = true;
              });
}

TEST(Doctor, says_whether_the_clock_is_locked) {
  const Change locked = [](Machine& m, Surroundings&) {
    m.environment["cpu_frequency_min_khz"] = m.environment["cpu_frequency_max_khz"] = "2000000";
  };
  expect_said("CPU clock limits", Health::kFine, "locked at 2000000 kHz", locked);
  expect_said("CPU clock limits", Health::kFine, "800000 to 2500000 kHz",
              [](Machine&, Surroundings&) {});
  expect_said("CPU slowed down by heat", Health::kMissing, "virtual machine",
              [](Machine& m, Surroundings& around) {
                m.environment.erase("cpu_thermal_throttles");
                around.hypervisor = true;
              });
}

TEST(Doctor, explains_why_the_processors_energy_is_not_known) {
  const Change for_root_alone = [](Machine&, Surroundings& around) {
    around.energy_missing_reason = "Linux shows the energy of this processor to root alone";
  };
  expect_said("CPU energy", Health::kFine, "counted", [](Machine&, Surroundings&) {});
  expect_said("CPU energy", Health::kMissing, "to root alone Run as root", for_root_alone);
  expect_said("CPU energy", Health::kMissing, "virtual machine",
              [&](Machine& m, Surroundings& around) {
                for_root_alone(m, around);
                around.hypervisor = true;
              });
}

TEST(Doctor, says_that_no_driver_tells_of_a_locked_clock) {
  expect_said(kNeverKnown, Health::kMissing, "nvidia-smi -lgc", [](Machine&, Surroundings&) {});
}

TEST(Doctor, finds_what_makes_times_unsteady) {
  expect_said("CPU governor", Health::kDisturbs, "cpupower",
              [](Machine& m, Surroundings&) { m.environment["cpu_governor"] = "powersave"; });
  expect_said("CPU turbo", Health::kDisturbs, "no_turbo",
              [](Machine& m, Surroundings&) { m.environment.insert_or_assign("cpu_turbo", "on"); });
  expect_said("CPU slowed down by heat", Health::kDisturbs, "12 times since the boot",
              [](Machine& m, Surroundings&) {
                m.environment.insert_or_assign("cpu_thermal_throttles", "12");
              });
  expect_said(
      "GPU persistence", Health::kDisturbs, "nvidia-smi -pm 1",
      [](Machine& m, Surroundings&) { m.environment.insert_or_assign("gpu_persistence", "off"); });
  expect_said("CPU share", Health::kDisturbs, "cpuset",
              [](Machine& m, Surroundings&) { m.environment["cgroup_cpu_max"] = "150000 100000"; });
  expect_said("load", Health::kDisturbs, "Wait",
              [](Machine&, Surroundings& around) { around.load = 12; });
  expect_said("GPU clocks held down by", Health::kDisturbs, "power cap",
              [](Machine& m, Surroundings&) { m.environment["gpu_clock_reasons"] = "power cap"; });
  expect_said("other processes on the GPU", Health::kDisturbs, "12", [](Machine& m, Surroundings&) {
    m.environment.insert_or_assign("gpu_other_processes", "12");
  });
  expect_said("other processes on the GPU", Health::kMissing, "outside",
              [](Machine& m, Surroundings&) {
                m.environment.insert_or_assign("gpu_other_processes", process_count(0, true));
              });
}

TEST(Doctor, tells_apart_why_there_is_no_gpu) {
  const auto without = [](const Change& more) {
    return [more](Machine& m, Surroundings& around) {
      m.hardware.clear();
      more(m, around);
    };
  };
  expect_said("GPU", Health::kMissing, "not available: no driver",
              without([](Machine&, Surroundings& around) {
                around.gpu_device = around.driver_library = false;
              }));
  expect_said("GPU", Health::kMissing, "--gpus all",
              without([](Machine&, Surroundings& around) { around.gpu_device = false; }));
  expect_said("GPU", Health::kMissing, "libcuda.so.1",
              without([](Machine&, Surroundings& around) { around.driver_library = false; }));
  expect_said("GPU", Health::kMissing, "built without CUDA",
              without([](Machine&, Surroundings& around) { around.cuda_build = false; }));
  expect_said("GPU", Health::kMissing, "CUDA_VISIBLE_DEVICES",
              without([](Machine&, Surroundings&) {}));
  expect_said("GPU", Health::kMissing, "too old: it runs CUDA 12.4, this program needs 13",
              without([](Machine&, Surroundings& around) { around.driver_cuda_version = 12040; }));
  expect_said("GPU", Health::kMissing, "fabric manager",
              without([](Machine&, Surroundings& around) { around.cuda_init_code = 802; }));
  expect_said("GPU", Health::kMissing, "CUDA error 12345",
              without([](Machine&, Surroundings& around) { around.cuda_init_code = 12345; }));
}

TEST(UnusedGpu, is_told_with_the_reason_and_only_where_there_is_one) {
  Surroundings around = good_surroundings();
  around.driver_cuda_version = 12040;
  EXPECT_EQ(unused_gpu(around),
            "the GPU here cannot be used: the driver is too old: it runs CUDA 12.4, this program "
            "needs 13 (see `noisemark doctor`); the CPU is taken");
  around.gpu_device = false;
  EXPECT_EQ(unused_gpu(around), "");
}

TEST(Doctor, says_what_the_driver_does_not_tell_and_who_may_read_counters) {
  expect_said("GPU power (mW)", Health::kMissing, "does not say it",
              [](Machine& m, Surroundings&) { m.environment.erase("gpu_power_mw"); });
  expect_said("GPU power (mW)", Health::kMissing, "libnvidia-ml.so.1",
              [](Machine& m, Surroundings& around) {
                m.environment.erase("gpu_power_mw");
                around.nvml_library = false;
              });
  const Change root_only = [](Machine&, Surroundings& around) {
    around.counters_for_root_only = true;
  };
  expect_said("GPU counters", Health::kMissing, "NVreg_RestrictProfilingToAdminUsers", root_only);
  expect_said("GPU counters", Health::kFine, "allowed", [&](Machine& m, Surroundings& around) {
    root_only(m, around);
    around.root = true;
  });
}

TEST(Doctor, says_who_else_may_compute_and_why_there_are_no_utilization_columns) {
  const auto mode = [](const std::string& name) {
    return [name](Machine& m, Surroundings&) {
      m.environment.insert_or_assign("gpu_compute_mode", name);
    };
  };
  expect_said("GPU compute mode", Health::kDisturbs, "a second one cannot start",
              mode("exclusive process"));
  expect_said("GPU compute mode", Health::kMissing, "nothing can compute", mode("prohibited"));
  expect_said("GPU utilization columns (GPM)", Health::kMissing, "begins with Hopper",
              [](Machine& m, Surroundings&) {
                m.environment.insert_or_assign(kGpuColumns,
                                               "the GPU has none: GPM begins with Hopper");
              });
}

TEST(Doctor, says_whether_counters_can_be_sampled_and_why_not) {
  const std::string what = "GPU sampled columns (CUPTI PM sampling)";
  expect_said(what, Health::kFine, kReachable, [](Machine&, Surroundings&) {});
  expect_said(what, Health::kMissing, "no permission", [](Machine&, Surroundings& around) {
    around.no_sampling = "cuptiPmSamplingEnable: no permission";
  });
  expect_said(what, Health::kMissing, "was not asked",
              [](Machine&, Surroundings& around) { around.no_sampling.reset(); });
}

TEST(Surroundings, know_the_major_version_of_the_toolkit) {
  EXPECT_EQ(major_version("NVIDIA 13.0.88"), 13);
  EXPECT_EQ(major_version(""), std::nullopt);
}

TEST(Doctor, names_missing_programs) {
  expect_said("gnuplot", Health::kMissing, "gnuplot-nox",
              [](Machine&, Surroundings& around) { around.gnuplot = false; });
  expect_said("versions of packages", Health::kMissing, "container",
              [](Machine&, Surroundings& around) { around.package_list = false; });
}

TEST(Doctor, says_the_same_as_text_and_as_json) {
  Machine machine = good_machine();
  machine.git_commit.clear();
  const auto diagnoses = diagnose(machine, good_surroundings());
  const std::string text = doctor_text(diagnoses);
  const auto json = nlohmann::json::parse(doctor_json(diagnoses));
  ASSERT_EQ(json.size(), diagnoses.size());
  for (const auto& one : json) {
    EXPECT_NE(text.find(one["found"].get<std::string>()), std::string::npos);
    EXPECT_NE(text.find(one["to_do"].get<std::string>()), std::string::npos);
  }
  EXPECT_EQ(json[0]["health"], "missing");
  EXPECT_NE(text.find("0 may disturb, 2 missing\n"), std::string::npos)
      << "the source and " << kNeverKnown << ": " << text;
}

TEST(Surroundings, read_who_may_read_counters_from_the_drivers_parameters) {
  EXPECT_EQ(counters_for_root_only("RmProfilingAdminOnly: 1\n"), true);
  EXPECT_EQ(counters_for_root_only("Other: 1\nRmProfilingAdminOnly: 0\n"), false);
  EXPECT_EQ(counters_for_root_only(""), std::nullopt);
}

TEST(Surroundings, of_this_machine_agree_with_what_results_name) {
  const Surroundings around = look_around();
  const Machine machine = capture_machine(c10::Device(c10::kCPU));
  EXPECT_EQ(std::to_string(around.processors), machine.hardware.at("cpu_threads"));
  EXPECT_TRUE(around.frequency_driver || !machine.environment.contains("cpu_governor"));
  EXPECT_EQ(around.energy_missing_reason, processor_energy().missing_reason);
}

TEST(Graphics, says_in_words_what_holds_the_clocks_down) {
  EXPECT_EQ(clock_reasons(0), "none");
  EXPECT_EQ(clock_reasons(0x1), "idle");
  EXPECT_EQ(clock_reasons(0x44), "power cap, hardware thermal slow-down");
  EXPECT_EQ(clock_reasons(0x1000), "0x1000");
}

}  // namespace
}  // namespace noisemark::suite
