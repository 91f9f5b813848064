#include "tests/suite/run/short_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <system_error>

#include "reports/result/json_io.h"
#include "tests/suite/process.h"

namespace noisemark::suite::test {

namespace fs = std::filesystem;

std::vector<std::string> short_run(const fs::path& out, int64_t steps) {
  return {"run",      "gmm16@cpu",
          "--device", "cpu",
          "--set",    "train.steps=" + std::to_string(steps),
          "--set",    "train.batch=4",
          "--set",    "eval.samples=8",
          "--set",    "eval.every=0",
          "--out",    out.string()};
}

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> timed_only(const fs::path& out, int64_t steps) {
  return with(short_run(out, steps), {"--no-memory", "--no-profile"});
}

void kill_after_a_checkpoint(const std::vector<std::string>& arguments, const fs::path& out) {
  const fs::path checkpoint = out / "checkpoint.safetensors";
  std::error_code none;
  const auto before = fs::last_write_time(checkpoint, none);
  Process process(noisemark_command(arguments));
  while (process.running() && (fs::last_write_time(checkpoint, none) == before || none)) {
    usleep(1000);
  }
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().code, 128 + SIGKILL) << "it ended before it could be killed";
}

void expect_interrupted(const Finished& ended, const std::string& words,
                        const std::string& folder) {
  EXPECT_EQ(ended.code, 130) << ended.both();
  EXPECT_TRUE(ended.err.ends_with(words + "; the same command with --out " + folder +
                                  " and --resume continues it, with --force begins anew\n"))
      << ended.err;
  EXPECT_EQ(ended.err.find("--resume"), ended.err.rfind("--resume"))
      << "none of its runs says anything of it: " << ended.err;
}

reports::Result result_in(const fs::path& folder) {
  return reports::read_result(folder / "result.json");
}

}  // namespace noisemark::suite::test
