#include "reports/render/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "reports/base/markdown.h"
#include "reports/base/sha256.h"
#include "reports/render/report_sections.h"
#include "reports/render/table.h"
#include "reports/result/environment_changes.h"
#include "reports/result/gate.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using test::full_result;
using test::minimal_result;

std::string rendered(const Result& result) {
  return render_report(result, sha256_of("result"), {});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(finished_page(part)) != std::string::npos;
}

TEST(Report, begins_with_its_mark_and_the_verdict) {
  const std::string text = rendered(full_result());
  const auto mark = read_mark(text);
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->run_id, full_result().run_id);
  EXPECT_EQ(mark->result_sha256, sha256_of("result"));
  EXPECT_TRUE(has(text, "\n# PASS: ho-cifar10@cpu\n"));
}

/// All up to the first part that is folded.
std::string first_screen(const std::string& report) {
  return report.substr(0, report.find("<details>"));
}

TEST(Report, says_in_its_first_screen_what_a_person_must_know) {
  const Insight insight{"compute, which bounds <b>", "images/s 16.84, was 16.00 (5.3 % more)"};
  const std::string screen =
      first_screen(render_report(full_result(), sha256_of("result"), {}, insight));
  for (const char* part :
       {"# PASS: ", "**16.84 images/s**", "- **Speed:** a step of 16 images takes ",
        "- **Memory:** the largest owner at the peak, in ", "- **Quality:** after ",
        "The exit code is 0", "- **What limits it:** compute, which bounds \\<b>.\n",
        "- **Since an earlier run:** images/s 16.84, was 16.00 (5.3 % more).\n"}) {
    EXPECT_TRUE(has(screen, part)) << part << " in\n" << screen;
  }
  EXPECT_LE(std::count(screen.begin(), screen.end(), '\n'), 24) << "a screen has about 40 lines";
}

TEST(Report, says_in_its_first_screen_how_far_the_loss_is_from_the_best_where_that_is_known) {
  const char* words = ", 86.2 % above the least that any model can reach";
  EXPECT_TRUE(has(first_screen(rendered(full_result())), words))
      << first_screen(rendered(full_result()));
  Result result = full_result();
  result.quality.evaluations.back().excess_frac = 30.7;
  EXPECT_TRUE(has(first_screen(rendered(result)), ", 31.7 times the least that any model"));
  result.quality.evaluations.back().excess_frac.reset();
  result.quality.target_loss.reset();
  EXPECT_FALSE(has(first_screen(rendered(result)), words));
}

TEST(Report, without_a_target_sends_to_quality_only_who_has_a_mode_that_it_judges) {
  Result result = full_result();
  result.quality.target_loss.reset();
  const char* fid = "no target is set. `noisemark fid` judges drawn images";
  const char* quality = "`noisemark quality` judges what the mode costs over several seeds";
  const std::string of_none = first_screen(rendered(result));
  EXPECT_TRUE(has(of_none, fid)) << of_none;
  EXPECT_FALSE(has(of_none, quality)) << "it refuses runs of `none` alone: " << of_none;
  result.identity.mode = "echo";
  const std::string of_echo = first_screen(rendered(result));
  EXPECT_TRUE(has(of_echo, fid) && has(of_echo, quality)) << of_echo;
}

TEST(Report, warns_of_an_overhead_whose_interval_tells_little) {
  Result result = test::result_under_echo();
  result.memory_mode.overhead.frac = 0.02;
  result.memory_mode.overhead.ci95 = Interval{-0.04, 0.05};
  const char* words = "The interval is so wide that this tells little";
  EXPECT_FALSE(has(rendered(result), words));
  result.memory_mode.overhead.ci95 = Interval{-0.04, 0.07};
  EXPECT_TRUE(has(rendered(result), words));
  result.memory_mode.overhead.frac = 0.169;
  result.memory_mode.overhead.ci95 = Interval{0.132, 0.258};
  EXPECT_FALSE(has(rendered(result), words)) << "it proves that the mode costs time";
}

