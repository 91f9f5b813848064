// The bytes of quality.md, kept in golden/. After a wanted change, regenerate them:
//   NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_quality_golden_test
#include <gtest/gtest.h>

#include <filesystem>

#include "reports/quality/judge.h"
#include "reports/quality/quality_markdown.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/quality/seeds.h"

namespace noisemark::reports {
namespace {

const std::filesystem::path kGolden = NOISEMARK_TEST_FOLDER "/golden";

TEST(QualityGolden, every_verdict_has_these_bytes) {
  const auto none = test::losses_of_none(5);
  Side side = test::together({test::seeds_of("none", none),
                              test::seeds_of("dpr16", test::worse_by(0.0005, 0.001, none)),
                              test::seeds_of("dpr8", test::worse_by(0.006, 0.02, none)),
                              test::seeds_of("q2", test::worse_by(0.08, 0.004, none))});
  side.runs.pop_back();  // seed 4 of q2
  side.lost = {{"ho-cifar10@cpu/q2-plain-fp32-seed4", "it left no result"}};
  const QualityStudy study = judge_quality(side, {.ranges = {{"val_loss", 0.09, 0.102}}});
  test::expect_golden(kGolden / "quality.md", quality_markdown(study));
}

TEST(QualityGolden, what_is_not_comparable_has_these_bytes) {
  const auto none = test::losses_of_none(2);
  const auto other = [](Result& result, uint64_t) {
    result.identity.software["libtorch"] = "2.12";
  };
  const QualityStudy study = judge_quality(
      test::together({test::seeds_of("none", none), test::seeds_of("echo", none, other)}));
  test::expect_golden(kGolden / "not_comparable.md", quality_markdown(study));
}

}  // namespace
}  // namespace noisemark::reports
