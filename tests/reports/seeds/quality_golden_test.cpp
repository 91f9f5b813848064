// The bytes of quality.md, kept in golden/. After a wanted change, regenerate them:
//   NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_quality_golden_test
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "reports/seeds/distances.h"
#include "reports/seeds/judge.h"
#include "reports/seeds/study.h"
#include "tests/reports/golden_file.h"
#include "tests/reports/seeds/seeds.h"

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

DistanceOrigin origin_of_fid() {
  DistanceOrigin origin;
  origin.metric = "fid";
  origin.name = "FID";
  origin.extractor = "inception";
  origin.checksum = "abcdef0123456789";
  origin.resize = "tf1-bilinear";
  origin.dimension = 2048;
  origin.samples = 5000;
  origin.definition = "ho-cifar10@cpu fedcba987654";
  origin.sampler = "ddim, 50 steps, eta 0.0";
  origin.weights = "ema";
  origin.noise = "the run's seed";
  origin.precision = "the run's";
  origin.reference = "cifar10.npz";
  origin.reference_samples = 50000;
  origin.reference_sha256 = "0123456789abcdef";
  return origin;
}

/// FID with its interval, and KID of the same images with its standard error.
std::vector<RunDistance> distances_of(const NamedResult& run) {
  const Result& result = run.result;
  const auto seed = static_cast<double>(result.seeds.base);
  const double worse = result.identity.mode == "none" ? 0 : 0.004 * (seed - 1.5);
  RunDistance fid;
  fid.run_id = result.run_id;
  fid.file = "distances/fid.json";
  fid.origin = origin_of_fid();
  fid.value = 10 + 0.25 * seed + worse;
  fid.interval = Interval{*fid.value - 0.125, *fid.value + 0.125};
  RunDistance kid = fid;
  kid.origin.metric = "kid";
  kid.origin.name = "KID";
  kid.origin.kernel = KernelOrigin{100, 1000, "counter", 0};
  kid.value = 0.0125 + 0.001 * seed + 0.01 * worse;
  kid.interval.reset();
  kid.standard_error = 0.00025;
  return {fid, kid};
}

TEST(QualityGolden, distances_and_where_they_come_from_have_these_bytes) {
  const auto none = test::losses_of_none(5);
  QualitySide judged{test::together({test::seeds_of("none", none),
                                     test::seeds_of("dpr8", test::worse_by(1e-4, 1e-4, none))}),
                     {},
                     {"dpr8-seed0/samples/sheet.png", "none-seed0/samples/sheet.png"},
                     {}};
  for (const NamedResult& run : judged.side.runs) {
    for (RunDistance& one : distances_of(run)) judged.distances.push_back(std::move(one));
  }
  judged.distances.back().problem = "the samples were drawn with other weights than this run's";
  attach_distances(judged.distances, judged.side);
  const QualityStudy study =
      judge_quality(judged, {.gates = {{"fid", {}}, {"kid", 0.001}}, .ranges = {{"fid", 9, 12}}});
  test::expect_golden(kGolden / "distances.md", quality_markdown(study));
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
