#include "suite/run/single_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "baselines/device_parts.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/modes/mode.h"
#include "reports/result/gate.h"
#include "suite/config/catalogue.h"
#include "suite/config/lock.h"
#include "suite/data/cifar10.h"
#include "suite/io/safetensors.h"
#include "suite/run/passes/failure.h"
#include "suite/run/passes/memory_pass.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/training_pass.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/plan.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"
#include "tests/suite/train/recorded_modes.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::result_in;
using test::run_noisemark;
using test::TemporaryFolder;

/// A user's file under a shipped name, that lasts a second and has a gate that nothing fails.
std::string lax_definition() {
  const auto files = benchmark_files();
  const auto shipped = std::find_if(files.begin(), files.end(),
                                    [](const BenchmarkFile& file) { return file.id == "gmm16"; });
  std::string text(shipped->text);
  const auto set = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  set("steps = 400", "steps = 2");
  set("batch = 16", "batch = 4");
  set("samples = 512", "samples = 8");
  set("max = 2.15", "max = 1e9");
  return text;
}

TEST(TargetLoss, is_of_the_images_that_it_was_found_with) {
  const auto why = [](const std::vector<std::string>& overrides) {
    return why_no_target(load_definition("gmm16", "cpu", overrides));
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({"train.steps=3"}), "");
  EXPECT_EQ(why({"data.name=folder"}),
            "the definition's target loss is of other images than these");
  EXPECT_EQ(why({"data.name=folder", "eval.target_loss=0.2"}), "");
  EXPECT_EQ(why({"eval.target_loss=0"}), "the definition sets no target loss");
}

TEST(Run, of_a_definition_of_the_users_own_is_custom_and_no_gate_of_it_applies) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "mine.toml";
  std::ofstream(file) << lax_definition();
  const fs::path out = folder.path() / "out";
  const test::Finished run = run_noisemark({"run", file.string(), "--device", "cpu", "--out",
                                            out.string(), "--no-memory", "--no-profile"});
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_TRUE(run.out.starts_with("CUSTOM gmm16@cpu")) << run.out;
  const reports::Result result = result_in(out);
  EXPECT_TRUE(result.identity.custom);
  EXPECT_EQ(result.exit.status, "custom");
  const auto gate = std::find_if(result.gates.begin(), result.gates.end(),
                                 [](const auto& gate) { return gate.name == "excess_loss"; });
  ASSERT_NE(gate, result.gates.end());
  EXPECT_EQ(gate->verdict, reports::Verdict::kNotApplied) << gate->words;
  const test::Finished check = run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();
}

std::vector<std::string> names_in(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// A run of gmm16 of which nothing but the training is wanted.
RunOptions training_alone(const std::vector<std::string>& sets) {
  RunOptions options;
  options.id = "gmm16@cpu";
  options.device = "cpu";
  options.memory = options.profile = options.verdict = false;
  options.sets = sets;
  options.argv = {"noisemark", "run", "gmm16@cpu"};
  return options;
}

TEST(Run, writes_the_average_that_was_evaluated_beside_the_weights) {
  const TemporaryFolder folder;
  const std::vector<std::string> sets = {"train.steps=3", "train.batch=4", "eval.samples=8"};
  RunOptions options =
      training_alone(test::with(sets, {"ema.update_every=1", "ema.update_after_step=0"}));
  PlannedRun plan = plan_runs(options).front();
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_single(options, plan, out), ExitCode::kPass);
  const reports::Determinism digests = result_in(out).determinism;

  const Session again = make_session(session_options(options, plan));
  for (int step = 0; step < 3; ++step) (void)again.trainer->step();
  const NamedTensors average = read_safetensors((out / "ema.safetensors").string()).tensors;
  EXPECT_EQ(tensors_sha256(average), tensors_sha256(again.trainer->averaged_weights()));
  EXPECT_EQ(tensors_sha256(again.trainer->averaged_weights()), digests.ema_sha256);
  EXPECT_NE(digests.ema_sha256, digests.weights_sha256);
  EXPECT_EQ(names_in(average),
            names_in(read_safetensors((out / "weights.safetensors").string()).tensors));

  options.init_weights = (out / "ema.safetensors").string();
  ASSERT_EQ(run_single(options, plan, folder.path() / "next"), ExitCode::kPass);
  EXPECT_EQ(result_in(folder.path() / "next").provenance.init_weights_sha256, digests.ema_sha256);

  options.init_weights.clear();
  options.force = true;
  options.sets = test::with(sets, {"ema.kind=none"});
  plan = plan_runs(options).front();
  ASSERT_EQ(run_single(options, plan, out), ExitCode::kPass);
  EXPECT_FALSE(fs::exists(out / "ema.safetensors")) << "it was that of the replaced run";
  EXPECT_EQ(result_in(out).determinism.ema_sha256, "");
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
}

