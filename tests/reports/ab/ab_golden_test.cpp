// The bytes of what `ab` and `calibrate` print, kept in golden/. After a wanted change, regenerate
// them:
//   NOISEMARK_UPDATE_GOLDEN=1 build/release/bin/reports_ab_golden_test
#include <gtest/gtest.h>

#include "reports/ab/calibration.h"
#include "reports/ab/judge.h"
#include "tests/reports/ab/simulated.h"
#include "tests/reports/golden_file.h"

namespace noisemark::reports {
namespace {

const std::filesystem::path kGolden = NOISEMARK_TEST_FOLDER "/golden";

void expect_golden(const std::string& name, const AbRecord& record) {
  test::expect_golden(kGolden / name, ab_markdown(record, judge_ab(record)));
}

TEST(AbGolden, of_equal_builds) {
  expect_golden("equivalent.md", test::simulate({}));
}

TEST(AbGolden, of_a_slow_down_with_a_loss_that_differs_and_other_software) {
  test::Simulated machine;
  machine.slow_down = 0.1;
  AbRecord record = test::simulate(machine);
  record.plan.slow_down_frac = 0.1;
  record.plan.noise_floor_frac = 0.02;
  record.b.about.emplace("software.libtorch", "2.12.0");
  for (AbPair& pair : record.pairs) {
    for (AbTurn& turn : pair.turns) turn.loss[0] += turn.side == AbSide::kB ? 0.125 : 0;
  }
  expect_golden("regression.md", record);
}

TEST(AbGolden, of_a_noisy_machine_after_its_extension) {
  test::Simulated machine;
  machine.pair_noise = 0.05;
  machine.made = 12;
  expect_golden("inconclusive.md", test::simulate(machine));
}

TEST(AbGolden, of_other_work) {
  test::Simulated machine;
  machine.made = 0;
  AbRecord record = test::simulate(machine);
  record.b.identity.insert_or_assign("identity.version", std::string("2"));
  record.ended = std::string("the builds would not do the same work");
  expect_golden("not_comparable.md", record);
}

TEST(AbGolden, of_a_calibration_of_too_few_units) {
  const AbRecord record = test::simulate({});
  const AbVerdict verdict = judge_ab(record);
  Calibration calibration;
  calibration.benchmark = record.a.benchmark;
  calibration.variant = record.a.variant;
  calibration.plan = record.plan;
  const CalibrationUnit unit = unit_of(record, verdict);
  calibration.units = {unit, unit};
  calibration.units[1].verdict = "REGRESSION";
  calibration.units[1].alarm = true;
  calibration.units[1].step_s = 1.02 * unit.step_s;
  test::expect_golden(kGolden / "calibration.md", calibration_markdown(calibration));
}

}  // namespace
}  // namespace noisemark::reports
