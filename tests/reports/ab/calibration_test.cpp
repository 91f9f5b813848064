#include "reports/ab/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "reports/ab/ab_fields.h"
#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/compare/inference.h"
#include "tests/reports/ab/simulated.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// Units of which the worsenings are ±0.1 %, ±0.2 %, ... in turns, the first few alarms.
Calibration calibration_of(int64_t units, int64_t alarms, double size = 0.001) {
  const AbRecord record = test::simulate({});
  Calibration calibration;
  calibration.identity = record.a.identity;
  calibration.identity["seeds.base"] = "0";
  calibration.about = record.a.about;
  calibration.benchmark = record.a.benchmark;
  calibration.variant = record.a.variant;
  calibration.plan = record.plan;
  for (int64_t i = 0; i < units; ++i) {
    CalibrationUnit unit;
    unit.created_utc = record.created_utc;
    unit.alarm = i < alarms;
    unit.verdict = unit.alarm ? "REGRESSION" : "equivalent";
    unit.worsening = (i % 2 == 0 ? 1 : -1) * size * static_cast<double>(1 + i % 10);
    unit.pairs = {unit.worsening, unit.worsening};
    unit.step_s = 0.025 * (i % 2 == 0 ? 1.01 : 1 / 1.01);
    calibration.units.push_back(unit);
  }
  return calibration;
}

ExitCode refusal_code(const Calibration& calibration, const Strings& identity) {
  try {
    (void)usable_noise(calibration, identity, "calibration.json");
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kPass;
}

TEST(ClopperPearson, agrees_with_the_published_table_at_its_ends) {
  // No hit in n: the upper end is 1 - (alpha/2)^(1/n).
  EXPECT_DOUBLE_EQ(clopper_pearson(0, 100).low, 0);
  EXPECT_NEAR(clopper_pearson(0, 100).high, 1 - std::pow(0.025, 0.01), 1e-14);
  EXPECT_NEAR(clopper_pearson(40, 40).low, std::pow(0.025, 1.0 / 40), 1e-14);
  EXPECT_DOUBLE_EQ(clopper_pearson(40, 40).high, 1);
}

TEST(ClopperPearson, refuses_what_is_no_proportion) {
  EXPECT_THROW((void)clopper_pearson(1, 0), std::logic_error);
  EXPECT_THROW((void)clopper_pearson(3, 2), std::logic_error);
  EXPECT_THROW((void)clopper_pearson(-1, 2), std::logic_error);
  EXPECT_THROW((void)clopper_pearson(1, 2, 1.0), std::logic_error);
}

TEST(Calibration, takes_as_the_floor_what_95_percent_of_the_units_stay_within) {
  const CalibrationSummary summary = summarize(calibration_of(40, 0));
  EXPECT_EQ(summary.alarms, 0);
  // Four each of 0.1 % to 1.0 %; the type-7 quantile 0.95 lies at rank 38.05 of 40: within the
  // ties.
  EXPECT_NEAR(summary.noise_floor_frac, std::expm1(0.010), 1e-12);
  EXPECT_EQ(summary.refusal, "");
}

TEST(Calibration, takes_how_far_sessions_differ_from_the_steps_of_its_units) {
  // Half of 40 units are slower by 1 %, half faster: a standard deviation of log(1.01), but for
  // 40/39, and of a difference of two of them the square root of 2 times that.
  const CalibrationSummary summary = summarize(calibration_of(40, 0));
  EXPECT_NEAR(summary.session_deviation, std::log(1.01) * std::sqrt(2.0 * 40 / 39), 1e-12);
  EXPECT_EQ(summarize(calibration_of(1, 0)).session_deviation, 0) << "of one nobody can tell";
}

TEST(Calibration, refuses_to_gate_while_the_rate_of_false_alarms_may_be_high) {
  const CalibrationSummary few = summarize(calibration_of(35, 0));
  EXPECT_NE(few.refusal, "");
  EXPECT_EQ(few.units_needed, 36);
  EXPECT_EQ(summarize(calibration_of(36, 0)).refusal, "");
  const CalibrationSummary alarms = summarize(calibration_of(40, 2));
  EXPECT_EQ(alarms.alarms, 2);
  EXPECT_NE(alarms.refusal.find("2 false alarms in 40 units"), std::string::npos);
  EXPECT_EQ(summarize(calibration_of(100, 2)).refusal, "");
}

TEST(Calibration, refuses_to_gate_above_a_floor_of_five_percent) {
  EXPECT_NE(summarize(calibration_of(40, 0, 0.006)).refusal.find("is too wide for any gate"),
            std::string::npos);
}

TEST(Calibration, gives_its_floor_to_the_same_work_on_the_same_machine_alone) {
  const Calibration calibration = calibration_of(40, 0);
  Strings identity = calibration.identity;
  identity["seeds.base"] = "7";
  EXPECT_GT(usable_noise(calibration, identity, "calibration.json").floor_frac, 0);
  identity["identity.threads"] = "1";
  EXPECT_EQ(refusal_code(calibration, identity), ExitCode::kNotComparable);
  EXPECT_EQ(refusal_code(calibration_of(10, 0), calibration.identity), ExitCode::kBaselineNeeded);
  Strings clocked = calibration.identity;
  clocked["identity.hardware.cpu_clocks"] = "governor performance";
  EXPECT_EQ(refusal_code(calibration, clocked), ExitCode::kNotComparable)
      << "a field that the calibration does not know differs too";
}

TEST(Calibration, is_read_back_as_it_was_written_and_refused_when_changed) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / "is_read_back_as_it_was_written_and_refused_when_changed";
  make_folder(folder);
  const Calibration calibration = calibration_of(40, 1);
  const std::string text = calibration_json(calibration);
  write_file_atomically(folder / "calibration.json", text);
  EXPECT_EQ(calibration_json(read_calibration(folder)), text);
  std::string changed = text;
  changed.replace(changed.find("REGRESSION"), 10, "equivalent");
  write_file_atomically(folder / "calibration.json", changed);
  EXPECT_THROW((void)read_calibration(folder), Error);
  fs::remove_all(folder);
}

