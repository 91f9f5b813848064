// `noisemark ab` and `noisemark calibrate`, by the real binary: usage, exit codes, files.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/ab/calibration.h"
#include "reports/ab/judge.h"
#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "tests/reports/ab/simulated.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::expect_bad_input;
using test::noisemark;
using Words = std::vector<std::string>;

const Words kSmall = {"gmm16-ho@cpu", "--device=cpu", "--threads=1", "--seconds=6",
                      "--set=train.batch=1"};

Words command(Words words) {
  words.insert(words.end(), kSmall.begin(), kSmall.end());
  return words;
}

/// A file with a simulated comparison.
std::string recorded(const fs::path& folder, const reports::test::Simulated& machine) {
  const fs::path file = folder / "recorded.json";
  reports::write_file_atomically(file, ab_json(simulate(machine)));
  return file.string();
}

/// A folder with a calibration for simulate()'s machine.
std::string calibrated(const fs::path& folder, int64_t units, double size) {
  const reports::AbRecord record = reports::test::simulate({});
  reports::Calibration calibration;
  calibration.identity = record.a.identity;
  calibration.benchmark = record.a.benchmark;
  for (int64_t i = 0; i < units; ++i) {
    calibration.units.push_back({"2026-01-02T03:04:05Z", "equivalent", false, size, {size}, 0.025});
  }
  reports::write_file_atomically(folder / "calibration.json", calibration_json(calibration));
  return folder.string();
}

/// Expects that the comparison of two builds that do the same found no difference in anything but
/// time. Time may differ: the machine also does other work while this test runs, and of comparisons
/// without a difference up to alpha (0.05) are called regressions, which
/// tests/reports/ab/judge_test counts.
void expect_no_difference_but_in_time(const test::Finished& done) {
  if (done.code == 0 || done.code == 4) return;
  EXPECT_EQ(done.code, 1) << done.both();
  const std::string reasons = done.out.substr(0, done.out.find("\n## "));
  const size_t first = reasons.find("\n- ");
  EXPECT_EQ(first, reasons.rfind("\n- ")) << "more than one reason\n" << done.both();
  EXPECT_EQ(first, reasons.find("\n- images_per_s: REGRESSION ")) << done.both();
}

TEST(AbCommand, refuses_what_it_cannot_mean) {
  expect_bad_input({"ab", "gmm16-ho"}, "ab: neither (one of --a and --a-ref)");
  expect_bad_input({"ab", "gmm16-ho", "--a=x", "--a-ref=x"}, "ab: both (one of --a and --a-ref)");
  expect_bad_input({"ab", "--a=x", "--b=x"}, "ab: no benchmark (ID)");
  expect_bad_input({"ab", "smoke", "--a=x", "--b=x"},
                   "ab: smoke: a suite (one benchmark, or a definition file)");
  expect_bad_input({"ab", "gmm16-ho", "--a=x", "--b=x", "--pairs=4"},
                   "--pairs: 4 (an integer of at least 6)");
  expect_bad_input({"ab", "gmm16-ho", "--a=x", "--b=x", "--slow-down=-1"},
                   "--slow-down: -1 (a finite number of at least 0)");
  expect_bad_input({"ab", "gmm16-ho", "--from=x"},
                   "ab: gmm16-ho: given with --from (nothing is run)");
  expect_bad_input({"ab", "--pairs=8", "--from=x"},
                   "ab: --pairs: given with --from (nothing is run)");
  Words all = {"ab", "--from=x"};
  std::string named;
  for (const char* flag : {"a", "b", "a-ref", "b-ref", "configure", "slow-down", "seconds", "turn",
                           "out", "mode", "baseline", "precision", "device", "seed", "threads",
                           "loader-threads", "data", "set", "init-weights"}) {
    all.push_back(
        fmt::format("--{}={}", flag, std::string_view(flag) == "precision" ? "fp32" : "1"));
    named += fmt::format("{}--{}", named.empty() ? "" : ", ", flag);
  }
  expect_bad_input(all, fmt::format("ab: {}: given with --from (nothing is run)", named));
  expect_bad_input({"ab", "gmm16-ho", "--from=x", "--mode=echo", "--deterministic", "--no-bytes"},
                   "ab: gmm16-ho, --no-bytes, --mode, --deterministic: given with --from (nothing "
                   "is run)");
  expect_bad_input(
      {"ab", "gmm16-ho", "--a=/nonexistent", "--b=/nonexistent"},
      "A (/nonexistent): /nonexistent: is no noisemark program: No such file or directory (a "
      "program: noisemark)");
}