TEST(Report, names_the_commands_that_find_what_it_does_not_know) {
  Result result = full_result();
  result.identity.mode = "echo";
  const std::string screen = first_screen(rendered(result));
  EXPECT_TRUE(has(screen,
                  "not known; `noisemark profile ho-cifar10@cpu --mode echo --device cpu "
                  "--threads 2 --data DATA --out DIR/profile` finds it"))
      << screen;
  EXPECT_TRUE(
      has(screen,
          "`noisemark report DIR --base BASE`, with BASE the folder of a run of the same mode and "
          "baseline, made by other code, says here what changed."))
      << screen;
  result.identity.framework = "diffusers";
  EXPECT_TRUE(has(first_screen(rendered(result)), "no command can profile this run"));
  EXPECT_FALSE(has(first_screen(rendered(minimal_result())), "What limits it"))
      << "nothing was timed";
}

TEST(Report, names_a_profile_of_the_very_work_or_says_why_there_is_none) {
  const auto limit_of = [](const Result& result) {
    const std::string screen = first_screen(rendered(result));
    const size_t begin = screen.find("**What limits it:**");
    return screen.substr(begin, screen.find('\n', begin) - begin);
  };
  Result result = full_result();
  result.protocol.deterministic = true;
  result.protocol.loader_threads = 3;
  result.identity.custom = true;
  result.identity.overrides = {"data.name='it s'"};
  EXPECT_TRUE(has(limit_of(result),
                  "--threads 2 --loader-threads 3 --deterministic --set 'data.name='\\''it "
                  "s'\\''' --data DATA "))
      << limit_of(result);
  result.argv = {"noisemark", "run", "--deterministic", "my nets/one.toml@cpu"};
  EXPECT_TRUE(has(limit_of(result), "`noisemark profile 'my nets/one.toml@cpu' --device"))
      << "only the file has its definition: " << limit_of(result);
  result.identity.overrides.clear();
  EXPECT_TRUE(has(limit_of(result), "`noisemark profile 'my nets/one.toml@cpu' --device"));
  result.argv.pop_back();
  EXPECT_TRUE(has(limit_of(result), "no command can profile this run")) << limit_of(result);
  result.identity.baseline = "fused+cuda-graph";
  EXPECT_TRUE(has(limit_of(result), "under the baseline fused+cuda-graph the device repeats"))
      << limit_of(result);
  result.identity.ranks = 2;
  EXPECT_TRUE(
      has(limit_of(result), "not known: a profile is of one process, and this run has 2 ranks."))
      << limit_of(result);
}

TEST(Report, says_in_its_first_paragraph_how_many_ranks_trained) {
  Result result = full_result();
  EXPECT_TRUE(has(first_screen(rendered(result)), ", on cpu with 2 threads, it trained at "));
  result.identity.ranks = 2;
  EXPECT_TRUE(has(first_screen(rendered(result)),
                  ", on cpu by 2 ranks, each with 2 threads, it trained at "));
}

TEST(Report, folds_all_that_follows_and_closes_every_fold) {
  const std::string text = rendered(full_result());
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("\n<details><summary>"), 6U);
  EXPECT_EQ(count("\n</details>\n"), 6U);
  EXPECT_LT(text.find("<details>"), text.find("\n## "));
  EXPECT_TRUE(text.ends_with("</details>\n" + std::string(kGlossaryLine)));
}

TEST(Report, never_shows_a_rate_without_saying_that_the_run_was_not_steady) {
  Result result = full_result();
  EXPECT_FALSE(has(rendered(result), "not steady"));
  result.protocol.warmup_stable = false;
  const std::string report = rendered(result);
  EXPECT_TRUE(has(report, "images/s** (not steady: no end of the warm-up was found in 64 steps, "))
      << report;
  EXPECT_TRUE(has(report, "**no end of the warm-up was found**")) << report;
  EXPECT_FALSE(has(report, "are warm-up and left out")) << report;
  const std::string table = side_by_side({{"one", result}}, Verdicts::kShown);
  EXPECT_TRUE(has(table, "] (not steady) |")) << table;
}

TEST(Report, tells_the_time_of_an_average_that_few_steps_update) {
  Result result = full_result();
  const std::string words = "EMA is not due in every step";
  EXPECT_FALSE(has(rendered(result), words));
  for (size_t i = 0; i < result.samples.ema_s.size(); ++i) {
    result.samples.ema_s[i] = i % 10 == 0 ? 0.010 : 0.0;
  }
  EXPECT_TRUE(has(rendered(result), words + ": spread over all of them"));
}