/// The bytes for which the kernel would end a process, taken as the allocator's limit by hand.
TEST(Run, in_less_memory_than_it_needs_says_who_held_what_and_fits_in_what_it_needs) {
  const TemporaryFolder folder;
  const RunOptions options = training_alone({"train.steps=2", "train.batch=4", "eval.samples=8"});
  const PlannedRun plan = plan_runs(options).front();
  const int64_t before = memopt::cpu_allocation_source().live_bytes();
  memopt::HighMark high(memopt::cpu_allocation_source());
  ASSERT_EQ(run_single(options, plan, folder.path() / "free"), ExitCode::kPass);
  const int64_t needed = high.take() - before;

  // The loader may be a batch (4 KiB of images and noise each) further ahead than before.
  memopt::install_tracking_allocator(before + needed + needed / 10);
  EXPECT_EQ(run_single(options, plan, folder.path() / "enough"), ExitCode::kPass);
  memopt::install_tracking_allocator(before + needed / 2);
  EXPECT_THROW((void)run_single(options, plan, folder.path() / "short"), OutOfMemory);
  memopt::install_tracking_allocator();
  const reports::Result result = result_in(folder.path() / "short");
  EXPECT_EQ(result.exit.code, 71);
  EXPECT_EQ(result.exit.status, "out of memory");
  ASSERT_FALSE(result.exit.reasons.empty());
  for (const char* words : {"can't allocate memory", "there is room for", "weights"}) {
    EXPECT_NE(result.exit.reasons.front().find(words), std::string::npos)
        << result.exit.reasons.front();
  }
}

TEST(LargestBatch, is_not_looked_for_where_a_recordings_memory_would_be_left_out) {
  RunSpec spec;
  spec.baseline = resolve_baseline("fused+cuda-graph");
  EXPECT_THROW(require_countable_batch(spec), Error);
  spec.baseline = resolve_baseline("fused+channels-last");
  EXPECT_NO_THROW(require_countable_batch(spec));
}

TEST(Run, of_a_shipped_definition_that_is_not_the_locked_one_is_custom_and_says_so) {
  const TemporaryFolder folder;
  const RunOptions options = training_alone({});
  PlannedRun plan = plan_runs(options).front();
  // The plan is that of a program that was built from an edited file.
  plan.spec.definition.train.steps = 2;
  plan.spec.definition.train.batch = 4;
  plan.spec.definition.eval.samples = 8;
  hold_to_lock(shipped_lock(), plan.spec.definition);
  EXPECT_EQ(run_single(options, plan, folder.path()), ExitCode::kPass);
  const reports::Result result = result_in(folder.path());
  EXPECT_TRUE(result.identity.custom);
  EXPECT_TRUE(result.identity.overrides.empty());
  EXPECT_EQ(result.exit.status, "custom");
  EXPECT_EQ(result.exit.reasons,
            std::vector<std::string>{"not the locked definition of gmm16@cpu"});
  const auto gate = std::find_if(result.gates.begin(), result.gates.end(),
                                 [](const auto& gate) { return gate.name == "excess_loss"; });
  ASSERT_NE(gate, result.gates.end());
  EXPECT_EQ(gate->verdict, reports::Verdict::kNotApplied) << gate->words;
  EXPECT_NE(gate->words.find("not the locked one"), std::string::npos) << gate->words;
  const test::Finished check = run_noisemark({"check", folder.path().string()});
  EXPECT_EQ(check.code, 0) << check.both();
}

