#include "reports/profile/limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/result/definition.h"
#include "reports/result/json_io.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// A profile of the work of full_result(): a step of 100 ms, of which compute bounds 60 and memory
/// 20.
Profile profile() {
  Profile made;
  made.benchmark = "ho-cifar10@cpu";
  made.mode = "none";
  made.baseline = "plain";
  made.precision = "fp32";
  made.device = "cpu";
  made.threads = 2;
  made.batch = 16;
  made.work = work_of(test::full_result());
  made.steps = 3;
  made.cost = {5, 0.1, 0.105, 1.05};
  made.trace = "trace.json.gz";
  made.trace_bytes = made.trace_plain_bytes = 1;
  made.roofline.step_s = 0.1;
  made.roofline.ideal_s = 0.04;
  made.roofline.operators = {{"aten::addmm", "", "float32", 1, 0.06, 3e9, 1e7, 0.03, true},
                             {"aten::add", "", "float32", 1, 0.02, 2.5e7, 1e8, 0.01, false}};
  return made;
}

TEST(Limit, names_what_bounds_most_of_a_step_and_where_the_most_is_to_be_won) {
  EXPECT_EQ(limit_words(profile()),
            "compute: operators that it bounds take 60.0 % of a profiled step, those that memory "
            "bounds 20.0 %. If every operator were as fast as the machine's measured peaks allow "
            "(its roof), a step would take 40.0 % of the time that it takes without the profiler. "
            "The most is to be won at aten::addmm, all its shapes together: 30.0 % of a profiled "
            "step");
  Profile other = profile();
  other.roofline.operators.front().compute_bound = false;
  EXPECT_TRUE(limit_words(other).starts_with(
      "memory: operators that it bounds take 80.0 % of a profiled step"));
}

TEST(Limit, says_that_the_machine_was_busy_where_the_profiler_made_steps_faster) {
  Profile noisy = profile();
  noisy.cost.ratio = 0.457;
  EXPECT_TRUE(limit_words(noisy).starts_with(
      "not sure, because the machine was busy with other work: a step took 0.46 times as long with "
      "the profiler as without, so profile again. By this profile it is compute: "))
      << limit_words(noisy);
}

TEST(Limit, says_that_the_machine_was_busy_where_operators_were_faster_than_its_peaks) {
  Profile noisy = profile();
  noisy.roofline.operators = {{"aten::addmm", "", "float32", 1, 0.03, 6e9, 1e7, 0.06, true},
                              {"aten::mm", "", "float32", 1, 0.03, 6e9, 1e7, 0.06, true},
                              {"aten::add", "", "float32", 1, 0.02, 2.5e7, 1e8, 0.01, false}};
  EXPECT_TRUE(limit_words(noisy).starts_with(
      "not sure, because the machine was busy with other work: operators with 60.0 % of a step "
      "were faster than the peaks that were measured beside them, so profile again. By this "
      "profile it is compute: "))
      << limit_words(noisy);
}

TEST(Limit, is_sure_where_only_the_formula_of_one_operator_is_wrong) {
  Profile wrong = profile();
  wrong.roofline.operators.front() = {"aten::addmm", "",  "float32", 1,   0.06,
                                      1.2e10,        1e7, 0.12,      true};
  EXPECT_TRUE(limit_words(wrong).starts_with("compute: ")) << limit_words(wrong);
}

TEST(Limit, says_that_the_machine_was_busy_where_the_profiled_steps_differ_from_those_beside_them) {
  Profile noisy = profile();
  noisy.cost = {5, 0.15, 0.155, 1.03};  // The profiled steps took 100 ms.
  EXPECT_EQ(limit_words(noisy),
            "not sure, because the machine was busy with other work: the profiled steps took 0.67 "
            "times as long as those without the profiler, so profile again. By this profile it is "
            "compute: operators that it bounds take 60.0 % of a profiled step, those that memory "
            "bounds 20.0 %. If every operator were as fast as the machine's measured peaks allow "
            "(its roof), a step would take 40.0 % of the time that it took with the profiler. The "
            "most is to be won at aten::addmm, all its shapes together: 30.0 % of a profiled step");
  noisy.cost = {5, 0.05, 0.055, 1.1};
  EXPECT_TRUE(limit_words(noisy).starts_with(
      "not sure, because the machine was busy with other work: the profiled steps took 1.82 times "
      "as long as others with the profiler, so profile again. "))
      << limit_words(noisy);
}