TEST(Report, shows_what_was_left_out_of_a_folder_of_pictures_as_no_file) {
  Result result = full_result();
  const std::string digest(64, 'a');
  result.provenance.data.push_back({"1 entry is not used: a.txt", digest, 0, false, 0});
  const std::string text = rendered(result);
  EXPECT_TRUE(
      has(text, "\n\n1 entry is not used: a.txt (their list has SHA-256 `" + digest + "`).\n"))
      << text;
  EXPECT_FALSE(has(text, "| `1 entry is not used")) << text;
}

TEST(Report, names_every_failed_gate_before_anything_else) {
  Result result = full_result();
  result.memory.leaked_bytes = 4096;
  result.gates = evaluate_gates(result, {}, {false, "loss at step 3"});
  result.exit = exit_of(result.gates, false);
  const std::string text = rendered(result);
  EXPECT_TRUE(has(text, "# FAIL: ho-cifar10@cpu"));
  EXPECT_LT(text.find("the first was loss at step 3"), text.find("## What ran"));
  EXPECT_LT(text.find(finished_page("4,096 B more are live")), text.find("## What ran"));
}

TEST(Report, never_says_pass_of_a_run_that_no_gate_of_the_definition_judged) {
  Result peer = full_result();
  peer.exit = {0, "custom", {}};
  EXPECT_TRUE(
      has(rendered(peer), "\n# CUSTOM (the benchmark's own gates do not apply): ho-cifar10"));
}

TEST(Report, says_what_found_no_room_in_host_memory) {
  Result result = test::result_under_echo();
  EXPECT_FALSE(has(rendered(result), "Host memory"));
  HostMemory& host = result.memory_mode.host_memory;
  host.capacity_bytes = int64_t{64} << 20;
  EXPECT_TRUE(
      has(rendered(result), "\nHost memory: 64.00 MiB; all that was to go there found room.\n"));
  host.refused_tensors = 12;
  host.refused_bytes = int64_t{3} << 20;
  EXPECT_TRUE(has(rendered(result),
                  "\nHost memory: 64.00 MiB; 12 tensors (3.00 MiB) found no room there and stayed "
                  "on the device.\n"));
}

TEST(Report, says_how_a_run_ended_that_did_not_finish) {
  Result result = full_result();
  result.exit = {130, "interrupted", {"stopped by the user after step 12"}};
  EXPECT_TRUE(has(rendered(result), "# INTERRUPTED: "));
  EXPECT_TRUE(has(rendered(result), "\n\nThe run was interrupted after training step "));
  EXPECT_TRUE(has(rendered(result), "- stopped by the user after step 12\n"));
  result.protocol.steps = result.quality.evaluations.back().step + 1;
  EXPECT_TRUE(has(rendered(result),
                  fmt::format("** after step {}", result.quality.evaluations.back().step)));
}

TEST(Report, says_of_a_profiler_that_cost_nothing_that_its_steps_were_faster) {
  Result result = full_result();
  result.utilization.profiler_overhead_frac = -0.015;
  EXPECT_TRUE(has(rendered(result), "which was 1.5 % faster than "));
  result.utilization.profiler_overhead_frac = 0.015;
  EXPECT_TRUE(has(rendered(result), "which was 1.5 % slower than "));
}

TEST(Report, tells_how_many_steps_loss_scaling_skipped) {
  Result result = full_result();
  EXPECT_FALSE(has(rendered(result), "loss scaling"));
  Metric skipped;
  skipped.name = "skipped_steps";
  skipped.value = 2.0;
  result.metrics.push_back(skipped);
  EXPECT_TRUE(has(rendered(result), "| skipped by loss scaling | 2 steps "));
}

TEST(Report, says_where_the_program_is_that_repeats_the_run) {
  EXPECT_TRUE(has(rendered(full_result()), "\n`noisemark` is in `bin/` of the build folder"));
}

TEST(Report, says_where_a_definition_without_overrides_is_not_the_locked_one) {
  Result result = full_result();
  result.identity.custom = true;
  result.identity.overrides.clear();
  EXPECT_TRUE(has(rendered(result), "| not the locked definition "));
}

