#include "suite/ab/short_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/json_io.h"
#include "suite/ab/run_program.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

// Later ones win, so these come behind the user's. A steady step for the memory pass, a few losses,
// one profiled step for the FLOPs, and the shortest evaluation that there is.
constexpr std::array kShort = {"train.steps=4", "eval.samples=8", "eval.every=0",
                               "measure.profile_steps=1"};
constexpr const char* kDeterministic = "--deterministic";

std::vector<std::string> command_of(const std::string& binary,
                                    const std::vector<std::string>& words, const fs::path& out) {
  std::vector<std::string> command = {binary, "run"};
  command.insert(command.end(), words.begin(), words.end());
  for (const char* assignment : kShort) command.push_back(fmt::format("--set={}", assignment));
  if (std::find(words.begin(), words.end(), kDeterministic) == words.end()) {
    command.emplace_back(kDeterministic);
  }
  command.emplace_back("--no-certificate");
  command.push_back("--out=" + out.string());
  return command;
}

std::string last_line(const fs::path& log) {
  std::string text = reports::read_file(log);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// A code of Noisemark's that says why it could not go on; anything else is no answer at all.
ExitCode code_of(int status) {
  for (const ExitCode code : {ExitCode::kBadInput, ExitCode::kOutOfMemory, ExitCode::kCannotWrite,
                              ExitCode::kCannotRunHere}) {
    if (status == static_cast<int>(code)) return code;
  }
  return ExitCode::kInternal;
}

reports::Result result_in(const fs::path& out, const std::string& name) {
  try {
    return reports::read_result(out / "result.json");
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: its short run: {}", name, error.what()));
  }
}

}  // namespace

std::optional<reports::Result> short_run(const std::string& name, const std::string& binary,
                                         const std::vector<std::string>& words) {
  if (access(binary.c_str(), X_OK) != 0) {
    throw bad_input(name, binary, std::strerror(errno), "a program: noisemark");
  }
  const ScratchFolder scratch;
  const fs::path log = scratch.path() / "log";
  const fs::path out = scratch.path() / "run";
  const int status = run_program(command_of(binary, words, out), log);
  // A run that fails a gate of its own has a result too.
  if (status == static_cast<int>(ExitCode::kPass) ||
      status == static_cast<int>(ExitCode::kFailed)) {
    return result_in(out, name);
  }
  if (status == static_cast<int>(ExitCode::kInterrupted)) return std::nullopt;
  throw Error(code_of(status), fmt::format("{}: its short run ended with exit code {}: {}", name,
                                           status, last_line(log)));
}

}  // namespace noisemark::suite
