#include "reports/compare/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "reports/base/error.h"
#include "reports/compare/comparison.h"
#include "reports/result/environment_changes.h"
#include "tests/reports/compare/comparing.h"
#include "tests/reports/free_text.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports::test::comparing {
namespace {

TEST(Compare, passes_an_untouched_twin) {
  const Comparison same = compared(1);
  expect_code(same, ExitCode::kPass);
  EXPECT_EQ(row_of(same, "images_per_s").verdict, CompareVerdict::kEquivalent);
  EXPECT_EQ(row_of(same, "val_loss").words, "equal in every pair");
  for (const ExactRow& row : same.exact) EXPECT_EQ(row.verdict, CompareVerdict::kEquivalent);
}

TEST(Compare, catches_a_slow_down_beyond_the_margin) {
  const Comparison slow = compared(0.9);
  expect_code(slow, ExitCode::kFailed);
  const StochasticRow& row = row_of(slow, "images_per_s");
  EXPECT_EQ(row.verdict, CompareVerdict::kRegression);
  EXPECT_NEAR(*row.ratio, 0.9, 0.005);
  EXPECT_LT(row.ratio_ci95->high, 0.97);
  EXPECT_EQ(*row.p, 1.0 / 256);
  EXPECT_EQ(*row.p_adjusted, 2.0 / 256) << "two gates share alpha";
}

TEST(Compare, lets_a_slow_down_within_the_margin_pass) {
  const Comparison slow = compared(0.985);
  expect_code(slow, ExitCode::kPass);
  EXPECT_EQ(row_of(slow, "images_per_s").verdict, CompareVerdict::kEquivalent);
}

TEST(Compare, never_fails_an_improvement) {
  const Comparison fast = compared(1.2);
  expect_code(fast, ExitCode::kPass);
  EXPECT_EQ(row_of(fast, "images_per_s").verdict, CompareVerdict::kImproved);
  EXPECT_EQ(fast.verdict, CompareVerdict::kImproved);
}

TEST(Compare, is_inconclusive_where_the_interval_reaches_across_the_margin) {
  std::vector<double> wild;
  for (size_t i = 0; i < kRuns; ++i) wild.push_back(i % 2 == 0 ? kRate * 0.9 : kRate * 1.1);
  const Comparison noisy =
      compare(test::side("old", rates_around(kRate, kRuns)), test::side("new", wild));
  expect_code(noisy, ExitCode::kInconclusive);
  const StochasticRow& row = row_of(noisy, "images_per_s");
  EXPECT_GT(*row.pairs_needed, static_cast<int64_t>(kRuns));
  EXPECT_NE(next_step(noisy).find("more runs of each side"), std::string::npos);
}

TEST(Compare, refuses_to_judge_noise_by_too_few_pairs) {
  const Comparison few =
      compare(test::side("old", rates_around(kRate, 3)), test::side("new", {1, 1, 1}));
  expect_code(few, ExitCode::kBadInput);
  const StochasticRow& row = row_of(few, "images_per_s");
  EXPECT_EQ(row.verdict, CompareVerdict::kTooFewPairs);
  EXPECT_NE(next_step(few).find("Make 3 more runs of each side in turns"), std::string::npos);
  EXPECT_EQ(row.words, "3 pairs can never reach alpha 0.05 among 2 gates");
  EXPECT_EQ(row.pairs_needed, 6);
}

TEST(Compare, of_single_runs_judges_figures_without_noise_alone_where_asked_to) {
  StochasticOptions exact;
  exact.gates = false;
  const Side base = test::side("old", {16});
  const Comparison slower = compare(base, test::side("new", {8}), exact);
  expect_code(slower, ExitCode::kPass);
  EXPECT_FALSE(row_of(slower, "images_per_s").gated);
  const Comparison leak =
      compare(base, test::side("new", {16}, set_metric("leaked_bytes", 1)), exact);
  expect_code(leak, ExitCode::kFailed);
}

TEST(Compare, widens_the_margin_to_twice_the_noise_floor_and_refuses_beyond_ten_percent) {
  const Side base = test::side("old", rates_around(kRate, kRuns));
  const Side slow = test::side("new", rates_around(kRate * 0.95, kRuns));
  StochasticOptions options;
  options.noise["images_per_s"].floor_frac = 0.04;
  const Comparison wide = compare(base, slow, options);
  EXPECT_EQ(row_of(wide, "images_per_s").margin_frac, 0.08);
  expect_code(wide, ExitCode::kPass);
  options.noise["images_per_s"].floor_frac = 0.06;
  expect_code(compare(base, slow, options), ExitCode::kBaselineNeeded);
}

TEST(Compare, catches_a_worse_validation_loss) {
  const Comparison worse = compared(1, set_metric("val_loss", 0.0931 * 1.03));
  expect_code(worse, ExitCode::kFailed);
  EXPECT_EQ(worse.verdict, CompareVerdict::kQualityFail);
  EXPECT_EQ(row_of(worse, "val_loss").verdict, CompareVerdict::kQualityFail);
}

TEST(Compare, catches_one_byte_more) {
  const double peak = *exact_row_of(compared(1), "peak_bytes").base;
  const Comparison more = compared(1, set_metric("peak_bytes", peak + 1));
  expect_code(more, ExitCode::kFailed);
  EXPECT_EQ(exact_row_of(more, "peak_bytes").words, "rose");
  const Comparison less = compared(1, set_metric("peak_bytes", peak - 1));
  expect_code(less, ExitCode::kPass);
  EXPECT_EQ(exact_row_of(less, "peak_bytes").verdict, CompareVerdict::kImproved);
}

TEST(Compare, catches_a_leak_and_another_number_of_parameters) {
  expect_code(compared(1, set_metric("leaked_bytes", 16 * 1024 * 1024)), ExitCode::kFailed);
  expect_code(compared(1, set_metric("parameters", 1)), ExitCode::kFailed);
}

TEST(Compare, catches_bytes_that_lost_their_owner) {
  const Comparison lost = compared(1, [](Result& result, size_t) {
    result.memory.peak.by_category["workspace"] = 0;
    result.memory.peak.by_category["weights"] -= 64;
    result.memory.peak.unattributed_bytes += 64;
  });
  expect_code(lost, ExitCode::kFailed);
  EXPECT_EQ(exact_row_of(lost, "peak: without an owner").words, "rose");
  EXPECT_EQ(exact_row_of(lost, "peak: weights").words,
            "differs, and neither the peak nor all bytes at that moment fell");
}

TEST(Compare, lets_bytes_change_owners_where_the_peak_falls) {
  const double peak = *exact_row_of(compared(1), "peak_bytes").base;
  const Comparison moved = compared(1, [&](Result& result, size_t) {
    result.memory.peak.by_category["encoded"] += 100;
    test::metric(result, "peak_bytes").value = peak - 1000;
  });
  expect_code(moved, ExitCode::kPass);
  EXPECT_EQ(exact_row_of(moved, "peak: encoded").verdict, CompareVerdict::kImproved);
}

TEST(Compare, takes_an_owner_that_one_side_does_not_know_for_one_that_held_nothing_there) {
  const auto given = [](int64_t bytes) {
    return compared(
        1, [&](Result& result, size_t) { result.memory.peak.by_category["dataset"] = bytes; });
  };
  expect_code(given(0), ExitCode::kPass);
  expect_code(given(1), ExitCode::kFailed);
  const Comparison lost =
      compared(1, [](Result& result, size_t) { result.memory.peak.by_category.erase("weights"); });
  expect_code(lost, ExitCode::kFailed);
}

/// Takes bytes from an owner at the first boundary, the peak left alone.
MemorySnapshot& with_fewer(Result& result, const std::string& owner, int64_t bytes) {
  MemorySnapshot& shot = result.memory.boundaries.front();
  shot.by_category.at(owner) -= bytes;
  return shot;
}

TEST(Compare, lets_bytes_of_an_owner_fall_where_all_bytes_at_that_moment_fall) {
  const Comparison fewer = compared(
      1, [](Result& result, size_t) { with_fewer(result, "weights", 64).allocator_bytes -= 64; });
  expect_code(fewer, ExitCode::kPass);
  const std::string at = test::side("old", {kRate}).runs[0].result.memory.boundaries.front().at;
  const ExactRow& row = exact_row_of(fewer, at + ": weights");
  EXPECT_EQ(row.verdict, CompareVerdict::kImproved);
  EXPECT_EQ(row.words, "moved, and there are fewer bytes at that moment");
}

TEST(Compare, catches_bytes_that_lost_their_owner_while_others_were_freed) {
  const Comparison lost = compared(1, [](Result& result, size_t) {
    MemorySnapshot& shot = with_fewer(result, "weights", 128);
    shot.unattributed_bytes += 64;
    shot.allocator_bytes -= 64;
  });
  expect_code(lost, ExitCode::kFailed);
}

TEST(Compare, takes_zero_saved_bytes_for_no_baseline) {
  const std::vector<double> rates = rates_around(kRate, kRuns);
  const Change none = set_metric("saved_bytes", 0);
  for (const Change& candidate : {none, Change()}) {
    expect_code(compare(test::side("old", rates, none), test::side("new", rates, candidate)),
                ExitCode::kBaselineNeeded);
  }
}

TEST(Compare, shows_settings_of_the_machine_that_no_identity_holds) {
  const Comparison other = compared(1, [](Result& result, size_t i) {
    result.environment["kernel"] = i == 0 ? "6.2" : "6.3";
    result.environment["load_average"] = std::to_string(i);
    result.environment[std::string(kAtTheEnd) + "cpu_governor"] = "powersave";
  });
  expect_code(other, ExitCode::kPass);
  ASSERT_EQ(other.environment.size(), 1U);
  EXPECT_EQ(other.environment[0].field, "kernel");
  EXPECT_EQ(other.environment[0].candidate, "6.2; 6.3");
  EXPECT_NE(comparison_markdown(other).find("1 setting of the environment"), std::string::npos);
  EXPECT_EQ(comparison_markdown(compared(1)).find("of the environment"), std::string::npos);
}

TEST(Compare, gates_the_loss_trace_only_under_the_deterministic_profile) {
  const Change other = [](Result& r, size_t) { r.determinism.loss_trace_sha256 = "other"; };
  expect_code(compared(1, other), ExitCode::kPass);
  const auto deterministic = [](Result& r, size_t) { r.protocol.deterministic = true; };
  const std::vector<double> rates = rates_around(kRate, kRuns);
  const Comparison gated = compare(test::side("old", rates, deterministic),
                                   test::side("new", rates, [&](Result& r, size_t i) {
                                     deterministic(r, i);
                                     other(r, i);
                                   }));
  expect_code(gated, ExitCode::kFailed);
  EXPECT_EQ(exact_row_of(gated, "loss trace").words, "must be equal");
}

struct Mismatch {
  const char* field;
  Change change;
};

TEST(Compare, never_passes_what_is_not_the_same_work_on_the_same_machine) {
  const std::vector<Mismatch> mismatches = {
      {"identity.threads", [](Result& r, size_t) { r.identity.threads = 1; }},
      {"identity.ranks", [](Result& r, size_t) { r.identity.ranks = 2; }},
      {"identity.backend", [](Result& r, size_t) { r.identity.backend = "nccl"; }},
      {"identity.version", [](Result& r, size_t) { r.identity.version = 2; }},
      {"identity.definition_sha256",
       [](Result& r, size_t) { r.identity.definition_sha256 = std::string(64, 'a'); }},
      {"identity.data", [](Result& r, size_t) { r.identity.data = "unofficial"; }},
      {"identity.overrides", [](Result& r, size_t) { r.identity.overrides = {"a=1"}; }},
      {"identity.hardware.isa", [](Result& r, size_t) { r.identity.hardware["isa"] = "AVX2"; }},
      {"identity.software.libtorch",
       [](Result& r, size_t) { r.identity.software["libtorch"] = "2.12"; }},
      {"identity.software.driver",
       [](Result& r, size_t) { r.identity.software["driver"] = "580"; }},
      {"protocol.deterministic", [](Result& r, size_t) { r.protocol.deterministic = true; }},
      {"protocol.loader_threads", [](Result& r, size_t) { r.protocol.loader_threads = 2; }},
      {"provenance.data.test_batch.bin",
       [](Result& r, size_t) { r.provenance.data[1].sha256 = std::string(64, 'b'); }},
  };
  for (const Mismatch& mismatch : mismatches) {
    const Comparison other = compared(1.5, mismatch.change);
    expect_code(other, ExitCode::kNotComparable);
    ASSERT_EQ(other.differences.size(), 1U) << mismatch.field;
    EXPECT_EQ(other.differences[0].field, mismatch.field);
    EXPECT_TRUE(other.stochastic.empty()) << "nothing of such a cell is judged";
  }
}

TEST(Compare, never_takes_rounded_gradients_of_ranks_for_the_same_work) {
  const Comparison other = compared(1.5, [](Result& r, size_t) { r.identity.reduction = "bf16"; });
  expect_code(other, ExitCode::kNotComparable);
  ASSERT_EQ(other.differences.size(), 1U);
  EXPECT_EQ(other.differences[0].field, "identity.reduction");
}

TEST(Compare, takes_another_clocks_policy_for_another_machine_and_an_unknown_one_too) {
  const auto clocks = [](const std::string& policy) -> Change {
    return [=](Result& result, size_t) { result.identity.hardware["cpu_clocks"] = policy; };
  };
  const std::vector<double> rates = rates_around(kRate, kRuns);
  const Side steady = test::side("old", rates, clocks("governor performance, turbo off"));
  const Side other = test::side("new", rates, clocks("governor powersave, turbo off"));
  EXPECT_EQ(compare(steady, other).verdict, CompareVerdict::kNotComparable);
  EXPECT_EQ(compare(steady, other).differences.front().field, "identity.hardware.cpu_clocks");
  const Side silent = test::side("new", rates);
  for (const Comparison& unknown : {compare(steady, silent), compare(silent, steady)}) {
    expect_code(unknown, ExitCode::kNotComparable);
    ASSERT_EQ(unknown.differences.size(), 1U);
    EXPECT_EQ(unknown.differences[0].field, "identity.hardware.cpu_clocks");
  }
}

TEST(Compare, notices_other_initial_weights_of_the_same_seed) {
  const Comparison other = compared(
      1, [](Result& r, size_t) { r.provenance.init_weights_sha256 = std::string(64, 'c'); });
  expect_code(other, ExitCode::kNotComparable);
  const auto seeds = [](Result& r, size_t i) {
    r.seeds.base = i;
    r.provenance.init_weights_sha256 = std::string(64, static_cast<char>('0' + i));
  };
  const Comparison by_seed = compare(test::side("old", rates_around(kRate, kRuns), seeds),
                                     test::side("new", rates_around(kRate, kRuns), seeds));
  expect_code(by_seed, ExitCode::kPass);
}

TEST(Compare, notices_one_odd_run_among_the_bases) {
  const auto odd = [](Result& r, size_t i) { r.identity.threads = i == 3 ? 1 : 2; };
  const Comparison other = compare(test::side("old", rates_around(kRate, kRuns), odd),
                                   test::side("new", rates_around(kRate, kRuns), odd));
  expect_code(other, ExitCode::kNotComparable);
}

TEST(Compare, says_in_what_two_lone_cells_differ) {
  const Comparison modes =
      compare(test::side("old", {1}),
              test::side("new", {1}, [](Result& r, size_t) { r.identity.mode = "echo"; }));
  expect_code(modes, ExitCode::kNotComparable);
  ASSERT_EQ(modes.differences.size(), 1U);
  EXPECT_EQ(modes.differences[0].field, "identity.mode");
  EXPECT_EQ(modes.differences[0].candidate, "echo");
}

TEST(Compare, shows_of_two_digests_what_fits_beside_each_other_on_a_page) {
  const auto of = [](char digit) {
    return [=](Result& r, size_t) { r.identity.definition_sha256 = std::string(64, digit); };
  };
  const Comparison other =
      compare(test::side("old", {1}, of('a')), test::side("new", {1}, of('b')));
  const std::string page = comparison_markdown(other);
  const std::string row = fmt::format("| {} | {} |", std::string(12, 'a'), std::string(12, 'b'));
  EXPECT_NE(page.find(row), std::string::npos) << page;
  EXPECT_EQ(other.differences.at(0).base, std::string(64, 'a')) << "JSON keeps them whole";
}

TEST(Compare, without_a_common_seed_compares_nothing) {
  const Comparison seeds =
      compare(test::side("old", {1}, [](Result& r, size_t) { r.seeds.base = 1; }),
              test::side("new", {1, 1}, [](Result& r, size_t i) { r.seeds.base = 3 - i; }));
  expect_code(seeds, ExitCode::kNotComparable);
  ASSERT_EQ(seeds.differences.size(), 1U);
  EXPECT_EQ(seeds.differences[0].field, "seeds.base");
  EXPECT_EQ(seeds.differences[0].base, "1");
  EXPECT_EQ(seeds.differences[0].candidate, "2, 3");
  EXPECT_TRUE(seeds.reasons[0].ends_with("no seed in common (BASE: 1; NEW: 2, 3)"))
      << seeds.reasons[0];
}

TEST(Compare, asks_for_a_baseline_where_the_base_has_none) {
  const std::vector<double> rates = rates_around(kRate, kRuns);
  for (const std::optional<double> bad : {std::optional<double>{}, std::optional<double>{0}}) {
    const auto spoil = [&](Result& r, size_t) { test::metric(r, "images_per_s").value = bad; };
    expect_code(compare(test::side("old", rates, spoil), test::side("new", rates)),
                ExitCode::kBaselineNeeded);
  }
  const auto no_peak = [](Result& r, size_t) { test::metric(r, "peak_bytes").value = 0; };
  expect_code(compare(test::side("old", rates, no_peak), test::side("new", rates)),
              ExitCode::kBaselineNeeded);
  const auto failed = [](Result& r, size_t) { r.exit = {1, "failed", {"leak"}}; };
  expect_code(compare(test::side("old", rates, failed), test::side("new", rates)),
              ExitCode::kBaselineNeeded);
}

TEST(Compare, never_passes_what_is_no_longer_measured) {
  expect_code(compared(1, [](Result& r, size_t) { test::metric(r, "val_loss").value.reset(); }),
              ExitCode::kNotComparable);
  expect_code(compared(1, [](Result& r, size_t) { test::metric(r, "peak_bytes").value.reset(); }),
              ExitCode::kNotComparable);
}

TEST(Compare, refuses_mixed_units) {
  const Comparison mixed =
      compared(1, [](Result& r, size_t) { test::metric(r, "images_per_s").unit = "images/min"; });
  expect_code(mixed, ExitCode::kNotComparable);
  EXPECT_EQ(row_of(mixed, "images_per_s").words, "the units differ");
}

TEST(Compare, refuses_mixed_units_of_figures_without_noise) {
  const Comparison mixed =
      compared(1, [](Result& r, size_t) { test::metric(r, "peak_bytes").unit = "KiB"; });
  expect_code(mixed, ExitCode::kNotComparable);
  EXPECT_EQ(exact_row_of(mixed, "peak_bytes").words, "the units differ: KiB, bytes");
}

TEST(Compare, refuses_mixed_units_of_what_is_not_gated) {
  const auto forward = [](const char* unit) {
    return [=](Result& r, size_t) {
      r.metrics.push_back({"forward_s", unit, Direction::kLower, 1, "", "median", {}, 1, ""});
    };
  };
  const std::vector<double> rates = rates_around(kRate, kRuns);
  const Comparison mixed =
      compare(test::side("old", rates, forward("s")), test::side("new", rates, forward("ms")));
  expect_code(mixed, ExitCode::kNotComparable);
  EXPECT_FALSE(row_of(mixed, "forward_s").gated);
  EXPECT_NE(comparison_markdown(mixed).find("forward_s: not comparable (the units differ)"),
            std::string::npos);
}

TEST(Compare, fails_a_run_that_failed_its_own_gates_and_refuses_one_that_did_not_finish) {
  expect_code(compared(1,
                       [](Result& r, size_t) {
                         r.exit = {1, "failed", {"leak: 3 B"}};
                       }),
              ExitCode::kFailed);
  const Comparison interrupted = compared(1, [](Result& r, size_t) {
    r.exit = {130, "interrupted", {}};
  });
  expect_code(interrupted, ExitCode::kNotComparable);
  EXPECT_EQ(interrupted.verdict, CompareVerdict::kIncomplete);
}

TEST(Compare, lists_cells_on_one_side_and_passes_neither) {
  const std::vector<double> rates = rates_around(kRate, kRuns);
  std::vector<double> more = rates;
  more.push_back(kRate);
  const auto last_is_echo = [](Result& r, size_t i) {
    if (i == kRuns) r.identity.mode = "echo";
  };
  const Comparison gone = compare(test::side("old", more, last_is_echo), test::side("new", rates));
  expect_code(gone, ExitCode::kNotComparable);
  EXPECT_EQ(gone.only_base.size(), 1U);
  const std::string page = comparison_markdown(gone);
  EXPECT_EQ(page.find("# INCOMPLETE, because NEW lacks 1 cell of BASE: old to new\n"), 0U) << page;
  EXPECT_NE(page.find(", mode echo, baseline plain, fp32, cpu: NEW has no such cell\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("Run in NEW too what stands under"), std::string::npos) << page;
  const Comparison added = compare(test::side("old", rates), test::side("new", more, last_is_echo));
  expect_code(added, ExitCode::kBaselineNeeded);
  EXPECT_EQ(added.only_candidate.size(), 1U);
}

TEST(Compare, the_worst_finding_decides) {
  const std::vector<double> rates = rates_around(kRate, kRuns);
  std::vector<double> more = rates;
  more.push_back(kRate);
  const Comparison both = compare(test::side("old", more,
                                             [](Result& r, size_t i) {
                                               if (i == kRuns) r.identity.mode = "echo";
                                             }),
                                  test::side("new", rates, set_metric("leaked_bytes", 1)));
  expect_code(both, ExitCode::kFailed);
  EXPECT_EQ(both.reasons.size(), 2U);
}

TEST(Compare, the_long_table_judges_nothing) {
  const auto slow_forward = [](double seconds) {
    return [=](Result& r, size_t) {
      r.metrics.push_back({"forward_s", "s", Direction::kLower, seconds, "", "median", {}, 1, ""});
    };
  };
  const std::vector<double> rates = rates_around(kRate, kRuns);
  const Comparison slow =
      compare(test::side("old", rates, slow_forward(1)), test::side("new", rates, slow_forward(3)));
  expect_code(slow, ExitCode::kPass);
  const StochasticRow& row = row_of(slow, "forward_s");
  EXPECT_FALSE(row.gated);
  EXPECT_LT(*row.p_adjusted, 0.05);
}

TEST(Compare, finds_nothing_in_runs_that_measured_nothing) {
  const auto bare = [](Result& r, size_t) {
    r.metrics.clear();
    r.memory = {};
  };
  expect_code(compare(test::side("old", {1}, bare), test::side("new", {1}, bare)),
              ExitCode::kInconclusive);
}

TEST(Compare, does_not_depend_on_the_order_of_the_runs) {
  Side base = test::side("old", rates_around(kRate, kRuns));
  Side candidate = test::side("new", rates_around(kRate * 0.97, kRuns));
  const std::string first = comparison_json(compare(base, candidate));
  std::reverse(base.runs.begin(), base.runs.end());
  std::rotate(candidate.runs.begin(), candidate.runs.begin() + 3, candidate.runs.end());
  EXPECT_EQ(comparison_json(compare(base, candidate)), first);
}

TEST(Compare, notes_runs_that_never_became_steady) {
  const Comparison odd =
      compared(1, [](Result& r, size_t i) { r.protocol.warmup_stable = i != 0; });
  expect_code(odd, ExitCode::kPass);
  EXPECT_EQ(odd.notes, std::vector<std::string>{"NEW: 1 of 8 runs never became steady"});
}

TEST(Compare, tells_what_changed_while_runs_were_made) {
  const Comparison moved = compared(1, [](Result& r, size_t i) {
    r.environment["changed while it ran"] =
        i == 0 ? "cpu_governor" : (i == 1 ? "cgroup_cpu_max, cpu_governor" : "nothing");
  });
  expect_code(moved, ExitCode::kPass);
  EXPECT_EQ(moved.notes, std::vector<std::string>{"NEW: changed while it ran, in 2 of 8 runs: "
                                                  "cgroup_cpu_max, cpu_governor"});
  EXPECT_NE(comparison_markdown(moved).find(moved.notes[0]), std::string::npos);
}

TEST(Compare, takes_a_gpu_that_got_to_work_for_no_change) {
  const Comparison capped = compared(1, [](Result& r, size_t) {
    // A program that took it for a change recorded it so.
    r.environment["changed while it ran"] = "gpu_clock_reasons";
    r.environment["gpu_clock_reasons"] = "idle";
    r.environment["at the end: gpu_clock_reasons"] = "power cap";
  });
  expect_code(capped, ExitCode::kPass);
  EXPECT_TRUE(capped.notes.empty()) << capped.notes[0];
}

TEST(Compare, refuses_an_empty_side) {
  EXPECT_THROW((void)compare(Side{"none", {}}, test::side("new", {1})), Error);
}

TEST(Compare, compares_a_hundred_results_a_side_in_a_second) {
  const auto modes = [](Result& r, size_t i) { r.identity.mode = "m" + std::to_string(i % 10); };
  const Side base = test::side("old", rates_around(kRate, 100), modes);
  const Side candidate = test::side("new", rates_around(kRate, 100), modes);
  const auto start = std::chrono::steady_clock::now();
  const Comparison all = compare(base, candidate);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(all.cells, 10);
#if !defined(__SANITIZE_ADDRESS__)  // the sanitizer alone makes it twice as slow
  EXPECT_LT(elapsed.count(), 1);
#endif
}

/// The runs of a side that are like `model` in all but what makes each a run of its own.
Side side_like(const Result& model, const std::string& name) {
  Side side = test::side("any", test::rates_around(16, 2), [&](Result& result, size_t) {
    Result own = model;
    own.run_id = name == "new" ? "ff" + result.run_id.substr(2) : result.run_id;
    own.created_utc = result.created_utc;
    result = std::move(own);
  });
  side.name = name;
  for (NamedResult& run : side.runs) run.name = name + run.name;
  return side;
}

/// Texts by which results cannot be compared at all have no page.
std::string page_of(const Side& base, const Side& candidate) {
  try {
    return comparison_markdown(compare(base, candidate));
  } catch (const Error&) {
    return "";
  }
}

TEST(ComparisonMarkdown, is_broken_by_no_text_of_a_result) {
  test::expect_no_text_makes_blocks(test::full_result(), [](const Result& result) {
    return page_of(side_like(result, result.title), side_like(result, result.title));
  });
  test::expect_no_text_makes_blocks(test::full_result(), [](const Result& result) {
    return page_of(side_like(test::full_result(), "old"), side_like(result, "new"));
  });
}

}  // namespace
}  // namespace noisemark::reports::test::comparing
