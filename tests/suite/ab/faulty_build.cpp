// A build of noisemark with a fault in it: `run` does not count one byte of a weight. What else it
// is asked for it does as the real one. It stands for the candidate of an `ab` that must be red.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "suite/cli/commands.h"
#include "suite/run/single_run.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {
namespace {

using Words = std::vector<std::string>;

/// VALUE of every «--NAME=VALUE».
Words values_of(const Words& words, const std::string& name) {
  const std::string prefix = "--" + name + "=";
  Words values;
  for (const std::string& word : words) {
    if (word.starts_with(prefix)) values.push_back(word.substr(prefix.size()));
  }
  return values;
}

/// Reads only the options that the tests give.
ExitCode run_faulty(const Words& words) {
  RunOptions options;
  options.id = words.at(1);
  options.device = values_of(words, "device").at(0);
  options.threads = std::stoll(values_of(words, "threads").at(0));
  options.sets = values_of(words, "set");
  options.deterministic = true;
  options.certificate = false;
  options.verdict = false;
  Fault fault;
  fault.lost_bytes = 1;
  return run_single(options, plan_runs(options).front(), values_of(words, "out").at(0), fault);
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  noisemark::memopt::install_tracking_allocator();
  noisemark::memopt::install_saved_tensor_engine();
  const std::vector<std::string> all(argv, argv + argc);
  const std::vector<std::string> words(all.begin() + 1, all.end());
  try {
    const bool run = words.at(0) == "run";
    return static_cast<int>(run ? noisemark::suite::run_faulty(words)
                                : noisemark::suite::run_command_line(words, all));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "faulty build: %s\n", error.what());
    return 2;
  }
}
