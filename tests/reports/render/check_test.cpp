#include "reports/render/check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "reports/base/sha256.h"
#include "tests/reports/findings.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using test::full_result;
using test::listed;
using test::minimal_result;
using test::starts;

// Returns what check_values() says about a good result after one change.
std::string after(const std::function<void(Result&)>& change) {
  Result result = full_result();
  change(result);
  return listed(check_values(result, "r.json"));
}

TEST(CheckValues, finds_nothing_in_a_good_result) {
  EXPECT_EQ(listed(check_values(full_result(), "")), "");
  EXPECT_EQ(listed(check_values(minimal_result(), "")), "");
}

TEST(CheckValues, finds_nothing_in_a_good_result_of_a_gpu) {
  EXPECT_EQ(listed(check_values(test::result_on_a_gpu(), "")), "");
}

TEST(CheckValues, a_column_of_a_gpu_has_a_value_or_a_reason_and_a_source) {
  const auto after_on_gpu = [](const std::function<void(Result&)>& change) {
    Result result = test::result_on_a_gpu();
    change(result);
    return listed(check_values(result, "r.json"));
  };
  using Columns = std::vector<DeviceColumn>;
  const auto column = [&](const std::function<void(Columns&)>& change) {
    return after_on_gpu([&](Result& r) { change(r.utilization.device_use.columns); });
  };
  EXPECT_TRUE(starts(column([](Columns& c) { c[2].missing_reason.clear(); }),
                     "GPU: GPU column fp16_active needs a value"));
  EXPECT_TRUE(starts(column([](Columns& c) { c[0].source.clear(); }),
                     "GPU: GPU column kernel_busy does not say its source"));
  EXPECT_TRUE(starts(column([](Columns& c) { c[3].highest = 600.0; }),
                     "GPU: GPU column power lies outside its readings"));
  EXPECT_TRUE(starts(column([](Columns& c) { c[1].over_kernels = 0.5; }),
                     "GPU: GPU column sm_active is smaller while kernels ran"));
  EXPECT_TRUE(starts(after_on_gpu([](Result& r) { r.utilization.device_use.trace[2].at_s = 0.05; }),
                     "GPU: the readings of the GPU run backwards"));
  EXPECT_TRUE(starts(after_on_gpu([](Result& r) {
                       r.utilization.device_use.measured = false;
                       r.utilization.device_use.columns.clear();
                     }),
                     "GPU: the GPU was not measured and has columns or readings"));
  EXPECT_TRUE(
      starts(after_on_gpu([](Result& r) { r.memory.device_memory.fragmentation_bytes = 1; }),
             "GPU: memory.device_memory.fragmentation_bytes"));
  EXPECT_TRUE(starts(
      after_on_gpu([](Result& r) { r.memory.device_memory.process_bytes = int64_t{1} << 40; }),
      "GPU: memory.outside_allocator_bytes"));
}

TEST(CheckValues, repeated_steps_are_of_a_graph_within_the_pass_and_say_what_memory_is_their_own) {
  const auto after_repeating = [](const std::function<void(Result&, TrainingMemory&)>& change) {
    Result result = test::result_on_a_gpu();
    result.identity.baseline = "cuda-graph";
    TrainingMemory& memory = result.memory.training;
    memory.repeated_steps = 8;
    memory.recording_bytes = int64_t{600} << 20;
    memory.missing_reason.clear();
    change(result, memory);
    return listed(check_values(result, "r.json"));
  };
  EXPECT_EQ(after_repeating([](Result&, TrainingMemory&) {}), "");
  EXPECT_TRUE(starts(after_repeating([](Result& r, TrainingMemory& m) {
                       m.repeated_steps = r.protocol.steps + 1;
                     }),
                     "GPU: memory.training.repeated_steps"));
  EXPECT_TRUE(
      starts(after_repeating([](Result& r, TrainingMemory&) { r.identity.baseline = "plain"; }),
             "GPU: steps were repeated under a baseline that records none"));
  EXPECT_TRUE(starts(after_repeating([](Result&, TrainingMemory& m) { m.recording_bytes.reset(); }),
                     "GPU: a step was repeated from memory of which nothing is said"));
  EXPECT_TRUE(starts(after_repeating([](Result&, TrainingMemory& m) {
                       m.peak_allocated_bytes = *m.peak_reserved_bytes + 1;
                     }),
                     "GPU: memory.training allocated more than was reserved"));
  EXPECT_TRUE(starts(after_repeating([](Result&, TrainingMemory& m) {
                       m.recording_bytes = *m.peak_reserved_bytes + 1;
                     }),
                     "GPU: memory.training.recording_bytes"));
}

