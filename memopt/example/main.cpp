#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/example/table.h"

/// memopt in a program that has nothing else of Noisemark: small models are trained under mode
/// "none" and under other modes, and how many times less these hold for backward is printed as a
/// table. A cell is the factor when forward ends and the factor at the peak of the step. The error
/// is the largest of the last step's gradients. Below is what a mode that saves nothing keeps most
/// of, and why a budget is refused.
///
/// noisemark_memopt_example [MODEL...] [MODE...]: without a model all of them, and without a mode
/// those of the table in memopt/README.md.
///
/// Exit code 0: as each mode promises. 1: a lossless mode gave another bit, a budget was exceeded,
/// a mode held more memory, or a model learned nothing. 2: bad usage.
namespace {

namespace memopt = noisemark::memopt;

constexpr int kBroken = 1;
constexpr int kBadInput = 2;

int run(const std::vector<std::string>& words) {
  std::vector<example::TaskEntry> tasks;
  std::vector<std::string> modes;
  for (const std::string& word : words) {
    const auto all = example::tasks();
    const auto named = std::find_if(
        all.begin(), all.end(), [&](const example::TaskEntry& task) { return task.name == word; });
    if (named == all.end()) {
      modes.push_back(word);
    } else {
      tasks.push_back(*named);
    }
  }
  if (tasks.empty()) tasks.assign(example::tasks().begin(), example::tasks().end());
  if (modes.empty()) modes = example::modes_of_table();
  const example::Table table = example::make_table(tasks, modes);
  std::printf("%s", table.markdown.c_str());
  for (const std::string& why : table.in_the_way) std::printf("\n%s", why.c_str());
  for (const std::string& broken : table.broken) std::fprintf(stderr, "%s\n", broken.c_str());
  if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
  return table.broken.empty() ? 0 : kBroken;
}

}  // namespace

int main(int argc, char** argv) {
  memopt::install_tracking_allocator();
  memopt::install_saved_tensor_engine();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return run(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return kBadInput;
  }
}