TEST(Report, names_the_loader_threads_of_a_run_that_chose_them) {
  Result result = full_result();
  EXPECT_FALSE(has(rendered(result), "| loader "));
  result.protocol.loader_threads = 3;
  EXPECT_TRUE(has(rendered(result), "| loader        | 3 threads "));
}

TEST(Report, says_whether_the_machine_changed_while_it_ran) {
  Result result = full_result();
  EXPECT_FALSE(has(rendered(result), "hanged while it ran"));
  result.environment[std::string(kChangedWhileItRan)] = "nothing";
  EXPECT_TRUE(has(rendered(result), "read again at the end; none had changed."));
  result.environment[std::string(kChangedWhileItRan)] = "cpu_governor, gpu_clock_reasons";
  EXPECT_TRUE(has(rendered(result), "**Changed while it ran: cpu_governor, gpu_clock_reasons.**"));
}

TEST(Report, shows_what_a_gpu_did_with_the_window_and_the_source_of_every_figure) {
  EXPECT_FALSE(has(rendered(full_result()), "## GPU"));
  const std::string text = rendered(test::result_on_a_gpu());
  EXPECT_TRUE(has(text, "\n## GPU\n")) << text;
  EXPECT_TRUE(has(text, "| sm active        |         72.0 % |            90.0 % |")) << text;
  EXPECT_TRUE(has(text,
                  "| power            |        612.5 W |                   |  598 W | "
                  "640.25 W | 5.50 s | NVML, 56 readings"))
      << text;
  EXPECT_TRUE(has(text, "| fp16 active      |              \u2013 |")) << text;
  EXPECT_TRUE(has(text, "\nNo fp16 active: not supported by this GPU or driver.\n")) << text;
  EXPECT_TRUE(has(text, "**Clocks were held down by:** power cap (12 of 56 readings).\n")) << text;
  EXPECT_TRUE(has(text, "The figures were read beside 6 training steps (96 images, 5.50 s)"))
      << text;
}

TEST(Report, names_what_is_missing_of_a_gpu_once_for_each_reason) {
  Result result = test::result_on_a_gpu();
  auto& columns = result.utilization.device_use.columns;
  for (const char* name : {"sm_active_sampled", "fp32_active_sampled"}) {
    DeviceColumn column;
    column.name = name;
    column.unit = "frac";
    column.source = "CUPTI PM sampling";
    column.missing_reason = "no permission";
    columns.push_back(column);
  }
  const std::string text = rendered(result);
  EXPECT_TRUE(has(text, "\nNo sm active sampled, fp32 active sampled: no permission.\n")) << text;
  EXPECT_TRUE(has(text, "\nNo fp16 active: not supported by this GPU or driver.\n")) << text;
  EXPECT_FALSE(has(text, "Sampled figures come from")) << text;
  columns.back().value = 0.25;
  columns.back().missing_reason.clear();
  EXPECT_TRUE(has(rendered(result), "Sampled figures come from windows of their own"));
}

TEST(Report, says_whence_the_kernels_time_is_that_shares_are_given_over) {
  Result result = test::result_on_a_gpu();
  EXPECT_TRUE(has(rendered(result), "A share while kernels ran is that over wall time"));
  for (auto& column : result.utilization.device_use.columns) column.over_kernels.reset();
  EXPECT_FALSE(has(rendered(result), "A share while kernels ran"));
}

TEST(Report, says_why_nothing_was_read_of_a_gpu) {
  Result result = test::result_on_a_gpu();
  result.utilization.device_use = {};
  result.utilization.device_use.missing_reason = "the profile pass did not end";
  EXPECT_TRUE(
      has(rendered(result), "## GPU\n\nThis was not measured: the profile pass did not end.\n"));
}

TEST(Report, shows_what_the_allocator_of_a_gpu_holds_beyond_tensors) {
  EXPECT_FALSE(has(rendered(full_result()), "fragmentation"));
  Result result = test::result_on_a_gpu();
  EXPECT_TRUE(has(rendered(result), "| fragmentation       |  120.00 |")) << rendered(result);
  EXPECT_TRUE(has(rendered(result), "| outside             |  500.00 |"));
  result.memory.device_memory = {};
  result.memory.device_memory.missing_reason = "its allocator counts nothing";
  EXPECT_TRUE(
      has(rendered(result),
          "\n**The GPU's allocator:** This was not measured: its allocator counts nothing.\n"));
}

