#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/fields.h"
#include "reports/result/events.h"
#include "reports/result/result.h"

/// Describes the machine for a result, chooses the device, and tells what changed on the machine
/// while something ran on it.
namespace noisemark::suite {

/// The part of a result that says where it was made. Everything is read from the running system;
/// what cannot be read is left out, never guessed.
struct Machine {
  reports::Strings hardware;     ///< must agree before results are compared
  reports::Strings software;     ///< must agree too
  reports::Strings build;        ///< version, compiler and flags of this binary
  reports::Strings container;    ///< is empty outside one
  reports::Strings environment;  ///< everything else: kernel, governor, packages, variables
  std::string git_commit;        ///< commit of the source tree at build time; empty: unknown
  bool git_dirty = false;
  std::string git_diff_sha256;  ///< hash of the changes against git_commit; empty if clean
  std::string binary_sha256;
};

/// `device` decides whether a GPU is part of the identity.
[[nodiscard]] Machine capture_machine(const c10::Device& device);

/// Fills identity.hardware, identity.software, provenance (but not its data and weights) and
/// environment.
void describe_machine(const c10::Device& device, reports::Result& result);

/// Returns how many GPUs this build and this process can use.
[[nodiscard]] int64_t usable_gpus();

/// The first CUDA device when this build and machine have one, else the CPU.
[[nodiscard]] c10::Device default_device();

/// Says whether NOISEMARK_REQUIRE, a list with commas in the environment, names `part`: "cuda", or
/// "peers" and "pictures", which only tests ask for. What is required and missing is a failure,
/// because ctest calls a run of only skipped tests a success. Throws Error (exit code 2) when the
/// list names anything else.
[[nodiscard]] bool is_required(std::string_view part);

/// is_required("cuda"): then no CPU stands in for a GPU, and «cannot run here» is a failure. Ask
/// before anything runs.
[[nodiscard]] bool requires_cuda();

/// "cpu", "cuda" (the first) or "cuda:N"; empty is default_device(). Throws Error: exit code 2 for
/// another spelling, with the nearest of these, or a number that is not here, exit code 77 where
/// there is no GPU and one was named or, for the empty spelling, required.
[[nodiscard]] c10::Device parse_device(const std::string& spelling);

/// The text of `noisemark env`: aligned for people, or JSON for programs.
[[nodiscard]] std::string machine_text(const Machine& machine);
[[nodiscard]] std::string machine_json(const Machine& machine);
[[nodiscard]] reports::json::Published machine_document();

/// Reads anew what capture_machine() calls the environment, but for packages and variables.
[[nodiscard]] reports::Strings machine_state(const c10::Device& device);

/// Adds to `environment`, captured before a run, what `end`, captured after it, has otherwise: the
/// value as "at the end: KEY" and, under reports::kChangedWhileItRan, the names of the settings
/// (governor, limits, what holds clocks down, other processes) that changed, or "nothing". Clocks,
/// power, temperature and load differ always and are no setting. Nor is it one that a GPU was idle
/// before the run and at work after it (same_clock_reasons()), or a count of processes that a
/// container cannot tell from its own.
void add_changes(reports::Strings& environment, const reports::Strings& end);

/// Returns how fast the machine runs at this moment, as metadata of an event: cpu_clock_mhz, the
/// mean of all processors; with a GPU gpu_sm_clock_mhz, gpu_memory_clock_mhz, gpu_power_mw,
/// gpu_temperature_c and gpu_clock_reasons too. One that cannot be had is null, and KEY_missing
/// says why; in a virtual machine the processor's clock is, for Linux shows a constant there. Below
/// `root` lies /proc. Takes some milliseconds with a GPU.
[[nodiscard]] reports::EventMetadata machine_figures(const c10::Device& device,
                                                     const std::filesystem::path& root = "/");

}  // namespace noisemark::suite