TEST(Run, keeps_the_watched_step_for_the_memory_viewer_when_it_is_asked_to) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto arguments = test::with(test::short_run(out, 2), {"--no-profile"});
  const test::Finished run = run_noisemark(test::with(arguments, {"--memory-snapshot"}));
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_GT(fs::file_size(out / "memory_snapshot.pickle"), 10'000U);
  const auto& artifacts = result_in(out).artifacts;
  EXPECT_EQ(std::count_if(artifacts.begin(), artifacts.end(),
                          [](const auto& one) { return one.path == "memory_snapshot.pickle"; }),
            1);
  const test::Finished check = run_noisemark({"check", out.string()});
  EXPECT_EQ(check.code, 0) << check.both();
  const test::Finished refused =
      run_noisemark(test::with(arguments, {"--force", "--no-memory", "--memory-snapshot"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.both().find("--memory-snapshot: "), std::string::npos) << refused.both();
}

TEST(Run, leaves_out_the_passes_whose_steps_are_zero_and_says_why) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const test::Finished run =
      run_noisemark(test::with(test::short_run(out, 2), {"--set", "measure.memory_steps=0", "--set",
                                                         "measure.profile_steps=0"}));
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::Result result = result_in(out);
  EXPECT_FALSE(result.memory.measured);
  EXPECT_FALSE(result.utilization.measured);
  EXPECT_NE(result.memory.missing_reason.find("measure.memory_steps=0"), std::string::npos);
  EXPECT_NE(result.utilization.missing_reason.find("measure.profile_steps=0"), std::string::npos);
  EXPECT_EQ(result.memory.training.missing_reason,
            "peaks: a CPU's allocator keeps none; recording: no step was recorded");
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
}

RunSpec spec_of(const std::string& baseline, const std::string& precision, at::Device device) {
  RunSpec spec;
  spec.baseline = resolve_baseline(baseline);
  spec.precision.name = precision;
  spec.device = device;
  return spec;
}

/// Returns the refusal in the program's words; empty: it is taken.
std::string refused(const RunSpec& spec) {
  try {
    require_kernels(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(Plan, refuses_fused_kernels_where_there_are_none) {
  const at::Device gpu(at::kCUDA, 0);
  const bool built_for_gpus = baselines::find_norm_device(gpu) != nullptr;
  for (const char* precision : {"fp32", "bf16"}) {
    EXPECT_EQ(refused(spec_of("fused", precision, at::kCPU)), "");
    EXPECT_EQ(refused(spec_of("plain", precision, gpu)), "");
    EXPECT_EQ(refused(spec_of("fused+channels-last", precision, gpu)).empty(), built_for_gpus);
  }
  EXPECT_EQ(
      refused(spec_of("fused+channels-last", "fp16", gpu)),
      "--baseline: fused+channels-last in fp16 on cuda:0 (fused takes the CPU or CUDA, in fp32, "
      "tf32, bf16)");
  EXPECT_EQ(refused(spec_of("plain", "fp64", at::kCPU)), "");
  EXPECT_NE(refused(spec_of("fused", "fp64", at::kCPU)), "");
}

TEST(Plan, refuses_on_a_cpu_what_only_a_gpu_does) {
  for (const char* baseline : {"cuda-graph", "autotuned", "channels-last+cuda-graph"}) {
    try {
      require_kernels(spec_of(baseline, "fp32", at::kCPU));
      FAIL() << baseline;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find("CUDA"), std::string::npos) << error.what();
    }
  }
}

TEST(Plan, takes_a_recorded_step_under_the_modes_that_are_tested_so_and_under_no_other) {
  const std::vector<std::string> modes = test::recorded_modes();
  const std::set<std::string_view> tested(modes.begin(), modes.end());
  EXPECT_TRUE(tested.contains("none"));
  EXPECT_LT(tested.size(), memopt::modes().size()) << "each mode could be repeated";
  for (const memopt::ModeEntry& entry : memopt::modes()) {
    for (const char* baseline : {"cuda-graph", "channels-last+cuda-graph"}) {
      RunSpec recorded = spec_of(baseline, "fp32", at::Device(at::kCUDA, 0));
      recorded.mode = resolve_mode(std::string(entry.name));
      const std::string words = refused(recorded);
      EXPECT_EQ(words.empty(), tested.contains(entry.name)) << entry.name << ": " << words;
      if (words.empty()) continue;
      const std::string why = memopt::why_host_is_needed(entry.name);
      EXPECT_NE(words.find(std::string("under mode ").append(entry.name)), std::string::npos)
          << words;
      EXPECT_NE(words.find(why), std::string::npos) << words;
    }
  }
}

TEST(Plan, refuses_a_recorded_step_whose_mode_needs_the_host_and_a_search_that_must_repeat) {
  const at::Device gpu(at::kCUDA, 0);
  RunSpec recorded = spec_of("cuda-graph", "fp32", gpu);
  for (const std::string& mode : test::composed_recorded_modes()) {
    recorded.mode = resolve_mode(mode);
    EXPECT_NO_THROW(require_kernels(recorded)) << mode;
  }
  for (const char* mode : {"offload", "gist", "q4", "budget:1GiB"}) {
    recorded.mode = resolve_mode(mode);
    try {
      require_kernels(recorded);
      FAIL() << mode;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      const std::string words = error.what();
      EXPECT_NE(words.find(std::string("mode ") + mode), std::string::npos) << words;
      EXPECT_NE(words.find("host"), std::string::npos) << words;
    }
  }
  RunSpec searched = spec_of("autotuned", "fp32", gpu);
  EXPECT_NO_THROW(require_kernels(searched));
  searched.deterministic = true;
  EXPECT_THROW(require_kernels(searched), Error);
}

TEST(Run, with_fused_kernels_in_fp64_is_refused) {
  const TemporaryFolder folder;
  const test::Finished run = run_noisemark(test::with(
      test::timed_only(folder.path() / "out"), {"--baseline", "fused", "--precision", "fp64"}));
  EXPECT_EQ(run.code, 2) << run.both();
  EXPECT_NE(run.err.find("fp32, tf32, bf16"), std::string::npos) << run.err;
}

TEST(TimeToQuality, counts_from_the_opening_of_the_data) {
  RunOptions options;
  options.id = "gmm16@cpu";
  options.device = "cpu";
  options.sets = {"train.steps=1", "train.batch=4", "eval.samples=8", "eval.every=0"};
  const PlannedRun plan = plan_runs(options).front();
  TrainingPassOptions pass;
  pass.session = session_options(options, plan);
  EXPECT_GT(pass.session.data_open_s, 0);
  pass.session.data_open_s = 1000;
  Progress line("", 1, 4);
  const InterruptGuard interrupt;
  const TrainingOutcome outcome = training_pass(pass, {line, interrupt});
  ASSERT_EQ(outcome.quality.evaluations.size(), 2U);
  EXPECT_GE(outcome.quality.evaluations.front().elapsed_s, 1000);
  EXPECT_GT(outcome.quality.evaluations.back().elapsed_s,
            outcome.quality.evaluations.front().elapsed_s);
}

/// Six files of eight black images.
void write_pictures(const fs::path& folder) {
  for (const CifarFile& file : kCifarFiles) {
    std::ofstream(folder / file.name, std::ios::binary) << std::string(8 * kCifarRecordBytes, '\0');
  }
}

TEST(Run, names_the_folder_of_the_pictures_in_the_command_that_repeats_it) {
  const TemporaryFolder folder;
  write_pictures(folder.path());
  const auto repeat = [&](const std::string& id, const std::vector<std::string>& more) {
    const fs::path out = folder.path() / ("out-" + id + std::to_string(more.size()));
    std::vector<std::string> arguments{
        "run",           id,           "--set",          "train.steps=1", "--set",
        "train.batch=4", "--set",      "eval.samples=8", "--set",         "eval.every=0",
        "--set",         "model.dim=8"};
    arguments = test::with(
        arguments, {"--device", "cpu", "--no-memory", "--no-profile", "--out", out.string()});
    const test::Finished run =
        run_noisemark(test::with(arguments, more), {{"NOISEMARK_DATA", folder.path().string()}});
    EXPECT_EQ(run.code, 0) << run.both();
    return result_in(out).repeat_command;
  };
  const std::string named = " --data " + folder.path().string() + " --threads 1";
  EXPECT_TRUE(repeat("lucid-cifar10@cpu", {}).ends_with(named));
  const std::string given = repeat("lucid-cifar10@cpu", {"--data", folder.path().string()});
  EXPECT_EQ(given.find("--data"), given.rfind("--data")) << given;
  EXPECT_EQ(repeat("gmm16@cpu", {}).find("--data"), std::string::npos);
}

TEST(RepeatCommand, begins_anew_in_a_folder_of_its_own) {
  EXPECT_EQ(repeat_command({"/opt/noisemark", "run", "gmm16", "--out", "here", "--seed", "3",
                            "--checkpoint-every", "5", "--resume"}),
            "noisemark run gmm16 --seed 3 --checkpoint-every 5");
  EXPECT_EQ(repeat_command({"noisemark", "run", "gmm16", "--force", "--out=here"}),
            "noisemark run gmm16");
}

TEST(RepeatCommand, names_the_threads_that_came_from_a_variable_or_the_machine) {
  EXPECT_EQ(repeat_command({"noisemark", "run", "gmm16"}, "", 3),
            "noisemark run gmm16 --threads 3");
  for (const char* given : {"--threads 3", "--threads=3"}) {
    const std::string word = given;
    const size_t space = word.find(' ');
    std::vector<std::string> argv{"noisemark", "run", "gmm16", word.substr(0, space)};
    if (space != std::string::npos) argv.push_back(word.substr(space + 1));
    EXPECT_EQ(repeat_command(argv, "", 3), "noisemark run gmm16 " + word);
  }
  EXPECT_EQ(repeat_command({"noisemark", "run", "gmm16", "--data", "\x1b[31m\n'\\"}, "", 3),
            "noisemark run gmm16 --data $'\\x1b[31m\\x0a\\'\\\\' --threads 3");
  EXPECT_EQ(repeat_command({"noisemark", "run", "gmm16", "--loader-threads", "2"}, "", 3),
            "noisemark run gmm16 --loader-threads 2 --threads 3");
}

TEST(RunPasses, end_with_the_profile_which_slows_what_a_gpu_does_after_it) {
  ASSERT_FALSE(run_passes().empty());
  EXPECT_EQ(run_passes().back().event, "profile_pass");
}

TEST(RunPasses, have_events_of_different_names_and_can_be_asked_and_made) {
  std::set<std::string_view> events;
  for (const RunPass& pass : run_passes()) {
    EXPECT_NE(pass.applies, nullptr) << pass.event;
    EXPECT_NE(pass.make, nullptr) << pass.event;
    if (pass.event.empty()) continue;
    EXPECT_TRUE(events.insert(pass.event).second) << pass.event;
  }
}

}  // namespace
}  // namespace noisemark::suite