TEST(AbCommand, refuses_what_is_no_program_or_revision_before_anything_is_built_or_run) {
  for (const char* option : {"--pairs=6", "--no-bytes"}) {
    const std::string self = test::noisemark_command({}).front();
    const test::Finished done =
        noisemark({"ab", "gmm16-ho", "--a=" + self, "--b=/bin/true", option});
    EXPECT_EQ(done.code, 2) << done.both();
    EXPECT_NE(done.err.find("/bin/true: is no noisemark program: "), std::string::npos) << done.err;
    EXPECT_EQ(done.err.find("bytes and FLOPs"), std::string::npos) << done.err;
  }
  const test::Finished built = noisemark({"ab", "gmm16-ho", "--a-ref=HEAD", "--b-ref=nosuch"});
  EXPECT_EQ(built.code, 2) << built.both();
  EXPECT_EQ(built.err.find("building"), std::string::npos) << built.err;
}

TEST(AbCommand, writes_beside_no_file_of_somebody_else) {
  const test::TemporaryFolder folder;
  const std::string out = folder.path().string();
  std::ofstream(folder.path() / "notes.txt") << "mine";
  expect_bad_input(
      {"ab", "gmm16-ho", "--a=x", "--b=x", "--out=" + out},
      "--out: " + out + " is not an empty folder (a new folder, or --force to replace it)");
}

TEST(AbCommand, passes_on_why_a_build_cannot_train) {
  const std::string binary = test::noisemark_command({}).front();
  const test::Finished done = noisemark({"ab", "nonexistent", "--a=" + binary, "--b=" + binary});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("nonexistent"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("its short run ended with exit code 2"), std::string::npos) << done.err;
}

TEST(AbCommand, judges_a_recorded_comparison_again_and_leaves_with_its_code) {
  const test::TemporaryFolder folder;
  reports::test::Simulated machine;
  const test::Finished equal = noisemark({"ab", "--from", recorded(folder.path(), machine)});
  EXPECT_EQ(equal.code, 0) << equal.both();
  EXPECT_EQ(equal.out.find("# EQUIVALENT: gmm16-ho@cpu, A to B\n"), 0U) << equal.out;
  machine.slow_down = 0.1;
  const std::string slow = recorded(folder.path(), machine);
  EXPECT_EQ(noisemark({"ab", "--from", slow}).code, 1);
  const test::Finished json = noisemark({"ab", "--from", slow, "--format=json"});
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(nlohmann::json::parse(json.out).at("verdict"), "REGRESSION");
  machine.slow_down = 0;
  machine.pair_noise = 0.06;
  const std::string noisy = recorded(folder.path(), machine);
  EXPECT_EQ(noisemark({"ab", "--from", noisy}).code, 4);
  const test::Finished warned = noisemark({"ab", "--from", noisy, "--inconclusive=warn"});
  EXPECT_EQ(warned.code, 0);
  EXPECT_NE(warned.out.find("The exit code is 0: inconclusive, let pass by --inconclusive=warn.\n"),
            std::string::npos)
      << warned.out;
}

TEST(AbCommand, takes_a_calibration_and_refuses_one_that_gates_nothing) {
  const test::TemporaryFolder folder;
  reports::test::Simulated machine;
  machine.slow_down = 0.06;
  const std::string slow = recorded(folder.path(), machine);
  EXPECT_EQ(noisemark({"ab", "--from", slow}).code, 1);
  const std::string usable = calibrated(folder.path(), 40, 0.04);
  const test::Finished wide = noisemark({"ab", "--from", slow, "--calibration", usable});
  EXPECT_NE(wide.code, 1);
  EXPECT_NE(wide.out.find(reports::finished_page("8.2 %")), std::string::npos)
      << wide.out;  // 2 * expm1(0.04)
  EXPECT_EQ(
      noisemark({"ab", "--from", slow, "--calibration", calibrated(folder.path(), 10, 0.001)}).code,
      5);
}

TEST(AbCommand, of_a_program_with_itself_writes_what_can_be_judged_again) {
  const test::TemporaryFolder folder;
  const std::string binary = test::noisemark_command({}).front();
  const std::string out = (folder.path() / "out").string();
  const test::Finished done =
      noisemark(command({"ab", "--a=" + binary, "--b=" + binary, "--out=" + out}));
  const reports::AbRecord record = reports::read_ab(out);
  expect_no_difference_but_in_time(done);
  EXPECT_GT(record.figures.size(), 50U) << "bytes by owner at every boundary";
  for (const reports::ExactRow& row : record.figures) {
    EXPECT_EQ(row.verdict, reports::CompareVerdict::kEquivalent) << row.metric;
    EXPECT_EQ(row.base, row.candidate) << row.metric;
    EXPECT_EQ(row.base_digest, row.candidate_digest) << row.metric;
  }
  for (const char* figure : {"peak_bytes", "saved_bytes", "flop_per_image", "loss trace",
                             "Equal bytes by owner are not shown"}) {
    EXPECT_NE(done.out.find(figure), std::string::npos) << figure;
  }
  const test::Finished again = noisemark({"ab", "--from", out});
  EXPECT_EQ(again.out, done.out);
  EXPECT_EQ(again.code, done.code);
  EXPECT_EQ(reports::read_file(out + "/ab.md"), done.out);
  expect_bad_input(command({"ab", "--a=x", "--b=x", "--out=" + out}),
                   "--out: " + out + "/ab.json exists (a new folder, or --force to replace it)");
  expect_bad_input(command({"ab", "--force", "--a=/none", "--b=/none", "--out=" + out}),
                   "A (/none): /none: is no noisemark program: No such file or directory (a "
                   "program: noisemark)");
}