TEST(CheckValues, the_definition_must_be_the_one_that_was_hashed) {
  EXPECT_TRUE(starts(after([](Result& r) { r.definition += " "; }), "definition: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.identity.scale = "gpu"; }), "definition: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.identity.overrides = {"train.steps=5"}; }),
                     "definition: identity.custom"));
}

TEST(CheckValues, a_definition_of_the_users_own_is_custom_without_overrides) {
  const std::string found = after([](Result& r) { r.identity.custom = true; });
  EXPECT_EQ(found.find("identity.custom"), std::string::npos) << found;
}

// Returns it for a result under a memory mode.
std::string after_under_echo(const std::function<void(MemoryMode&)>& change) {
  Result result = test::result_under_echo();
  change(result.memory_mode);
  return listed(check_values(result, "r.json"));
}

TEST(CheckValues, host_memory_that_was_not_taken_refuses_nothing) {
  EXPECT_TRUE(
      starts(after_under_echo([](MemoryMode& mode) { mode.host_memory.refused_tensors = 1; }),
             "memory mode: host memory"));
  EXPECT_EQ(after_under_echo([](MemoryMode& mode) { mode.host_memory = {0, 1, 4}; }), "");
}

TEST(CheckValues, steps_of_a_budget_are_counted_under_a_budget_alone) {
  const std::string words = "memory mode: a pass has steps of a budget";
  const auto with_steps = [](const std::string& mode, int64_t exceeded) {
    Result result = test::result_under_echo();
    result.identity.mode = mode;
    if (mode != "echo") {
      result.memory_mode.budget.figure = "peak_saved_bytes";
      result.memory_mode.budget.bytes = 1024;
    }
    result.memory_mode.fallbacks[2].budget = {5, exceeded, "a reason", 0, ""};
    return listed(check_values(result, "r.json"));
  };
  EXPECT_EQ(with_steps("budget:saved=1KiB", 5), "");
  EXPECT_TRUE(starts(with_steps("budget:saved=1KiB", 6), words));
  EXPECT_TRUE(starts(with_steps("echo", 0), words));
}

TEST(CheckValues, a_certificate_says_what_its_digests_say) {
  EXPECT_EQ(after_under_echo([](MemoryMode&) {}), "");
  EXPECT_TRUE(starts(after_under_echo([](MemoryMode& mode) {
                       mode.certificate.sha256[1] = mode.certificate.sha256[0];
                     }),
                     "memory mode: the certificate passes"));
  EXPECT_TRUE(starts(after_under_echo([](MemoryMode& mode) { mode.lossless = false; }),
                     "memory mode: the certificate passes"));
  EXPECT_TRUE(
      starts(after_under_echo([](MemoryMode& mode) { mode.certificate.verdict = Verdict::kFail; }),
             "memory mode: the certificate fails"));
  EXPECT_TRUE(starts(after_under_echo([](MemoryMode& mode) { mode.certificate.sha256.pop_back(); }),
                     "memory mode: the certificate has not one digest"));
  EXPECT_TRUE(starts(after_under_echo([](MemoryMode& mode) { mode.overhead.frac.reset(); }),
                     "memory mode: the overhead needs"));
}

TEST(CheckValues, a_certificate_passes_only_where_its_pass_was_made_and_kept_its_plan) {
  const std::string words = "memory mode: the certificate passes, and its pass was not made";
  EXPECT_TRUE(starts(after_under_echo([](MemoryMode& mode) {
                       mode.fallbacks[1].plan_missing_reason = "an operator failed";
                     }),
                     words));
  EXPECT_TRUE(starts(
      after_under_echo([](MemoryMode& mode) { mode.fallbacks[1].missing_reason = "left out"; }),
      words));
  EXPECT_EQ(after_under_echo([](MemoryMode& mode) {
              mode.fallbacks[2].plan_missing_reason = "an operator failed";
            }),
            "")
      << "a later pass says nothing of the compared steps";
}

TEST(CheckValues, seeds_must_be_there_and_differ) {
  EXPECT_TRUE(starts(after([](Result& r) { r.seeds.streams["noise"] = 11; }),
                     "seeds: streams data and noise share the seed 11"));
  EXPECT_TRUE(starts(after([](Result& r) { r.seeds.streams.clear(); }), "seeds: "));
}

TEST(CheckValues, samples_must_be_as_many_as_steps) {
  EXPECT_TRUE(starts(after([](Result& r) { r.samples.ema_s.pop_back(); }), "samples: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.protocol.steps = 65; }), "samples: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.protocol.steps = 63; }), "samples: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.protocol.warmup_steps = 65; }), "samples: "));
}

