/// How long `noisemark compare` takes for two suites of 100 results each: reading and verifying
/// the files, judging, and writing the comparison. With --most-s=S the exit code is 1 where the
/// fastest repetition takes longer, or where it compared something else.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "reports/compare/compare.h"
#include "reports/compare/comparison_markdown.h"
#include "reports/file.h"
#include "reports/json_io.h"
#include "tests/reports/compare/runs.h"

namespace {

namespace fs = std::filesystem;
using namespace noisemark::reports;  // NOLINT(google-build-using-namespace): a program, not a
                                     // header

constexpr size_t kBenchmarks = 10;
constexpr size_t kRunsOfEach = 10;

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

  /// kBenchmarks cells of kRunsOfEach results. Returns the suite's folder.
  [[nodiscard]] std::string add(const std::string& name) const {
    for (size_t benchmark = 0; benchmark < kBenchmarks; ++benchmark) {
      const auto of_benchmark = [&](Result& result, size_t) {
        result.identity.benchmark = fmt::format("benchmark-{}", benchmark);
      };
      const Side side = test::side(fmt::format("{}{}", name, benchmark),
                                   test::rates_around(100, kRunsOfEach), of_benchmark);
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

void two_suites_of_100_results(benchmark::State& state) {
  const Suites suites;
  const std::string base = suites.add("old");
  const std::string candidate = suites.add("new");
  for (auto step : state) {
    const auto [a, b] = read_sides(base, candidate);
    const Comparison comparison = compare(a, b, {});
    if (comparison.cells != kBenchmarks || a.runs.size() != kBenchmarks * kRunsOfEach) {
      compared_something_else = true;
      return state.SkipWithError("not the suites that were written");
    }
    benchmark::DoNotOptimize(comparison_markdown(comparison).size());
  }
}

BENCHMARK(two_suites_of_100_results)->Unit(benchmark::kMillisecond);

/// Prints, and keeps the shortest time: that of a repetition in which nothing else ran.
class Fastest : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const double unit = benchmark::GetTimeUnitMultiplier(run.time_unit);
      seconds_ = std::min(seconds_, run.GetAdjustedRealTime() / unit);
    }
    ConsoleReporter::ReportRuns(runs);
  }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
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
