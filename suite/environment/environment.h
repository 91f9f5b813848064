#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

#include "reports/result.h"

namespace noisemark::suite {

/// What a result says about where it was made. Everything is read from the running system; what
/// cannot be read is left out, never guessed.
struct Machine {
  reports::Strings hardware;     ///< must agree before results are compared
  reports::Strings software;     ///< likewise
  reports::Strings build;        ///< of this binary
  reports::Strings container;    ///< empty outside one
  reports::Strings environment;  ///< everything else: kernel, governor, packages, variables
  std::string git_commit;        ///< of the source tree when the binary was built; empty: unknown
  bool git_dirty = false;
  std::string git_diff_sha256;  ///< of the changes against git_commit; empty when clean
  std::string binary_sha256;
};

/// `device` decides whether a GPU is part of the identity.
[[nodiscard]] Machine capture_machine(const c10::Device& device);

/// Fills identity.hardware, identity.software, provenance (but not its data and weights) and
/// environment.
void describe_machine(const c10::Device& device, reports::Result& result);

/// The first CUDA device when this build and machine have one, else the CPU.
[[nodiscard]] c10::Device default_device();

/// Whether NOISEMARK_REQUIRE, a list with commas in the environment, names `part`: "cuda", or
/// "peers" and "pictures", which only tests ask for. What is required and missing is a failure,
/// because ctest calls a run of only skipped tests a success. Throws Error (exit code 2) when the
/// list names anything else.
[[nodiscard]] bool is_required(std::string_view part);

/// is_required("cuda"): then no CPU stands in for a GPU, and «cannot run here» is a failure. To be
/// asked before anything runs.
[[nodiscard]] bool requires_cuda();

/// "cpu", "cuda" (the first) or "cuda:N"; empty is default_device(). Throws Error: exit code 2 for
/// another spelling, with the nearest of these, or a number that is not here, exit code 77 where
/// there is no GPU and one was named or, for the empty spelling, required.
[[nodiscard]] c10::Device parse_device(const std::string& spelling);

/// For `noisemark env`: aligned text for people, JSON for programs.
[[nodiscard]] std::string machine_text(const Machine& machine);
[[nodiscard]] std::string machine_json(const Machine& machine);

}  // namespace noisemark::suite
