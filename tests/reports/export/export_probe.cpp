// Writes what is exported of sample results, for tests that hand it to those who read it:
//   noisemark_export_probe FOLDER
#include <filesystem>

#include "reports/base/file.h"
#include "reports/compare/compare.h"
#include "reports/export/exporters.h"
#include "reports/export/junit.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/sample_result.h"

namespace {

using namespace noisemark::reports;

CollectedResults results() {
  Result failed = test::full_result();
  failed.run_id = "00000000000000bb";
  failed.gates.back().verdict = Verdict::kFail;
  failed.exit = {1, "failed", {"0.2 > 0.12 & \"worse\""}};
  return {"smoke <&\">",
          {{"a", test::full_result()}, {"b", failed}, {"c", test::minimal_result()}},
          {{"d@cpu/none", ""}, {"e@gpu/none", "cannot run here"}}};
}

Comparison comparison() {
  return compare(test::side("old", test::rates_around(16, 8)),
                 test::side("new", test::rates_around(14, 8)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  write_file_atomically(folder / "results.xml", junit_of(results()));
  write_file_atomically(folder / "comparison.xml", junit_of(comparison()));
  write_file_atomically(folder / "results.txt", ctest_lines(figures_of(results().results)));
  write_file_atomically(folder / "comparison.txt", ctest_lines(figures_of(comparison())));
}