/// The same step with convolutions, a norm and an activation function in the place of the rest.
Profile of_convolutions() {
  Profile made = profile();
  made.roofline.operators = {
      {"aten::convolution_backward", "", "float32", 1, 0.05, 3e9, 1e7, 0.03, true},
      {"aten::native_group_norm", "", "float32", 1, 0.02, 2.5e7, 1e8, 0.005, false},
      {"aten::silu", "", "float32", 1, 0.01, 2.5e7, 1e8, 0.004, false},
      {"aten::add", "", "float32", 1, 0.02, 2.5e7, 1e8, 0.001, false}};
  return made;
}

TEST(Limit, proposes_baselines_by_what_their_operators_take_beyond_their_roof) {
  const Profile tried = of_convolutions();
  const std::vector<Proposal> all = proposals(tried);
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[0].baseline, "fused") << "21 ms are to be won at the norm and the activation";
  EXPECT_DOUBLE_EQ(all[0].beyond_frac(), 0.21);
  EXPECT_EQ(all[1].baseline, "channels-last");
  EXPECT_DOUBLE_EQ(all[1].beyond_frac(), 0.20);
  EXPECT_TRUE(limit_words(tried).ends_with(
      ". Try `--baseline fused` first: normalizations and activation functions take 30.0 % of a "
      "profiled step, and would take 9.0 % at their roof, so 21.0 % of a step is to be won, or "
      "more, because joined operators move fewer bytes"))
      << limit_words(tried);
  Profile fused = of_convolutions();
  fused.baseline = "fused";
  EXPECT_TRUE(limit_words(fused).ends_with(
      ". Try `--baseline fused+channels-last` first: convolutions take 50.0 % of a profiled step, "
      "and would take 30.0 % at their roof, so at most 20.0 % of a step is to be won"))
      << limit_words(fused);
  EXPECT_NE(proposals_section(tried).find("| `--baseline channels-last` | convolutions"),
            std::string::npos)
      << proposals_section(tried);
}

TEST(Limit, of_a_run_proposes_the_command_that_shows_what_is_won) {
  Result run = test::full_result();
  run.identity.baseline = "pooled";
  run.identity.mode = "echo";
  run.identity.overrides = {"data.name='it s'"};
  Profile made = of_convolutions();
  made.baseline = "pooled";
  EXPECT_NE(limit_words(made, &run)
                .find(". Try `noisemark sweep ho-cifar10@cpu --axis baseline=pooled,fused+pooled "
                      "--mode echo --device cpu --threads 2 --set 'data.name='\\''it s'\\''' "
                      "--data DATA` first: normalizations and activation functions take 30.0 %"),
            std::string::npos)
      << limit_words(made, &run);
  run.identity.framework = "diffusers";
  EXPECT_NE(limit_words(made, &run).find(". Try `--baseline fused+pooled` first: "),
            std::string::npos)
      << "no command does its work";
}

TEST(Limit, proposes_nothing_that_the_profile_has_already_and_nothing_for_less_than_a_percent) {
  Profile fused = of_convolutions();
  fused.baseline = "fused+channels-last";
  EXPECT_TRUE(proposals(fused).empty());
  EXPECT_EQ(proposals_section(fused), "");
  Profile near = of_convolutions();
  near.precision = "fp16";
  ASSERT_EQ(proposals(near).size(), 1) << "fused has no kernels for it";
  EXPECT_EQ(proposals(near)[0].baseline, "channels-last");
  near.precision = "fp32";
  near.baseline = "channels-last+pooled";
  ASSERT_EQ(proposals(near).size(), 1);
  EXPECT_EQ(proposals(near)[0].baseline, "fused+channels-last+pooled");
  near.baseline = "fused+pooled";
  ASSERT_EQ(proposals(near).size(), 1);
  EXPECT_EQ(proposals(near)[0].baseline, "fused+channels-last+pooled");
  near.baseline = "plain";
  near.roofline.operators[0].roof_s = 0.0495;
  ASSERT_EQ(proposals(near).size(), 1);
  EXPECT_EQ(proposals(near)[0].baseline, "fused");
  EXPECT_TRUE(proposals(profile()).empty()) << "no baseline executes a product otherwise";
  near.roofline.missing = "the work of an operator is not known";
  EXPECT_TRUE(proposals(near).empty());
}