TEST(Report, says_whether_the_limit_of_scratch_memory_took_effect) {
  Result result = test::result_on_a_gpu();
  ConvolutionWorkspace& scratch = result.memory.convolution_workspace;
  EXPECT_TRUE(has(rendered(result),
                  "**Scratch memory of convolutions:** one call of cuDNN took at most 48.00 MiB"));
  EXPECT_TRUE(has(rendered(result), "The limit of 64.00 MiB (CUDNN_CONV_WSCAP_DBG) was kept to."));
  scratch.limit_bytes = int64_t{8} << 20;
  EXPECT_TRUE(
      has(rendered(result),
          "**The limit of 8.00 MiB (CUDNN_CONV_WSCAP_DBG) had no effect: a convolution took "
          "more.**"));
  scratch = {{}, {}, int64_t{8} << 20, "left out"};
  EXPECT_TRUE(
      has(rendered(result),
          "Whether the limit of 8.00 MiB (CUDNN_CONV_WSCAP_DBG) took effect is not known."));
  scratch = {};
  EXPECT_FALSE(has(rendered(result), "Scratch memory")) << "of a result from before";
}

TEST(Report, shows_which_kernels_computed_a_convolution) {
  Result result = test::result_on_a_gpu();
  const std::string text = rendered(result);
  EXPECT_TRUE(
      has(text, "| 16x128x32x32 | 128x128x3x3 | 1x1    | `sm90_xmma_wgrad_implicit_gemm_inde ... "))
      << text;
  EXPECT_TRUE(has(text, "`cutlass_tensorop_s1688fprop_optimi ... _16x4_nhwc_align4`")) << text;
  EXPECT_TRUE(has(text, "by falling time, 3 of 3. `result.json` has all of them")) << text;
  result.utilization.convolutions.kernels.resize(40, result.utilization.convolutions.kernels[2]);
  EXPECT_TRUE(has(rendered(result), "by falling time, 15 of 40. "));
  EXPECT_TRUE(has(rendered(full_result()),
                  "\n**Kernels of convolutions:** This was not measured: the CPU's "
                  "library does not name them.\n"));
  result.utilization.convolutions = {};
  EXPECT_FALSE(has(rendered(result), "ernels of convolutions")) << "of a result from before";
}

TEST(Report, says_that_bytes_by_owner_are_not_of_the_steps_that_a_device_repeated) {
  Result result = test::result_on_a_gpu();
  EXPECT_TRUE(has(rendered(result), "had at most 1.46 GiB allocated and 1.66 GiB reserved.\n"))
      << rendered(result);
  EXPECT_FALSE(has(rendered(result), "repeated by the device"));
  EXPECT_FALSE(has(rendered(full_result()), "In the training pass, evaluations included"));
  result.identity.baseline = "cuda-graph";
  result.memory.training.repeated_steps = 8;
  result.memory.training.recording_bytes = int64_t{600} << 20;
  const std::string words = fmt::format(
      "\nBytes by owner are of steps that the host issued. 8 of the {} steps of the training pass "
      "were repeated by the device from a recording, which has memory of its own: 600.00 MiB.\n",
      result.protocol.steps);
  EXPECT_TRUE(has(rendered(result), words)) << rendered(result);
  result.memory.measured = false;
  result.memory.missing_reason = "the memory pass was not asked for";
  EXPECT_TRUE(has(rendered(result), words)) << rendered(result);
}

TEST(Report, says_what_temporary_means) {
  EXPECT_TRUE(
      has(rendered(full_result()), "Temporary is what an operator made in the current phase"));
}

TEST(Report, gives_the_reason_of_everything_that_is_missing) {
  const std::string text = rendered(minimal_result());
  EXPECT_TRUE(has(text, "This was not measured: the memory pass was not asked for."));
  EXPECT_TRUE(has(text, "This was not measured: the profile pass was not asked for."));
  EXPECT_TRUE(has(text, "There is no time to quality: the definition sets no target."));
}