TEST(Calibration, of_several_in_a_folder_the_fitting_one_is_taken) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / "of_several_in_a_folder_the_fitting_one_is_taken";
  fs::remove_all(folder);
  Calibration one = calibration_of(40, 0, 0.001);
  Calibration other = calibration_of(40, 0, 0.002);
  other.identity["identity.threads"] = "8";
  Calibration few = calibration_of(10, 0);
  few.identity["identity.threads"] = "16";
  for (const auto& [name, calibration] :
       {std::pair("a", &one), std::pair("b/c", &other), std::pair("d", &few)}) {
    make_folder(folder / name);
    write_file_atomically(folder / name / "calibration.json", calibration_json(*calibration));
  }
  const std::vector<NamedCalibration> all = read_calibrations(folder);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].where, (folder / "b/c/calibration.json").string());
  EXPECT_NEAR(usable_noise(all, one.identity).floor_frac, std::expm1(0.010), 1e-12);
  EXPECT_NEAR(usable_noise(all, other.identity).floor_frac, std::expm1(0.020), 1e-12);
  EXPECT_THROW((void)usable_noise(all, few.identity), Error) << "it may not gate";
  Strings none = one.identity;
  none["identity.threads"] = "99";
  EXPECT_FALSE(fitting_noise(all, none));
  try {
    (void)usable_noise(all, none);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kNotComparable);
  }
  EXPECT_EQ(read_calibrations(folder / "a").size(), 1U);
  EXPECT_THROW((void)read_calibrations(folder / "b" / "nothing"), Error);
  fs::remove_all(folder);
}

TEST(Calibration, a_unit_is_what_a_comparison_of_twins_came_to) {
  const AbRecord record = test::simulate({});
  const AbVerdict verdict = judge_ab(record);
  const CalibrationUnit unit = unit_of(record, verdict);
  EXPECT_FALSE(unit.alarm);
  EXPECT_EQ(unit.verdict, "equivalent");
  EXPECT_EQ(unit.pairs.size(), 6U);
  EXPECT_GT(unit.step_s, 0);
  EXPECT_NEAR(std::exp(-unit.worsening), *verdict.comparison.stochastic.front().ratio, 1e-15);
}

TEST(Calibration, takes_no_unit_in_which_the_device_slowed_itself_down) {
  AbRecord record = test::simulate({});
  for (AbPair& pair : record.pairs) pair.clock_reasons = "thermal slow-down";
  try {
    (void)unit_of(record, judge_ab(record));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), exit_code_of(CompareVerdict::kInvalidClocks));
    EXPECT_NE(std::string(error.what()).find("thermal slow-down"), std::string::npos);
  }
}

/// Returns the record that `ab` would have made of one build beside itself.
AbRecord of_twins(uint64_t seed, const std::string& made = "2026-01-02T03:04:05Z") {
  test::Simulated machine;
  machine.seed = seed;
  AbRecord record = test::simulate(machine);
  record.b = record.a;
  record.created_utc = made;
  return record;
}

