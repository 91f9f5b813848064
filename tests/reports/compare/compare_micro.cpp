/// Times `noisemark compare` for two sides of 100 results each, of ten cells and of one:
/// reading and verifying the files, judging, and writing the comparison. With --most-s=S the exit
/// code is 1 where the fastest repetition of either takes longer, or where it compared something
/// else.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "reports/base/file.h"
#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "reports/result/json_io.h"
#include "reports/result/metrics.h"
#include "tests/reports/compare/runs.h"

namespace {

namespace fs = std::filesystem;
using namespace noisemark::reports;  // NOLINT(google-build-using-namespace): a program, not a
                                     // header

constexpr size_t kResults = 100;

/// Both gated figures of a run change from run to run, as they do where something was measured.
std::vector<double> rates_of(size_t runs, size_t shift) {
  std::vector<double> rates = test::rates_around(100, runs);
  std::rotate(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(shift), rates.end());
  return rates;
}

/// A folder, with as many suites as it is given, removed with the object.
class Suites {
 public:
  Suites() {
    std::string pattern = (fs::temp_directory_path() / "noisemark-compare-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~Suites() { fs::remove_all(path_); }
  Suites(const Suites&) = delete;
  Suites& operator=(const Suites&) = delete;

  /// `cells` of equally many results, which differ from those of another `shift`. Returns the
  /// suite's folder.
  [[nodiscard]] std::string add(const std::string& name, size_t cells, size_t shift) const {
    const std::vector<double> rates = rates_of(kResults / cells, shift);
    for (size_t benchmark = 0; benchmark < cells; ++benchmark) {
      const auto of_benchmark = [&](Result& result, size_t i) {
        result.identity.benchmark = fmt::format("benchmark-{}", benchmark);
        *test::metric(result, "val_loss").value *= rates[i] / 100;
      };
      const Side side = test::side(fmt::format("{}{}", name, benchmark), rates, of_benchmark);
      for (size_t i = 0; i < side.runs.size(); ++i) {
        const fs::path folder = path_ / name / fmt::format("{}-{}", benchmark, i);
        make_folder(folder);
        write_result(folder / "result.json", side.runs[i].result);
      }
    }
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

bool compared_something_else = false;

/// Returns whether every gated row was judged by resamples of what differs.
bool is_of(const Comparison& comparison, size_t cells) {
  size_t judged = 0;
  for (const StochasticRow& row : comparison.stochastic) {
    if (row.gated && row.detectable_frac) ++judged;
  }
  return static_cast<size_t>(comparison.cells) == cells && judged == cells * gated_metrics().size();
}

void two_suites_of_100_results(benchmark::State& state) {
  const auto cells = static_cast<size_t>(state.range(0));
  const Suites suites;
  const std::string base = suites.add("old", cells, 0);
  const std::string candidate = suites.add("new", cells, 1);
  for (auto step : state) {
    const auto [a, b] = read_sides(base, candidate);
    const Comparison comparison = compare(a, b, {});
    if (!is_of(comparison, cells) || a.runs.size() != kResults) {
      compared_something_else = true;
      return state.SkipWithError("not the suites that were written");
    }
    benchmark::DoNotOptimize(comparison_markdown(comparison).size());
  }
}

BENCHMARK(two_suites_of_100_results)
    ->ArgName("cells")
    ->Arg(10)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond);

/// Prints, and keeps the shortest time of each case: that of a repetition in which nothing else
/// ran.
class Fastest : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const double unit = benchmark::GetTimeUnitMultiplier(run.time_unit);
      const double seconds = run.GetAdjustedRealTime() / unit;
      const auto [at, first] = seconds_.emplace(run.benchmark_name(), seconds);
      if (!first) at->second = std::min(at->second, seconds);
    }
    ConsoleReporter::ReportRuns(runs);
  }
  /// The seconds of the case that takes longest.
  [[nodiscard]] double seconds() const {
    double longest = 0;
    for (const auto& [name, seconds] : seconds_) longest = std::max(longest, seconds);
    return longest;
  }

 private:
  std::map<std::string, double> seconds_;
};

constexpr std::string_view kMost = "--most-s=";

/// Takes the option out of the arguments; infinity without one, 0 of one that is no number.
double most_seconds(int& argc, char** argv) {
  double most = std::numeric_limits<double>::infinity();
  char** const end = std::remove_if(argv, argv + argc, [&](std::string_view word) {
    if (!word.starts_with(kMost)) return false;
    most = 0;
    std::from_chars(word.data() + kMost.size(), word.data() + word.size(), most);
    return true;
  });
  argc = static_cast<int>(end - argv);
  return most;
}

}  // namespace

int main(int argc, char** argv) {
  const double most = most_seconds(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Fastest reporter;
  if (benchmark::RunSpecifiedBenchmarks(&reporter) == 0 || compared_something_else) return 1;
  if (reporter.seconds() <= most) return 0;
  std::fprintf(stderr, "%.3f s, and at most %g s are allowed\n", reporter.seconds(), most);
  return 1;
}
