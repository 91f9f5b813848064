/// The training loop that a user would write by hand with this project's parts, without the
/// harness: no trainer, no memory mode, no timers of phases, neither replacement of LibTorch's
/// allocator and engine. It speaks pace.py's protocol, so that `noisemark pace` and it can be timed
/// in one interleaved run: the difference is what the harness costs. With --accounting it knows
/// more of its memory, so that it and itself without that tell what the accounting costs.
///
///   noisemark_bare_loop ID --data FOLDER --threads N [--device cpu|cuda|cuda:N]
///       [--precision fp32|tf32|bf16] [--accounting none|followed|logged]
///
/// Exit codes: 0, 1 a step failed, 2 bad input, 77 no such device here.

#include <array>
#include <chrono>
#include <exception>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "reports/base/error.h"
#include "suite/run/passes/session.h"
#include "suite/run/run.h"
#include "suite/run/spec/plan.h"
#include "tests/suite/run/bare_training.h"

namespace noisemark::suite {
namespace {

constexpr std::array kAccountings{std::pair{std::string_view("none"), Accounting::kNone},
                                  std::pair{std::string_view("followed"), Accounting::kFollowed},
                                  std::pair{std::string_view("logged"), Accounting::kLogged}};

/// Reads words that come in pairs behind the benchmark's name.
class Arguments {
 public:
  Arguments(int argc, char** argv) {
    if (argc < 2 || argc % 2 != 0) throw usage("");
    options_.id = argv[1];
    options_.device = "cpu";
    std::map<std::string, std::string*> texts{{"--data", &options_.data},
                                              {"--threads", &threads_},
                                              {"--device", &options_.device},
                                              {"--precision", &options_.precision},
                                              {"--accounting", &accounting_}};
    for (int i = 2; i < argc; i += 2) {
      const auto found = texts.find(argv[i]);
      if (found == texts.end()) throw usage(argv[i]);
      *found->second = argv[i + 1];
    }
    if (options_.data.empty() || threads_.empty()) throw usage("");
    options_.threads = number(threads_);
  }

  [[nodiscard]] const RunOptions& run() const { return options_; }
  [[nodiscard]] Accounting accounting() const {
    for (const auto& [name, accounting] : kAccountings) {
      if (name == accounting_) return accounting;
    }
    throw bad_input("noisemark_bare_loop", "--accounting", accounting_, "none, followed or logged");
  }

 private:
  static Error usage(const std::string& word) {
    return bad_input("noisemark_bare_loop", "", word,
                     "ID --data FOLDER --threads N [--device D] [--precision P] [--accounting A]");
  }
  static int64_t number(const std::string& text) {
    size_t end = 0;
    try {
      const int64_t value = std::stoll(text, &end);
      if (end == text.size()) return value;
    } catch (const std::logic_error&) {
    }
    throw bad_input("noisemark_bare_loop", "--threads", text, "a number");
  }

  RunOptions options_;
  std::string threads_;
  std::string accounting_ = "none";
};

nlohmann::json take_turn(BareTraining& training, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    const Clock::time_point start = Clock::now();
    losses.push_back(training.step());
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return {{"step_s", seconds}, {"loss", losses}};
}

/// Its own accounting first of all, before LibTorch allocates.
int serve(const Arguments& arguments) {
  const Accounting accounting = arguments.accounting();
  if (accounting != Accounting::kNone) memopt::install_tracking_allocator();
  if (accounting == Accounting::kLogged) memopt::install_saved_tensor_engine();
  const PlannedRun plan = plan_runs(arguments.run()).front();
  if (plan.spec.precision.loss_scaling) {
    throw bad_input("noisemark_bare_loop", "--precision", plan.spec.precision.name,
                    "one without loss scaling");
  }
  configure_process(plan.spec);
  SessionOptions session = session_options(arguments.run(), plan);
  session.spec.definition.train.steps = std::numeric_limits<int32_t>::max();
  BareTraining training(session, accounting);
  std::cout << nlohmann::json{{"ready", true}, {"batch", plan.spec.definition.train.batch}}
            << std::endl;
  std::string verb;
  for (int64_t steps = 0; std::cin >> verb && verb == "run" && std::cin >> steps;) {
    std::cout << take_turn(training, steps) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  try {
    return noisemark::suite::serve(noisemark::suite::Arguments(argc, argv));
  } catch (const noisemark::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