TEST(Report, has_a_time_stamp_only_in_its_provenance) {
  const std::string text = rendered(full_result());
  const size_t stamp = text.find("2026-01-02T03:04:05Z");
  EXPECT_GT(stamp, text.find("## Provenance"));
  EXPECT_EQ(text.find("2026-01-02", stamp + 1), std::string::npos);
}

TEST(Report, two_runs_of_the_same_thing_differ_only_at_the_ends) {
  Result other = full_result();
  other.run_id = "fedcba9876543210";
  other.created_utc = "2027-01-01T00:00:00Z";
  const std::string a = rendered(full_result());
  const std::string b = rendered(other);
  const auto middle = [](const std::string& text) {
    const size_t begin = text.find('\n');
    return text.substr(begin, text.find("| run ") - begin);
  };
  EXPECT_NE(a, b);
  EXPECT_EQ(middle(a), middle(b));
}

TEST(Report, shows_samples_with_all_that_decides_what_they_are) {
  Result result = full_result();
  EXPECT_FALSE(has(rendered(result), "## Samples"));
  result.definition =
      R"({"train":{"steps":600},"diffusion":{"timesteps":1000},"sample":{"sampler":"ddim",)"
      R"("count":64,"ddim_steps":50,"ddim_eta":0.5}})";
  result.artifacts.push_back({"samples/sheet.png", sha256_of("sheet")});
  result.quality.weights = "ema";
  result.seeds.base = 7;
  const std::string text = rendered(result);
  EXPECT_TRUE(has(text, "\n![the first of 64 samples](samples/sheet.png)\n")) << text;
  EXPECT_TRUE(has(text, "| ddim, 50 steps, eta 0.5 ")) << text;
  EXPECT_TRUE(has(
      text, "| averaged (EMA), after step 600, SHA-256 `" + result.determinism.ema_sha256 + "` |"))
      << text;
  EXPECT_TRUE(has(text, "| drawn, seed 7 ")) << text;
  EXPECT_TRUE(has(
      text,
      "`noisemark quality` judges such distances over seeds, where they are kept in `distances/`"))
      << text;
  result.definition =
      R"({"diffusion":{"timesteps":1000},"sample":{"sampler":"ddpm","ddpm_variance":"large"}})";
  EXPECT_TRUE(has(rendered(result), "| ddpm, 1000 steps, variance large "));
}

TEST(Report, shows_at_most_twenty_evaluations_with_the_first_and_the_last) {
  Result result = full_result();
  const Evaluation one = result.quality.evaluations.back();
  result.quality.evaluations.clear();
  for (int64_t i = 0; i < 95; ++i) {
    result.quality.evaluations.push_back(one);
    result.quality.evaluations.back().step = 7000 + i;
  }
  const std::string text = rendered(result);
  EXPECT_TRUE(has(text, "| 7,000 |"));
  EXPECT_TRUE(has(text, "| 7,094 |"));
  EXPECT_TRUE(has(text, "20 of 95 evaluations"));
}

TEST(Report, calls_a_loss_before_training_that_of_the_start_and_no_result) {
  Result result = full_result();
  result.quality.evaluations.resize(1);
  const std::string text = rendered(result);
  EXPECT_TRUE(has(text, "the validation loss was 1.01 at the start.")) << text.substr(0, 400);
  EXPECT_FALSE(has(text, "the validation loss fell"));
}

TEST(Report, says_beside_which_steps_the_profile_was_slow) {
  Result result = full_result();
  EXPECT_TRUE(has(rendered(result), " slower than training."));
  result.memory.training.repeated_steps = 40;
  EXPECT_TRUE(has(rendered(result), " slower than steps that the host issues."));
}

TEST(Report, shows_at_most_fifteen_operators) {
  Result result = full_result();
  result.utilization.operators.assign(40, {"aten::op", 1, 0.01, 0.01, 0});
  EXPECT_TRUE(has(rendered(result), "15 of 40 operators"));
}

TEST(Mark, comes_back_and_refuses_what_is_malformed) {
  const Mark mark{"0123456789abcdef", sha256_of("x")};
  const auto back = read_mark(mark_line(mark) + "\nrest");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->run_id, mark.run_id);
  EXPECT_EQ(back->result_sha256, mark.result_sha256);
  EXPECT_FALSE(read_mark("# Report\n" + mark_line(mark)));
  EXPECT_EQ(mark_line({"a -->\n# PASS", "b"}).find("-->"),
            mark_line({"a -->\n# PASS", "b"}).size() - 3)
      << "an id that ends the comment forges a heading";
  EXPECT_FALSE(read_mark("<!-- noisemark run_id=1 result_sha256=2 -->"));
  EXPECT_FALSE(read_mark(""));
}

