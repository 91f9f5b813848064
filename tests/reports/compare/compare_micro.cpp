/// How long `noisemark compare` takes for two suites of 100 results each: reading and verifying
/// the files, judging, and writing the comparison.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

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

void two_suites_of_100_results(benchmark::State& state) {
  const Suites suites;
  const std::string base = suites.add("old");
  const std::string candidate = suites.add("new");
  for (auto step : state) {
    const auto [a, b] = read_sides(base, candidate);
    const Comparison comparison = compare(a, b, {});
    if (comparison.cells != kBenchmarks || a.runs.size() != kBenchmarks * kRunsOfEach) {
      return state.SkipWithError("not the suites that were written");
    }
    benchmark::DoNotOptimize(comparison_markdown(comparison).size());
  }
}

BENCHMARK(two_suites_of_100_results)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