TEST(Limit, is_the_host_where_a_gpu_waits_for_it) {
  Profile waiting = profile();
  waiting.layers = {{"a", 3, 0, 0, 90'000'000, 90'000'000}};
  EXPECT_TRUE(limit_words(waiting).starts_with(
      "the host, for which the GPU waits in 40.0 % of a step; compute: operators that it bounds"))
      << "three steps of 60 ms on the device, of 100 ms each";
  waiting.layers.front().forward_device_ns += 90'000'000;
  EXPECT_TRUE(limit_words(waiting).starts_with("compute"));
}

TEST(Limit, is_not_said_without_a_roofline) {
  Profile without = profile();
  without.roofline.missing = "the work of an operator is not known";
  EXPECT_EQ(limit_words(without), "");
}

/// A run with these changes of its definition, whose text has their values.
Result changed_run(const std::string& definition, const std::vector<std::string>& overrides) {
  Result run = test::full_result();
  run.definition = definition;
  run.identity.definition_sha256 = "of " + definition;
  run.identity.overrides = overrides;
  run.identity.custom = !overrides.empty();
  return run;
}

std::string limit_of_profile_made_with(const Result& made_with, const Result& run) {
  const fs::path folder = fs::path(testing::TempDir()) / ("work_" + std::to_string(getpid()));
  fs::create_directories(folder / "profile");
  Profile made = profile();
  made.work = work_of(made_with);
  write_file_atomically(folder / "profile" / "profile.json", profile_json(made));
  std::vector<Finding> unread;
  std::string words = limit_of(folder, run, unread);
  fs::remove_all(folder);
  return words;
}

TEST(Limit, is_that_of_a_profile_of_the_same_step_however_many_steps_the_run_has) {
  const Result locked = changed_run(R"({"model":{"dim":8},"train":{"batch":16,"steps":60}})", {});
  EXPECT_EQ(
      limit_of_profile_made_with(locked, changed_run(R"({"eval":{"every":9},"model":{"dim":8},)"
                                                     R"("train":{"batch":16,"steps":3}})",
                                                     {"train.steps=3", "eval.every=9"})),
      limit_words(profile()));
}

TEST(Limit, is_not_that_of_another_step_and_names_the_option_that_changed_it) {
  const Result locked = changed_run(R"({"model":{"dim":8},"train":{"batch":16,"steps":60}})", {});
  const Result other =
      changed_run(R"({"model":{"dim":32,"groups":4},"train":{"batch":16,"steps":3}})",
                  {"model.dim=32", "model.groups=4", "train.steps=3"});
  EXPECT_EQ(limit_of_profile_made_with(other, locked),
            "not known, because the profile in profile/ is of other work: it was made with --set "
            "model.dim=32 --set model.groups=4, and the run without --set");
  EXPECT_EQ(limit_of_profile_made_with(locked, other),
            "not known, because the profile in profile/ is of other work: it was made without "
            "--set, and the run with --set model.dim=32 --set model.groups=4");
}

TEST(Work, at_any_batch_is_that_of_a_run_of_another_batch_and_of_nothing_else) {
  const Result run = changed_run(R"({"model":{"dim":8},"train":{"batch":16,"steps":60}})", {});
  const auto difference = [&](Result other) {
    return difference_words(work_of(at_any_batch(std::move(other))), work_of(at_any_batch(run)));
  };
  const Result larger = changed_run(R"({"model":{"dim":8},"train":{"batch":32,"steps":6}})",
                                    {"train.batch=32", "train.steps=6"});
  EXPECT_NE(difference_words(work_of(larger), work_of(run)), "");
  EXPECT_EQ(difference(larger), "");
  Result other = larger;
  other.identity.ranks = 2;
  other.identity.backend = "gloo";
  EXPECT_EQ(difference(other), "it was made with --ranks 2, and the run without --ranks");
  EXPECT_EQ(difference(changed_run(R"({"model":{"dim":9},"train":{"batch":32}})",
                                   {"train.batch=32", "model.dim=9"})),
            "it was made with --set model.dim=9, and the run without --set");
}