TEST(CheckValues, a_loss_may_be_missing_only_of_steps_that_loss_scaling_skipped) {
  const auto with_missing = [](double skipped) {
    return after([skipped](Result& r) {
      r.samples.loss[3] = r.samples.loss[5] = std::nan("");
      Metric metric;
      metric.name = "skipped_steps";
      metric.value = skipped;
      r.metrics.push_back(metric);
    });
  };
  EXPECT_EQ(with_missing(2), "");
  EXPECT_TRUE(starts(with_missing(1), "samples: samples.loss lacks 2 values"));
  EXPECT_TRUE(starts(after([](Result& r) { r.samples.loss[3] = std::nan(""); }), "samples: "));
}

TEST(CheckValues, metrics_must_be_unique_and_have_a_value_or_a_reason) {
  EXPECT_TRUE(starts(after([](Result& r) { r.metrics[1].name = "images_per_s"; }), "metrics: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.metrics[2].missing_reason = ""; }), "metrics: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.metrics[0].ci95->high = 0; }), "metrics: "));
}

TEST(CheckValues, bytes_must_close_everywhere) {
  const auto closure = [](const std::function<void(MemorySection&)>& change) {
    return after([&](Result& r) { change(r.memory); });
  };
  EXPECT_TRUE(starts(closure([](auto& m) { m.boundaries[1].by_category["weights"] += 1; }),
                     "closure: at forward_end the owners"));
  EXPECT_TRUE(starts(closure([](auto& m) { m.peak.by_category["weights"] -= 1; }),
                     "closure: at peak the owners"));
  EXPECT_TRUE(starts(closure([](auto& m) { m.peak_bytes += 1; }), "closure: "));
  EXPECT_TRUE(starts(closure([](auto& m) { m.peak.by_category.erase("ema"); }), "closure: "));
  EXPECT_TRUE(
      starts(closure([](auto& m) { m.saved_bytes = m.peak_saved_bytes + 1; }), "closure: "));
  EXPECT_TRUE(starts(closure([](auto& m) { m.timeline[3].by_category[0] *= 100; }),
                     "closure: memory.timeline at 0.048 s is above the peak"));
  EXPECT_TRUE(starts(closure([](auto& m) { m.timeline[3].time_s = 0; }), "closure: "));
  EXPECT_TRUE(starts(closure([](auto& m) { m.timeline[3].by_category.pop_back(); }), "closure: "));
  EXPECT_TRUE(starts(closure([](auto& m) { m.measured = false; }), "closure: "));
}

// A probe that lost an owner reports this: consistent sums, and bytes without an owner.
TEST(CheckValues, a_boundary_with_bytes_of_no_owner_is_found) {
  const std::string findings = after([](Result& r) {
    r.memory.boundaries[2].by_category["gradients"] = 0;
    r.memory.boundaries[2].unattributed_bytes = 136 * 1024 * 1024;
  });
  EXPECT_TRUE(starts(findings, "closure: at backward_end 142606336 bytes have no owner"))
      << findings;
}

// A probe that heard of no allocation reports this: sums that close, of nothing.
TEST(CheckValues, weights_of_0_bytes_are_found_where_the_model_has_parameters) {
  const auto deaf = [](Result& r) {
    for (MemorySnapshot& shot : r.memory.boundaries) {
      shot.allocator_bytes -= shot.by_category["weights"];
      shot.by_category["weights"] = 0;
    }
  };
  EXPECT_TRUE(starts(after(deaf), "closure: at step_begin the weights hold 0 bytes, the model has"))
      << after(deaf);
  EXPECT_EQ(after([&](Result& r) {
              deaf(r);
              r.utilization.parameters = 0;
            }),
            "");
}

TEST(CheckValues, the_largest_batch_must_fit_and_the_next_must_not) {
  const auto fit = [](const std::function<void(BatchFit&)>& change) {
    return after([&](Result& r) {
      r.batch_fit = {1000, "", 8, 900, 1010, ""};
      change(r.batch_fit);
    });
  };
  EXPECT_EQ(fit([](BatchFit&) {}), "");
  EXPECT_EQ(fit([](BatchFit& f) { f = {1000, "the search did not end", 0, {}, {}, ""}; }), "");
  EXPECT_EQ(fit([](BatchFit& f) { f = {1000, "", 0, {}, {}, "out of memory"}; }), "");
  EXPECT_TRUE(starts(fit([](BatchFit& f) { f.memory_bytes.reset(); }), "largest batch: "));
  EXPECT_TRUE(starts(fit([](BatchFit& f) { f.peak_bytes = 1001; }), "largest batch: "));
  EXPECT_TRUE(starts(fit([](BatchFit& f) { f.peak_bytes.reset(); }), "largest batch: "));
  EXPECT_TRUE(starts(fit([](BatchFit& f) { f.batch = 0; }), "largest batch: "));
  EXPECT_TRUE(starts(fit([](BatchFit& f) { f.next_peak_bytes = 1000; }), "largest batch: "));
  EXPECT_TRUE(starts(fit([](BatchFit& f) { f.next_words = "x"; }), "largest batch: "));
}

