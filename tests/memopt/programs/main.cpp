#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "tests/memopt/programs/children.h"
#include "tests/memopt/programs/generate.h"
#include "tests/memopt/programs/known.h"
#include "tests/memopt/programs/operators.h"
#include "tests/memopt/programs/print.h"
#include "tests/memopt/programs/shrink.h"

/// Runs random training programs under random modes, and prints what a mode did wrong.
///
/// Exit code 0: nothing. 1: something, or too few programs ran. 2: bad usage.
namespace {

using namespace noisemark::memopt;
using namespace noisemark::memopt::programs;
using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "noisemark_programs [--seed N] [--count N] [--seconds S] [--least N] [--jobs N]\n"
    "                   [--mode SPELLING] [--print] [--shrink] [--known] [SEED...]\n"
    "  --seed     the first seed (1); SEEDs in its place are all that run\n"
    "  --count    programs (1000)\n"
    "  --seconds  no program is begun later than that (no limit)\n"
    "  --least    fewer programs than that are a failure (0)\n"
    "  --jobs     programs at a time (1)\n"
    "  --mode     in place of the program's own\n"
    "  --print    the C++ of every program, and runs none\n"
    "  --shrink   makes each failing program smaller before it is printed\n"
    "  --known    also programs of the kinds that are known to fail (known.cpp)\n";

struct Options {
  uint64_t seed = 1;
  int64_t count = 1000;
  std::vector<uint64_t> seeds;  ///< is empty for `count` from `seed` on
  double seconds = 1e9;
  int64_t least = 0;
  int jobs = 1;
  std::string mode;
  bool print = false;
  bool shrink = false;
  bool known = false;
};

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    const auto value = [&] {
      if (i + 1 == arguments.size()) throw std::invalid_argument(flag + ": (a value behind it)");
      return arguments[++i];
    };
    if (flag == "--seed") {
      options.seed = std::stoull(value());
    } else if (flag == "--count") {
      options.count = std::stoll(value());
    } else if (flag == "--seconds") {
      options.seconds = std::stod(value());
    } else if (flag == "--least") {
      options.least = std::stoll(value());
    } else if (flag == "--jobs") {
      options.jobs = std::stoi(value());
    } else if (flag == "--mode") {
      options.mode = value();
    } else if (flag == "--print") {
      options.print = true;
    } else if (flag == "--shrink") {
      options.shrink = true;
    } else if (flag == "--known") {
      options.known = true;
    } else if (!flag.starts_with("-")) {
      options.seeds.push_back(std::stoull(flag));
    } else {
      throw std::invalid_argument(flag + ": unknown\n" + kUsage);
    }
  }
  if (!options.seeds.empty()) options.count = std::ssize(options.seeds);
  return options;
}

class Hunt {
 public:
  explicit Hunt(const Options& options) : options_(options) {}

  /// Worker `number` takes every program whose place is `number` modulo the jobs.
  int run() {
    std::vector<pid_t> workers;
    for (int number = 1; number < options_.jobs; ++number) {
      const pid_t worker = ::fork();
      if (worker == 0) ::_exit(work(number));
      workers.push_back(worker);
    }
    int code = work(0);
    for (const pid_t worker : workers) {
      int status = 0;
      ::waitpid(worker, &status, 0);
      code = std::max(code, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    return code;
  }

 private:
  int work(int number) {
    for (int64_t i = number; i < options_.count && in_time(); i += options_.jobs) {
      Program program = generate(seed_of(i));
      if (!options_.mode.empty()) program.mode = {options_.mode};
      if (options_.print) {
        tell("// program " + std::to_string(program.seed) + "\n" + cpp_of(program) + "\n");
      } else if (!options_.known && known_kind(program) != nullptr) {
        ++left_out_;
      } else {
        try_out(program);
      }
    }
    std::string sums = std::to_string(ran_) + " programs ran, " + std::to_string(left_out_) +
                       " of known kinds were left out, " + std::to_string(kinds_.size()) +
                       " kinds of findings\n";
    for (const auto& [kind, count] : kinds_) {
      sums += "  " + kind + ": " + std::to_string(count) + "\n";
    }
    const bool too_few = ran_ * options_.jobs < options_.least;
    if (too_few) sums += "  too few: at least " + std::to_string(options_.least) + " must run\n";
    tell(sums);
    return kinds_.empty() && !too_few ? 0 : 1;
  }

  [[nodiscard]] uint64_t seed_of(int64_t place) const {
    if (options_.seeds.empty()) return options_.seed + static_cast<uint64_t>(place);
    return options_.seeds[static_cast<size_t>(place)];
  }

  void try_out(const Program& program) {
    const auto finding = judge_in_child(program, make_);
    ++ran_;
    if (!finding) return;
    Program smallest = program;
    if (options_.shrink) {
      smallest = shrink(program, [&](const Program& candidate) {
        if (!options_.known && known_kind(candidate) != nullptr) return false;
        // A mode that is still watching holds more, follows nothing and keeps no budget.
        const bool of_the_end = finding->kind == "holds more" || finding->kind == "budget" ||
                                program.loop.counts_gradients;
        if (of_the_end && candidate.loop.steps < program.loop.steps) return false;
        const auto found = judge_in_child(candidate, make_);
        return found && found->kind == finding->kind;
      });
    }
    const KnownKind* known = known_kind(program);
    tell("// program " + std::to_string(program.seed) + ", " + program.mode.spelling + ": " +
         finding->kind + ": " + finding->detail +
         (known != nullptr ? " (known: " + std::string(known->name) + ")" : "") + "\n" +
         (options_.shrink ? cpp_of(smallest) : ""));
    ++kinds_[finding->kind];
  }

  static void tell(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  [[nodiscard]] bool in_time() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count() < options_.seconds;
  }

  Options options_;
  MakeMode make_ = [](const std::string& spelling) { return make_mode(spelling); };
  Clock::time_point begin_ = Clock::now();
  int64_t ran_ = 0;
  int64_t left_out_ = 0;
  std::map<std::string, int> kinds_;
};

}  // namespace

int main(int argc, char** argv) {
  install_tracking_allocator();
  install_saved_tensor_engine();
  try {
    return Hunt(parse({argv + 1, argv + argc})).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
}