TEST(Calibration, is_made_of_recorded_comparisons_in_the_order_of_their_making) {
  const fs::path folder = fs::path(::testing::TempDir()) / "recorded_comparisons";
  fs::remove_all(folder);
  const AbRecord late = of_twins(1, "2026-01-02T05:00:00Z");
  const AbRecord early = of_twins(2, "2026-01-02T04:00:00Z");
  for (const auto& [name, record] : {std::pair("a", late), std::pair("b/deeper", early)}) {
    make_folder(folder / name);
    write_file_atomically(folder / name / "ab.json", ab_json(record));
  }
  const Calibration made = calibration_of_records(folder);
  Calibration expected;
  add_unit(expected, early, "early");
  add_unit(expected, late, "late");
  EXPECT_EQ(calibration_json(made), calibration_json(expected));
  EXPECT_EQ(made.units.front().created_utc, early.created_utc);
  EXPECT_EQ(made.units.back().worsening, unit_of(late, judge_ab(late)).worsening);
  EXPECT_EQ(made.plan.pairs, late.plan.pairs);
  EXPECT_EQ(made.identity, late.a.identity);
  fs::copy_file(folder / "a" / "ab.json", folder / "b" / "ab.json");
  try {
    (void)calibration_of_records(folder);
    ADD_FAILURE() << "counted twice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the same comparison as"), std::string::npos)
        << error.what();
  }
  fs::remove_all(folder);
  EXPECT_THROW((void)calibration_of_records(folder), Error) << "nothing is there";
}

TEST(Calibration, takes_no_unit_that_is_not_of_one_build_beside_itself_like_the_others) {
  const auto refusal = [](const auto& change) {
    Calibration calibration;
    add_unit(calibration, of_twins(1), "first");
    AbRecord record = of_twins(2);
    change(record);
    try {
      add_unit(calibration, record, "second");
    } catch (const Error& error) {
      EXPECT_EQ(calibration.units.size(), 1U);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](AbRecord&) {}), "");
  EXPECT_EQ(refusal([](AbRecord& record) { record.plan.slow_down_frac = 0.05; }),
            "second: plan.slow_down_frac: 0.05 (0: untouched)");
  EXPECT_EQ(refusal([](AbRecord& record) { record.ended = "interrupted"; }),
            "second: ended: interrupted (a whole comparison)");
  EXPECT_NE(refusal([](AbRecord& record) {
              record.b.about["commit"] = "another";
            }).find("second: build: B differs from A in commit"),
            std::string::npos);
  EXPECT_EQ(
      refusal([](AbRecord& record) { record.plan.seconds = 31; }),
      "second: plan: --pairs 6 --seconds 31 --turn 0.2 (--pairs 6 --seconds 30 --turn 0.2, as the "
      "others have)");
  for (const auto part : {&AbBuild::identity, &AbBuild::about}) {
    EXPECT_NE(refusal([&](AbRecord& record) {
                (record.a.*part)["mood"] = (record.b.*part)["mood"] = "another";
              }).find("second: it is of other work, another machine or another build: mood"),
              std::string::npos);
  }
}

TEST(Calibration, counts_alarms_at_the_margin_that_nothing_has_widened) {
  test::Simulated machine;
  machine.slow_down = 0.08;
  AbRecord record = test::simulate(machine);
  record.b = record.a;
  record.plan.noise_floor_frac = 0.06;  // `ab --calibration` would set it so
  ASSERT_FALSE(unit_of(record, judge_ab(record)).alarm);
  Calibration calibration;
  add_unit(calibration, record, "unit");
  EXPECT_TRUE(calibration.units.front().alarm);
}

TEST(Calibration, of_another_version_or_with_a_key_that_nobody_reads_is_refused) {
  const fs::path file = fs::path(::testing::TempDir()) / "of_another_version.json";
  const auto refusal = [&](const std::string& text) {
    write_file_atomically(file, text);
    try {
      (void)read_calibration(file);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  OrderedJson body = parse_json(calibration_json(calibration_of(40, 0)), "calibration.json");
  body.erase("schema");
  body.erase("checksum");
  json::Document later = json::kCalibrationDocument;
  later.version = "1.9.0";
  EXPECT_EQ(refusal(document_text(json::kCalibrationDocument, body)), "");
  EXPECT_NE(refusal(document_text(later, body)).find("schema.version"), std::string::npos);
  body["mood"] = 1;
  EXPECT_NE(refusal(document_text(json::kCalibrationDocument, body)).find("mood: unknown key"),
            std::string::npos);
  fs::remove(file);
}

TEST(Calibration, says_what_it_found) {
  const std::string usable = calibration_markdown(calibration_of(40, 0));
  EXPECT_EQ(usable.find("# calibrated: gmm16-ho@cpu, none-plain-fp32\n"), 0U) << usable;
  for (const char* words :
       {"Measurements made apart differ by 1.4 %", "False alarms: 0 in 40 (0.0 % to 8.8 %"}) {
    EXPECT_NE(usable.find(finished_page(words)), std::string::npos) << usable;
  }
  EXPECT_EQ(calibration_markdown(calibration_of(10, 0)).find("# CALIBRATION NEEDED: "), 0U);
}

}  // namespace
}  // namespace noisemark::reports