TEST(CheckValues, derived_figures_must_follow_from_their_parts) {
  EXPECT_TRUE(starts(after([](Result& r) { r.utilization.mfu_frac = 0.5; }), "utilization: "));
  EXPECT_TRUE(
      starts(after([](Result& r) { r.utilization.operators[2].self_s = 9; }), "utilization: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.utilization.operators[0].share_frac = 0.9; }),
                     "utilization: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.quality.evaluations[1].step = 0; }), "quality: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.quality.evaluations[1].loss = 9; }), "quality: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.quality.evaluations[1].per_timestep.pop_back(); }),
                     "quality: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.quality.target_loss = 0.01; }), "quality: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.quality.samples_to_quality.reset(); }), "quality: "));
}

TEST(CheckValues, verdicts_must_follow_from_their_values) {
  EXPECT_TRUE(starts(after([](Result& r) { r.gates.back().value = 9; }), "gates: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.gates.back().value.reset(); }), "gates: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.gates.back().words = ""; }), "gates: "));
  EXPECT_TRUE(starts(after([](Result& r) { r.exit.code = 1; }), "gates: "));
  EXPECT_TRUE(starts(after([](Result& r) {
                       r.gates.back().value = 9;
                       r.gates.back().verdict = Verdict::kFail;
                     }),
                     "gates: a gate failed and the exit code is 0"));
  EXPECT_TRUE(starts(after([](Result& r) { r.gates.pop_back(); }),
                     "gates: the definition's gate val_loss"));
  EXPECT_TRUE(starts(after([](Result& r) { r.gates.back().bound = 0.5; }),
                     "gates: the definition's gate val_loss"));
}

TEST(CheckValues, a_gate_of_the_definition_must_judge_what_it_was_calibrated_for_and_nothing_else) {
  const auto leave_out = [](Result& r) { r.gates.back().verdict = Verdict::kNotApplied; };
  const auto for_fp16_only = [](Result& r) {
    r.definition.insert(r.definition.rfind("}}}"), R"(,"precisions":["fp16"])");
    r.identity.definition_sha256 = sha256_of(r.definition);
  };
  EXPECT_TRUE(starts(after(leave_out), "gates: the definition's gate val_loss was not applied, a"));
  EXPECT_TRUE(starts(after(for_fp16_only), "gates: the definition's gate val_loss was applied, a"));
  EXPECT_EQ(after([&](Result& r) {
              for_fp16_only(r);
              leave_out(r);
            }),
            "");
}

TEST(CheckValues, provenance_must_be_whole) {
  EXPECT_TRUE(starts(after([](Result& r) { r.provenance.git_diff_sha256 = ""; }), "provenance: "));
  EXPECT_TRUE(
      starts(after([](Result& r) { r.provenance.data[1].verified = false; }), "provenance: "));
}

/// Returns the first finding in a GPU's result after a change: its rule with its words.
std::string found_after(const std::function<void(Result&)>& change) {
  Result result = test::result_on_a_gpu();
  change(result);
  const auto findings = check_values(result, "r.json");
  return findings.empty() ? "" : findings.front().rule + ": " + findings.front().words;
}

TEST(CheckConvolutions, finds_nothing_in_a_good_result) {
  EXPECT_EQ(found_after([](Result&) {}), "");
}

TEST(CheckConvolutions, lists_kernels_that_were_measured_by_falling_time) {
  EXPECT_TRUE(starts(found_after([](Result& r) { r.utilization.convolutions.measured = false; }),
                     "convolutions: the kernels of convolutions were not measured and are listed"));
  EXPECT_TRUE(
      starts(found_after([](Result& r) { r.utilization.convolutions.kernels[2].time_s = 1; }),
             "convolutions: utilization.convolutions.kernels are not by falling time"));
}

TEST(CheckConvolutions, has_scratch_memory_with_both_figures_or_with_a_reason) {
  EXPECT_TRUE(
      starts(found_after([](Result& r) { r.memory.convolution_workspace.peak_bytes.reset(); }),
             "convolutions: memory.convolution_workspace has one of its two figures"));
  EXPECT_TRUE(
      starts(found_after([](Result& r) { r.memory.convolution_workspace.missing_reason = "no"; }),
             "convolutions: memory.convolution_workspace has its figures and a reason"));
  EXPECT_TRUE(starts(found_after([](Result& r) { r.memory.convolution_workspace.peak_bytes = 1; }),
                     "convolutions: a convolution had more scratch memory than"));
}

}  // namespace
}  // namespace noisemark::reports