TEST(Limit, is_that_of_a_profile_of_the_same_work_in_the_folder_of_the_run) {
  const fs::path folder = fs::path(testing::TempDir()) / ("limit_" + std::to_string(getpid()));
  fs::create_directories(folder / "profile");
  const fs::path file = folder / "profile" / "profile.json";
  const Result result = test::full_result();
  std::vector<Finding> unread;
  EXPECT_EQ(limit_of(folder, result, unread), "");
  write_file_atomically(file, profile_json(profile()));
  EXPECT_EQ(limit_of(folder, result, unread), limit_words(profile()));
  Profile other = profile();
  other.batch = 32;
  write_file_atomically(file, profile_json(other));
  EXPECT_EQ(limit_of(folder, result, unread),
            "not known, because the profile in profile/ is of other work: its batch is 32, and the "
            "run's 16");
  const auto limit_if = [&](const std::string& field, const std::string& value) {
    Profile changed = profile();
    changed.work.at(field) = value;
    write_file_atomically(file, profile_json(changed));
    return limit_of(folder, result, unread);
  };
  const std::string of_other_work = "not known, because the profile in profile/ is of other work: ";
  EXPECT_EQ(limit_if("identity.threads", "1"),
            of_other_work + "it was made with --threads 1, and the run with --threads 2");
  EXPECT_EQ(
      limit_if("protocol.deterministic", "yes"),
      of_other_work + "it was made with --deterministic, and the run without --deterministic");
  EXPECT_TRUE(limit_if("cell", "another")
                  .starts_with(of_other_work + "its cell is another, and the run's "));
  EXPECT_TRUE(limit_if("identity.hardware.cpu", "another")
                  .starts_with(of_other_work + "its hardware.cpu is another, and the run's "));
  Result of_ranks = result;
  of_ranks.identity.ranks = 2;
  of_ranks.identity.backend = "gloo";
  write_file_atomically(file, profile_json(profile()));
  EXPECT_EQ(limit_of(folder, of_ranks, unread),
            "not known: a profile is of one process, and this run has 2 ranks");
  EXPECT_FALSE(has_profile_of(folder, of_ranks));
  Profile older = profile();
  older.work.clear();
  write_file_atomically(file, profile_json(older));
  EXPECT_EQ(limit_of(folder, result, unread),
            "not known, because the profile in profile/ does not say of which work it is: make it "
            "again");
  std::string changed = profile_json(profile());
  changed.replace(changed.find("aten::addmm"), 11, "aten::admmm");
  write_file_atomically(file, changed);
  EXPECT_THROW((void)limit_of(folder, result, unread), Error);
  write_result(folder / "result.json", result);
  EXPECT_EQ(check_profiles(folder).size(), 1U) << "and check tells of it";
  EXPECT_TRUE(unread.empty());
  fs::remove(file);
  fs::create_symlink("profile.json", file);
  EXPECT_EQ(limit_of(folder, result, unread),
            "not known, because the profile in profile/ cannot be read: Too many levels of "
            "symbolic links");
  ASSERT_EQ(unread.size(), 1U);
  EXPECT_EQ(unread.front().file, file.string());
  EXPECT_EQ(unread.front().code, ExitCode::kPass) << "the report is whole without it";
  fs::remove(file);
  write_file_atomically(file, profile_json(profile()));
  EXPECT_TRUE(check_profiles(folder).empty());
  write_file_atomically(folder / "profile" / "profile.md", "# a page of it\n");
  fs::remove(file);
  ASSERT_EQ(check_profiles(folder).size(), 1U);
  EXPECT_EQ(check_profiles(folder)[0].words, "profile.md is rendered from it and it is not there");
  fs::create_symlink("nowhere", file);
  ASSERT_EQ(check_profiles(folder).size(), 1U);
  EXPECT_EQ(check_profiles(folder)[0].words, "cannot be read: a link to nothing (a file)");
  EXPECT_NE(limit_of(folder, result, unread).find("a link to nothing"), std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace noisemark::reports
