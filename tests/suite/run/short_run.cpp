#include "tests/suite/run/short_run.h"

#include "reports/json_io.h"

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

reports::Result result_in(const fs::path& folder) {
  return reports::read_result(folder / "result.json");
}

}  // namespace noisemark::suite::test