TEST(AbCommand, a_byte_that_nobody_owns_is_listed_with_both_values_and_decides) {
  const test::TemporaryFolder folder;
  const std::string binary = test::noisemark_command({}).front();
  const std::string out = (folder.path() / "out").string();
  const test::Finished done =
      noisemark(command({"ab", "--a=" + binary, "--b=" NOISEMARK_FAULTY_BUILD, "--out=" + out}));
  EXPECT_EQ(done.code, 1) << done.both();
  EXPECT_NE(done.out.find("\n- peak: without an owner: REGRESSION (rose)\n"), std::string::npos)
      << done.out;
  bool found = false;
  for (const reports::ExactRow& row : reports::read_ab(out).figures) {
    if (row.metric != "peak: without an owner") continue;
    found = true;
    EXPECT_EQ(row.base, 0.0);
    EXPECT_EQ(row.candidate, 1.0);
    EXPECT_EQ(row.verdict, reports::CompareVerdict::kRegression);
  }
  EXPECT_TRUE(found);
}

TEST(AbCommand, a_byte_that_nobody_owns_is_nothing_to_losses_and_times) {
  const std::string binary = test::noisemark_command({}).front();
  const test::Finished without =
      noisemark(command({"ab", "--no-bytes", "--a=" + binary, "--b=" NOISEMARK_FAULTY_BUILD}));
  expect_no_difference_but_in_time(without);
}

TEST(CalibrateCommand, of_few_units_refuses_to_gate_and_goes_on_where_it_ended) {
  const test::TemporaryFolder folder;
  const std::string out = folder.path().string();
  const test::Finished one = noisemark(command({"calibrate", "--units=1", "--out=" + out}));
  EXPECT_EQ(one.code, 5) << one.both();
  EXPECT_EQ(one.out.find("# CALIBRATION NEEDED: gmm16-ho@cpu, none-plain-fp32\n"), 0U) << one.out;
  EXPECT_EQ(reports::read_calibration(out).units.size(), 1U);
  const test::Finished two = noisemark(command({"calibrate", "--units=2", "--out=" + out}));
  EXPECT_EQ(two.code, 5) << two.both();
  EXPECT_EQ(reports::read_calibration(out).units.size(), 2U);
  EXPECT_EQ(reports::read_file(folder.path() / "calibration.md"), two.out);
  for (const char* other : {"--pairs=7", "--turn=0.1"}) {
    expect_bad_input(
        command({"calibrate", other, "--out=" + out}),
        "calibrate: " + out +
            "/calibration.json: made with --pairs 6 --seconds 6 --turn 0.2 (the same options, or a "
            "new folder)");
  }
}

TEST(CalibrateCommand, of_recorded_comparisons_runs_nothing) {
  const test::TemporaryFolder folder;
  const fs::path records = folder.path() / "records";
  for (uint64_t seed = 1; seed <= 36; ++seed) {
    reports::test::Simulated machine;
    machine.seed = seed;
    reports::AbRecord record = simulate(machine);
    record.b = record.a;
    const fs::path unit = records / std::to_string(seed);
    reports::make_folder(unit);
    reports::write_file_atomically(unit / "ab.json", ab_json(record));
  }
  const std::string from = "--from=" + records.string();
  const std::string out = (folder.path() / "out").string();
  const test::Finished done = noisemark({"calibrate", from, "--out=" + out});
  EXPECT_EQ(done.code, 0) << done.both();
  EXPECT_EQ(done.out.find("# calibrated: gmm16-ho@cpu, none-plain-fp32\n"), 0U) << done.out;
  EXPECT_EQ(reports::read_calibration(out).units.size(), 36U);
  EXPECT_EQ(reports::read_file(out + "/calibration.md"), done.out);
  expect_bad_input(
      {"calibrate", from, "--out=" + out},
      "--out: " + out + "/calibration.json exists (a new folder, or --force to replace it)");
  EXPECT_EQ(noisemark({"calibrate", from, "--force", "--out=" + out}).code, 0);
  expect_bad_input({"calibrate", "gmm16-ho", from, "--units=40"},
                   "calibrate: gmm16-ho, --units: given with --from (nothing is run)");
}

}  // namespace
}  // namespace noisemark::suite
