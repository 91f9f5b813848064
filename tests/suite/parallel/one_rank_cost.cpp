/// Measures what c10d's Reducer costs a training that is the only rank of its group, beside the
/// same training without a group: steps of the two in turns, and of each pair of steps the ratio.
///
///   noisemark_one_rank_cost ID@SCALE [--pairs N] [--threads N] [--data DIR]
///
/// Exit codes: 0; 1 where the whole 95 % interval by the clock is above 1 %; 2 bad input.

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baselines/baseline.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "reports/base/error.h"
#include "reports/base/statistics.h"
#include "suite/config/catalogue.h"
#include "suite/data/dataset.h"
#include "suite/models/denoiser.h"
#include "suite/probes/phase_timer.h"
#include "suite/train/trainer.h"
#include "tests/suite/parallel/ports.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kFirst = 5;      // steps of each, before those that count
constexpr double kAllowed = 0.01;  // part of a step

struct Wishes {
  std::string id;
  std::string scale;
  std::string data;
  int64_t pairs = 60;
  int64_t threads = 1;
};

Wishes wishes_of(int argc, char** argv) {
  const Error usage = bad_input("noisemark_one_rank_cost", "", argc > 1 ? argv[argc - 1] : "",
                                "ID@SCALE [--pairs N] [--threads N] [--data DIR]");
  const std::string benchmark = argc > 1 ? argv[1] : "";
  const size_t at = benchmark.find('@');
  if (argc % 2 != 0 || at == std::string::npos) throw usage;
  Wishes wishes;
  wishes.id = benchmark.substr(0, at);
  wishes.scale = benchmark.substr(at + 1);
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--data") {
      wishes.data = argv[i + 1];
    } else if (name == "--pairs" || name == "--threads") {
      const std::string_view text = argv[i + 1];
      int64_t& wish = name == "--pairs" ? wishes.pairs : wishes.threads;
      const auto [end, fault] = std::from_chars(text.begin(), text.end(), wish);
      if (fault != std::errc() || end != text.end() || wish < 1) throw usage;
    } else {
      throw usage;
    }
  }
  return wishes;
}

/// One of the two trainings.
class Contestant {
 public:
  Contestant(const Definition& definition, const std::shared_ptr<const Dataset>& dataset,
             std::shared_ptr<Group> group)
      : mode_(memopt::make_mode("none")), timer_(at::kCPU) {
    TrainerOptions options;
    options.precision = parse_precision("fp32", at::kCPU);
    options.group = std::move(group);
    trainer_ = std::make_unique<Trainer>(definition,
                                         make_denoiser(definition.model, baselines::plain_ops()),
                                         dataset, *mode_, options);
  }

  void step() { static_cast<void>(trainer_->step({&timer_})); }
  /// Its seconds, of the steps that count.
  [[nodiscard]] std::vector<double> last(const std::vector<double>& all) const {
    return {all.begin() + kFirst, all.end()};
  }
  [[nodiscard]] const PhaseTimer& timer() const { return timer_; }

 private:
  std::unique_ptr<memopt::Mode> mode_;
  std::unique_ptr<Trainer> trainer_;
  PhaseTimer timer_;
};

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  for (size_t i = 0; i < a.size(); ++i) all.push_back(a[i] / b[i] - 1);
  return all;
}

/// Prints what `values` say of `name`; returns the interval's lower end.
double print_cost(const std::string& name, const std::vector<double>& values) {
  const auto interval = reports::median_interval(values);
  const std::string ends =
      interval ? fmt::format("[{:+.2f}, {:+.2f}]", 100 * interval->low, 100 * interval->high)
               : "without an interval, of so few pairs";
  fmt::print("{}: {:+.2f} % {}\n", name, 100 * reports::median(values), ends);
  return interval ? interval->low : 0;
}

/// The median seconds that the phase takes longer.
void print_phase(const reports::SamplePhase& phase, const Contestant& by_one,
                 const Contestant& without) {
  const std::vector<double> a = by_one.last(by_one.timer().samples().*phase.seconds);
  const std::vector<double> b = without.last(without.timer().samples().*phase.seconds);
  std::vector<double> more;
  for (size_t i = 0; i < a.size(); ++i) more.push_back(a[i] - b[i]);
  fmt::print("{}: {:.3f} ms, {:+.3f} ms with the group\n", phase.name, 1e3 * reports::median(b),
             1e3 * reports::median(more));
}

int measure(const Wishes& wishes) {
  at::set_num_threads(static_cast<int>(wishes.threads));
  Definition definition = load_definition(wishes.id, wishes.scale);
  definition.train.steps = kFirst + wishes.pairs;
  const std::shared_ptr<const Dataset> dataset = open_dataset(definition, wishes.data);
  Contestant without(definition, dataset, nullptr);
  Contestant by_one(
      definition, dataset,
      Group::join({.address = "127.0.0.1", .port = test::free_port()}, std::chrono::seconds(20)));
  for (int64_t i = 0; i < definition.train.steps; ++i) {
    Contestant& first = i % 2 == 0 ? by_one : without;
    first.step();
    (&first == &by_one ? without : by_one).step();
  }
  fmt::print("{}@{}, {} pairs of steps in turns: the Reducer with one rank adds to a step\n",
             wishes.id, wishes.scale, wishes.pairs);
  const auto cost = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return ratios(by_one.last(a), without.last(b));
  };
  const double low = print_cost(
      "by the clock", cost(by_one.timer().samples().step_s, without.timer().samples().step_s));
  print_cost("of the processors' time",
             cost(by_one.timer().processor_s(), without.timer().processor_s()));
  for (const reports::SamplePhase& phase : reports::kSamplePhases) {
    print_phase(phase, by_one, without);
  }
  return low > kAllowed ? 1 : 0;
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  using namespace noisemark;
  try {
    memopt::install_tracking_allocator();
    memopt::install_saved_tensor_engine();
    return suite::measure(suite::wishes_of(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