TEST(KernelName, loses_its_type_parameters_and_namespaces) {
  EXPECT_EQ(sections::short_kernel_name(
                "void cudnn::ops::nchwToNhwcKernel<float, float, true>(cudnn::ops::"
                "nchw2nhwc_params_t<float>, float const*, float*)"),
            "nchwToNhwcKernel<float, float, true>");
  EXPECT_EQ(sections::short_kernel_name(
                "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816dgrad_optimized>"
                "(cutlass_tensorop_bf16_s16816dgrad_optimized::Params)"),
            "cutlass_tensorop_bf16_s16816dgrad_optimized");
  EXPECT_EQ(
      sections::short_kernel_name("void at::native::(anonymous namespace)::fill<(int)4>(long)"),
      "fill<4>");
}

TEST(KernelName, loses_the_ending_that_says_cudnn) {
  EXPECT_EQ(sections::short_kernel_name("sm80_xmma_wgrad_indexed_kernel__5x_cudnn"),
            "sm80_xmma_wgrad_indexed");
  EXPECT_EQ(sections::short_kernel_name("implicit_convolve_sgemm"), "implicit_convolve_sgemm");
}

TEST(KernelName, keeps_what_lies_at_both_ends_of_a_long_one) {
  const std::string whole =
      "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_"
      "tilesize128x128x64_warpgroupsize1x1x1_g1_execute_segment_k_off";
  const std::string name = sections::short_kernel_name(whole);
  EXPECT_EQ(name.size(), 56U) << name;
  EXPECT_TRUE(name.starts_with("sm90_xmma_fprop_implicit_gemm_bf16")) << name;
  EXPECT_TRUE(name.ends_with("ute_segment_k_off")) << name;
  EXPECT_NE(name.find(" ... "), std::string::npos) << name;
}

TEST(KernelName, of_what_is_no_c_plus_plus_stays_as_it_is) {
  for (const char* name : {"", "Memset (Device)", "a(b", "ampere_sgemm_128x64_nn"}) {
    EXPECT_FALSE(sections::short_kernel_name(name).size() > std::string_view(name).size()) << name;
  }
  EXPECT_EQ(sections::short_kernel_name("ampere_sgemm_128x64_nn"), "ampere_sgemm_128x64_nn");
}

/// The labelled ticks of the loss's axis; empty where it is not logarithmic.
std::vector<double> loss_ticks(double low, double high) {
  Result result = full_result();
  result.quality = {};
  result.samples.loss = {low, high};
  for (const PlotSource& plot : plot_sources(result)) {
    const size_t begin = plot.script.find("set ytics (");
    if (plot.name != "loss" || begin == std::string::npos) continue;
    std::vector<double> ticks;
    std::istringstream list(plot.script.substr(begin + 11));
    for (double tick = 0; list >> tick; list.ignore(1)) ticks.push_back(tick);
    return ticks;
  }
  return {};
}

TEST(Plots, label_at_least_three_and_at_most_ten_ticks_of_a_logarithmic_axis) {
  EXPECT_TRUE(loss_ticks(0.1, 0.2).empty()) << "too little for a logarithm";
  for (const double low : {1e-7, 0.0099, 0.01, 0.0123, 0.4, 3.0}) {
    for (const double factor : {8.1, 10.0, 12.0, 50.0, 90.0, 500.0, 1100.0, 3e5, 1e9, 1e16}) {
      const std::vector<double> ticks = loss_ticks(low, low * factor);
      EXPECT_GE(ticks.size(), 3U) << low << " " << factor;
      EXPECT_LE(ticks.size(), 10U) << low << " " << factor;
      for (const double tick : ticks) {
        EXPECT_GE(tick, low / 1.25 * (1 - 1e-6));
        EXPECT_LE(tick, low * factor * 1.25 * (1 + 1e-6));
      }
    }
  }
}

}  // namespace
}  // namespace noisemark::reports
