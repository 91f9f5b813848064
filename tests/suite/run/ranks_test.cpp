#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reports/result/gate.h"
#include "suite/data/dataset.h"
#include "suite/io/safetensors.h"
#include "suite/run/spec/plan.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// One run by several processes, through the real program.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using test::file_bytes;
using test::Finished;
using test::noisemark_command;
using test::Process;
using test::process_of;
using test::result_in;
using test::run_noisemark;
using test::short_run;
using test::TemporaryFolder;
using test::timed_only;
using test::with;
using Texts = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

// The default of --timeout.
constexpr double kLimit_s = 30;

Texts by_two(const Texts& run) {
  return with(run, {"--ranks", "2", "--timeout", std::to_string(static_cast<int>(kLimit_s))});
}

Texts endless(const fs::path& out) {
  return by_two(timed_only(out, 100'000));
}

void expect_no_rank_left(const fs::path& out) {
  EXPECT_FALSE(process_of(out, 0).has_value());
  EXPECT_FALSE(process_of(out, 1).has_value());
}

void expect_passed(const reports::Result& result, const std::string& name) {
  const auto gate = std::find_if(result.gates.begin(), result.gates.end(),
                                 [&](const reports::Gate& one) { return one.name == name; });
  ASSERT_NE(gate, result.gates.end()) << name;
  EXPECT_EQ(gate->verdict, reports::Verdict::kPass) << gate->words;
}

double last_loss(const reports::Result& result) {
  return result.quality.evaluations.back().loss;
}

int64_t bytes_of(const reports::RankRecord& record, const std::string& owner) {
  return record.boundaries.back().by_category.at(owner);
}

TEST(RunByRanks, ends_as_that_of_one_process_and_tells_what_every_rank_found) {
  const TemporaryFolder folder;
  const fs::path one = folder.path() / "one";
  const fs::path two = folder.path() / "two";
  ASSERT_EQ(run_noisemark(short_run(one)).code, 0);
  const Finished run = run_noisemark(by_two(short_run(two)));
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_EQ(run.said(), "");
  EXPECT_EQ(run.out.find("CUSTOM"), run.out.rfind("CUSTOM")) << run.out;

  const reports::Result result = result_in(two);
  EXPECT_EQ(result.identity.ranks, 2);
  EXPECT_EQ(result.identity.backend, "gloo");
  ASSERT_EQ(result.ranks.size(), 2U);
  for (const reports::RankRecord& record : result.ranks) {
    EXPECT_EQ(record.samples.step_s.size(), 6U);
    EXPECT_EQ(record.samples.loss, result.samples.loss);
    EXPECT_FALSE(record.boundaries.empty());
  }
  for (const char* gate : {"rank_noise", "rank_weights", "rank_closure", "closure_boundaries"}) {
    expect_passed(result, gate);
  }
  // The order of sums moves float32 by some 1e-7, which Adam's first steps make larger; the bound
  // is that of the suite's definition of data parallelism.
  EXPECT_NEAR(last_loss(result), last_loss(result_in(one)), 1e-4 * last_loss(result));
  EXPECT_EQ(run_noisemark({"check", two.string()}).code, 0);
  EXPECT_EQ(run_noisemark({"compare", one.string(), two.string()}).code, 3);
  EXPECT_NE(file_bytes(two / "report.md").find("## Ranks"), std::string::npos);
  expect_no_rank_left(two);
}

TEST(RunByRanks, are_stages_of_a_pipeline_with_their_own_weights_and_a_bubble) {
  const TemporaryFolder folder;
  const fs::path one = folder.path() / "one";
  const fs::path stages = folder.path() / "stages";
  ASSERT_EQ(run_noisemark(short_run(one)).code, 0);
  const Finished run = run_noisemark(
      by_two(with(short_run(stages), {"--pipeline", "1f1b", "--micro-batches", "2"})));
  ASSERT_EQ(run.code, 0) << run.both();
  const reports::Result result = result_in(stages);
  EXPECT_EQ(result.identity.pipeline, "1f1b");
  EXPECT_EQ(result.identity.micro_batches, 2);
  for (const char* gate : {"rank_noise", "rank_weights", "rank_closure", "closure_boundaries"}) {
    expect_passed(result, gate);
  }
  // The order of sums, as for ranks that share a batch.
  EXPECT_NEAR(last_loss(result), last_loss(result_in(one)), 1e-4 * last_loss(result));
  const int64_t all = result_in(one).memory.boundaries.back().by_category.at("optimizer");
  int64_t sum = 0;
  for (const reports::RankRecord& record : result.ranks) {
    EXPECT_GT(record.blocks.value_or(0), 0);
    sum += bytes_of(record, "optimizer");
  }
  EXPECT_EQ(sum, all) << "every weight's state is on one stage";
  const std::string report = file_bytes(stages / "report.md");
  EXPECT_NE(report.find("### Pipeline"), std::string::npos);
  EXPECT_NE(report.find("The bubble is "), std::string::npos);
  EXPECT_EQ(run_noisemark({"check", stages.string()}).code, 0);
  const fs::path ranks = folder.path() / "ranks";
  ASSERT_EQ(run_noisemark(by_two(short_run(ranks))).code, 0);
  const Finished compared = run_noisemark({"compare", ranks.string(), stages.string()});
  EXPECT_EQ(compared.code, 3);
  EXPECT_NE(compared.out.find("identity.pipeline"), std::string::npos) << compared.out;
}

TEST(RunByRanks, refuse_a_pipeline_that_cannot_be) {
  const TemporaryFolder folder;
  const Texts run = by_two(short_run(folder.path() / "out"));
  const auto refusal = [&](const Texts& more) { return run_noisemark(with(run, more)).err; };
  EXPECT_NE(refusal({"--pipeline", "2f2b"}).find("one of: none, gpipe, 1f1b"), std::string::npos);
  EXPECT_NE(refusal({"--pipeline", "1f1b", "--micro-batches", "3"})
                .find("--micro-batches: 3 (a divisor of the batch"),
            std::string::npos);
  EXPECT_NE(refusal({"--pipeline", "1f1b", "--shard-optimizer"})
                .find("--pipeline: --shard-optimizer: given"),
            std::string::npos);
  EXPECT_NE(refusal({"--pipeline", "1f1b", "--reduce", "bf16"}).find("--pipeline: --reduce: bf16"),
            std::string::npos);
  EXPECT_NE(refusal({"--pipeline", "1f1b", "--mode", "budget:1GiB,error=0.01"})
                .find("--pipeline: --mode: budget:1GiB,error=0.01 (a budget without an error)"),
            std::string::npos);
  EXPECT_NE(refusal({"--micro-batches", "2"}).find("--micro-batches: 2 (only with --pipeline)"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
  EXPECT_EQ(run_noisemark(with(short_run(folder.path() / "one"), {"--pipeline", "gpipe"})).code, 2);
}

TEST(RunByRanks, keeps_the_certificate_of_a_lossless_mode) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished run = run_noisemark(by_two(with(short_run(out), {"--mode", "echo"})));
  ASSERT_EQ(run.code, 0) << run.both();
  for (const char* gate : {"certificate", "rank_closure"}) expect_passed(result_in(out), gate);
}

/// Runs two stages under a mode.
reports::Result stages_under(const std::string& mode, const fs::path& out) {
  const Finished run = run_noisemark(
      by_two(with(short_run(out), {"--pipeline", "1f1b", "--micro-batches", "2", "--mode", mode})));
  EXPECT_EQ(run.code, 0) << run.both();
  return result_in(out);
}

TEST(RunByRanks, are_stages_that_save_memory_and_prove_that_no_bit_changed) {
  const TemporaryFolder folder;
  const reports::Result result = stages_under("mirror+echo", folder.path() / "out");
  for (const char* gate : {"certificate", "plan", "rank_closure"}) expect_passed(result, gate);
  EXPECT_LT(result.memory.peak_saved_bytes, result.memory_mode.plain.peak_saved_bytes);
  for (const reports::RankRecord& rank : result.ranks) EXPECT_EQ(rank.fallbacks.size(), 3U);
}

int64_t peak_bytes_of(const reports::RankRecord& rank) {
  return rank.peak.allocator_bytes;
}

int64_t peak_saved_bytes_of(const reports::RankRecord& rank) {
  return rank.peak_saved_bytes.value();
}

using BytesOf = int64_t (*)(const reports::RankRecord&);

/// The most of any stage.
int64_t most(const reports::Result& result, BytesOf bytes_of) {
  int64_t bytes = 0;
  for (const reports::RankRecord& rank : result.ranks) bytes = std::max(bytes, bytes_of(rank));
  return bytes;
}

TEST(RunByRanks, are_stages_each_of_which_keeps_the_budget) {
  const TemporaryFolder folder;
  const reports::Result none = stages_under("none", folder.path() / "none");
  const std::vector<std::pair<std::string, BytesOf>> budgets{
      {"budget:", peak_bytes_of}, {"budget:saved=", peak_saved_bytes_of}};
  for (const auto& [budget, bytes_of] : budgets) {
    const int64_t bound = most(none, bytes_of) * 9 / 10;
    const fs::path out = folder.path() / std::to_string(bound);
    const reports::Result result = stages_under(budget + std::to_string(bound), out);
    for (const char* gate : {"certificate", "plan", "budget", "budget_steps", "rank_closure"}) {
      expect_passed(result, gate);
    }
    EXPECT_LE(most(result, bytes_of), bound);
  }
}

TEST(RunByRanks, are_stages_whose_rounding_has_one_error_of_all_gradients) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const reports::Result result = stages_under("dpr8", out);
  expect_passed(result, "plan");
  // Its least and its largest value are those of GradientError in passes/mode_figures_test.cpp.
  EXPECT_GT(result.memory_mode.gradient_error.error_frac.value_or(0), 1e-4);
  EXPECT_LT(result.memory_mode.gradient_error.error_frac.value_or(1), 0.25);
  EXPECT_EQ(result.memory_mode.gradient_error.tensors.size(),
            read_safetensors((out / "weights.safetensors").string()).tensors.size());
}

TEST(RunByRanks, name_the_rounding_of_gradients_which_is_other_work) {
  const TemporaryFolder folder;
  const fs::path exact = folder.path() / "exact";
  const fs::path rounded = folder.path() / "rounded";
  ASSERT_EQ(run_noisemark(by_two(short_run(exact))).code, 0);
  const Finished run = run_noisemark(by_two(with(short_run(rounded), {"--reduce", "bf16"})));
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_EQ(result_in(rounded).identity.reduction, "bf16");
  for (const char* gate : {"rank_weights", "rank_closure"}) {
    expect_passed(result_in(rounded), gate);
  }
  EXPECT_NE(file_bytes(rounded / "report.md").find("gradients rounded to bf16"), std::string::npos);
  const Finished compared = run_noisemark({"compare", exact.string(), rounded.string()});
  EXPECT_EQ(compared.code, 3);
  EXPECT_NE(compared.out.find("identity.reduction"), std::string::npos) << compared.out;
  const Finished judged = run_noisemark({"quality", exact.string(), rounded.string()});
  EXPECT_NE(judged.out.find("none-plain-fp32-bf16-reduced"), std::string::npos) << judged.both();
}

std::string weights_of(const fs::path& out) {
  const reports::Determinism& found = result_in(out).determinism;
  return found.weights_sha256 + found.ema_sha256;
}

TEST(RunByRanks, keep_shares_of_optimizer_and_average_and_every_bit_of_the_weights) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  const fs::path shared = folder.path() / "shared";
  ASSERT_EQ(run_noisemark(by_two(short_run(whole))).code, 0);
  const Finished run = run_noisemark(by_two(with(short_run(shared), {"--shard-optimizer"})));
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_EQ(weights_of(shared), weights_of(whole));
  const reports::Result result = result_in(shared);
  for (const char* gate : {"rank_weights", "rank_closure", "closure_peak"}) {
    expect_passed(result, gate);
  }
  for (const char* owner : {"optimizer", "ema"}) {
    const int64_t all = bytes_of(result_in(whole).ranks[0], owner);
    for (const reports::RankRecord& record : result.ranks) {
      // A share is equal to a block of 64 elements, of which Adam keeps two. Its counts of steps
      // are 4 bytes for each piece: there may be some more on one rank than on the other.
      EXPECT_LE(std::llabs(bytes_of(record, owner) - all / 2), 2 * 64 * 4 + 256) << owner;
    }
  }
  EXPECT_EQ(run_noisemark({"check", shared.string()}).code, 0);
  EXPECT_EQ(run_noisemark({"compare", whole.string(), shared.string()}).code, 3);
}

Texts with_checkpoints(const fs::path& out) {
  return with(timed_only(out, 12), {"--threads", "1", "--checkpoint-every", "4"});
}

TEST(RunByRanks, continue_from_their_checkpoint_with_every_bit) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  const fs::path out = folder.path() / "out";
  const Texts shares{"--ranks", "2", "--shard-optimizer"};
  ASSERT_EQ(run_noisemark(with(with_checkpoints(whole), shares)).code, 0);
  test::kill_after_a_checkpoint(with(with_checkpoints(out), shares), out);
  const Finished run = run_noisemark(with(with(with_checkpoints(out), shares), {"--resume"}));
  ASSERT_EQ(run.code, 0) << run.both();
  EXPECT_GE(result_in(out).protocol.resumed_at_step, 4);
  EXPECT_EQ(weights_of(out), weights_of(whole));
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
  // Nothing is left to do.
  const Finished again = run_noisemark(with(with(with_checkpoints(out), shares), {"--resume"}));
  EXPECT_EQ(again.code, 0) << again.both();
}

/// Moves the cut of a checkpoint's two stages behind the first part of the network.
void cut_behind_first_part(const std::string& checkpoint) {
  SafetensorsFile file = read_safetensors(checkpoint);
  std::string& division = file.metadata.at("division");
  division = division.substr(0, division.find(';')) + ";0 1";
  write_safetensors(checkpoint, file.tensors, file.metadata);
}

TEST(RunByRanks, keep_the_cuts_of_a_pipeline_when_they_continue) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Texts run = with(with_checkpoints(out), {"--ranks", "2", "--pipeline", "1f1b"});
  test::kill_after_a_checkpoint(run, out);
  cut_behind_first_part((out / "checkpoint.safetensors").string());
  const Finished resumed = run_noisemark(with(run, {"--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.both();
  const reports::Result result = result_in(out);
  EXPECT_GE(result.protocol.resumed_at_step, 4);
  ASSERT_EQ(result.ranks.size(), 2U);
  EXPECT_EQ(result.ranks[0].blocks, 1) << "the stages were divided anew";
  // The run looks killed after its last step. Ranks that share the batch continue it too.
  fs::remove(out / "result.json");
  const Finished others = run_noisemark(with(with_checkpoints(out), {"--ranks", "2", "--resume"}));
  EXPECT_EQ(others.code, 0) << others.both();
  EXPECT_EQ(result_in(out).protocol.resumed_at_step, 12);
}

TEST(RunByRanks, continue_what_another_number_of_ranks_began) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  ASSERT_EQ(run_noisemark(with_checkpoints(whole)).code, 0);
  int number = 0;
  const std::vector<std::pair<Texts, Texts>> ways{
      {{"--ranks", "2", "--shard-optimizer"}, {"--ranks", "4"}},
      {{"--ranks", "2"}, {}},
      {{}, {"--ranks", "2", "--shard-optimizer"}}};
  for (const auto& [first, then] : ways) {
    const fs::path out = folder.path() / std::to_string(number++);
    test::kill_after_a_checkpoint(with(with_checkpoints(out), first), out);
    const Finished run = run_noisemark(with(with(with_checkpoints(out), then), {"--resume"}));
    ASSERT_EQ(run.code, 0) << run.both();
    EXPECT_GE(result_in(out).protocol.resumed_at_step, 4);
    EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
    EXPECT_NEAR(last_loss(result_in(out)), last_loss(result_in(whole)),
                1e-4 * last_loss(result_in(whole)));
  }
}

TEST(RunByRanks, without_descriptors_says_what_is_wanting_and_blames_no_address) {
  for (const int limit : {8, 11, 14, 17, 20, 24}) {
    const TemporaryFolder folder;
    const Finished run =
        test::run_noisemark_after("ulimit -n " + std::to_string(limit),
                                  with(timed_only(folder.path() / "out"), {"--ranks", "2"}));
    EXPECT_EQ(run.code, 71) << limit << ": " << run.both();
    EXPECT_NE(run.err.find("too many open files (raise ulimit -n)"), std::string::npos)
        << limit << ": " << run.err;
    EXPECT_EQ(run.err.find("MASTER_ADDR"), std::string::npos) << limit << ": " << run.err;
  }
}

/// The ends of two ranks with these command lines, as torchrun would start them.
std::vector<Finished> started_by_others(const std::vector<Texts>& commands) {
  const std::string port = std::to_string(20'000 + getpid() % 10'000);
  std::vector<std::unique_ptr<Process>> ranks;
  for (const Texts& command : commands) {
    const std::string rank = std::to_string(ranks.size());
    ranks.push_back(std::make_unique<Process>(command, test::Variables{{"RANK", rank},
                                                                       {"LOCAL_RANK", rank},
                                                                       {"WORLD_SIZE", "2"},
                                                                       {"MASTER_ADDR", "127.0.0.1"},
                                                                       {"MASTER_PORT", port}}));
  }
  std::vector<Finished> ends;
  for (const auto& rank : ranks) ends.push_back(rank->wait());
  return ends;
}

TEST(RunByRanks, takes_ranks_that_were_started_by_others) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Texts command = noisemark_command(timed_only(out));
  for (const Finished& run : started_by_others({command, command})) {
    EXPECT_EQ(run.code, 0) << run.both();
  }
  EXPECT_EQ(result_in(out).ranks.size(), 2U);
  EXPECT_NE(result_in(out).repeat_command.find("--ranks 2"), std::string::npos);
}

/// Rank 1 may map no more than a small training needs, so the system refuses what a large one asks.
TEST(RunByRanks, ends_in_time_and_names_the_rank_whose_memory_is_full) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Texts run = with(timed_only(out), {"--set", "train.batch=1024"});
  const std::string limit = "ulimit -v " + std::to_string(test::address_space_kib() + 600'000);
  const Clock::time_point begin = Clock::now();
  const std::vector<Finished> ends =
      started_by_others({noisemark_command(run), noisemark_command(run, limit)});
  EXPECT_LE(std::chrono::duration<double>(Clock::now() - begin).count(), kLimit_s);
  for (const Finished& end : ends) EXPECT_EQ(end.code, 71) << end.both();
  EXPECT_NE(ends.front().err.find("rank 1: "), std::string::npos) << ends.front().err;
  const reports::Exit exit = result_in(out).exit;
  EXPECT_EQ(exit.code, 71);
  EXPECT_NE(exit.reasons.front().find("rank 1: "), std::string::npos) << exit.reasons.front();
}

TEST(RunByRanks, are_refused_by_commands_that_look_at_one_process) {
  const test::Variables ranks{{"RANK", "0"},
                              {"WORLD_SIZE", "2"},
                              {"LOCAL_RANK", "0"},
                              {"MASTER_ADDR", "127.0.0.1"},
                              {"MASTER_PORT", "29400"}};
  const std::vector<Texts> commands{{"profile", "gmm16@cpu"},
                                    {"predict", "gmm16@cpu", "--memory", "1GiB"},
                                    {"fit", "gmm16@cpu", "--memory", "1GiB"},
                                    {"plan", "gmm16@cpu", "--budget", "1GiB"},
                                    {"sweep", "gmm16@cpu", "--axis", "seed=1,2"},
                                    {"pace", "gmm16@cpu"}};
  for (const Texts& command : commands) {
    const Finished refused = run_noisemark(command, ranks);
    EXPECT_EQ(refused.code, 2) << command.front();
    EXPECT_EQ(refused.err.find("noisemark: " + command.front() + ": started as 2 ranks"), 0U)
        << refused.err;
  }
}

TEST(RunByRanks, refuses_ranks_of_different_definitions_or_programs) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Texts same = noisemark_command(timed_only(out));
  const Texts defined = noisemark_command(with(timed_only(out), {"--set", "optimizer.lr=0.002"}));
  Texts built = same;
  built.front() = (folder.path() / "noisemark").string();
  fs::copy_file(same.front(), built.front());
  std::ofstream(built.front(), std::ios::app) << '.';
  for (const auto& [other, what] : std::vector<std::pair<Texts, std::string>>{
           {defined, "definition, SHA-256"}, {built, "program, SHA-256"}}) {
    const std::vector<Finished> ends = started_by_others({same, other});
    EXPECT_EQ(ends[0].code, 3) << ends[0].both();
    EXPECT_NE(ends[0].err.find("noisemark: " + what + ": "), std::string::npos) << ends[0].err;
    EXPECT_NE(ends[0].err.find(" on rank 1, "), std::string::npos) << ends[0].err;
    EXPECT_EQ(ends[1].code, 3) << ends[1].both();
    EXPECT_FALSE(fs::exists(out / "result.json"));
  }
}

/// Threads are part of the identity: by default ranks share those of the machine.
TEST(Ranks, share_the_threads_of_the_machine_where_none_are_given) {
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  RunOptions options;
  options.id = "gmm16@cpu";
  options.device = "cpu";
  const auto threads = [&](int64_t ranks) {
    options.ranks = ranks;
    const PlannedRun plan = plan_runs(options).front();
    return identity_of(plan, *open_dataset(plan.spec.definition, "")).threads;
  };
  EXPECT_EQ(threads(1), 4);
  EXPECT_EQ(threads(2), 2);
  EXPECT_EQ(threads(3), 1);
  EXPECT_EQ(threads(8), 1) << "a rank without a thread does nothing";
  options.threads = 3;
  EXPECT_EQ(threads(2), 3) << "those that are given are of each rank";
  at::set_num_threads(before);
}

TEST(RunByRanks, refuses_what_ranks_cannot_do) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  test::expect_bad_input(
      with(timed_only(out), {"--ranks", "3"}),
      "ranks: 3 (a divisor of the 4 samples of a micro-batch; or --set train.batch=6)");
  test::expect_bad_input(with(timed_only(out), {"--reduce", "bf16"}),
                         "--reduce: bf16 for one process (several --ranks)");
  test::expect_bad_input(with(timed_only(out), {"--shard-optimizer"}),
                         "--shard-optimizer: given for one process (several --ranks)");
  test::expect_bad_input(by_two(with(timed_only(out), {"--fit-memory", "1GiB"})),
                         "--fit-memory: given for 2 ranks (one process)");
  const Finished other = run_noisemark(by_two(timed_only(out)), {{"RANK", "0"},
                                                                 {"LOCAL_RANK", "0"},
                                                                 {"WORLD_SIZE", "3"},
                                                                 {"MASTER_ADDR", "127.0.0.1"},
                                                                 {"MASTER_PORT", "29500"}});
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.err, "noisemark: --ranks: 2 (3, the ranks that were started)\n");
}

/// Loses a rank in the middle of the training.
struct Loss {
  Finished finished;
  double took_s = 0;
};

Loss lose(const fs::path& out, int64_t rank, int signal) {
  Process process(noisemark_command(endless(out)));
  EXPECT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
  const auto found = process_of(out, rank);
  EXPECT_TRUE(found.has_value());
  const Clock::time_point lost = Clock::now();
  if (found) kill(*found, signal);
  Loss loss{process.wait(), 0};
  loss.took_s = std::chrono::duration<double>(Clock::now() - lost).count();
  expect_no_rank_left(out);
  return loss;
}

TEST(RunByRanks, ends_in_time_and_names_the_rank_that_was_killed) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Loss loss = lose(out, 1, SIGKILL);
  EXPECT_EQ(loss.finished.code, 70) << loss.finished.both();
  EXPECT_NE(loss.finished.err.find("rank 1"), std::string::npos) << loss.finished.err;
  EXPECT_LE(loss.took_s, kLimit_s);
  const reports::Exit exit = result_in(out).exit;
  EXPECT_EQ(exit.code, 70);
  EXPECT_NE(exit.reasons.front().find("rank 1"), std::string::npos) << exit.reasons.front();
}

TEST(RunByRanks, ends_in_time_when_a_rank_is_stopped) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Loss loss = lose(out, 1, SIGSTOP);
  EXPECT_EQ(loss.finished.code, 70) << loss.finished.both();
  EXPECT_LE(loss.took_s, kLimit_s);
  EXPECT_NE(result_in(out).exit.reasons.front().find("rank 1"), std::string::npos);
}

TEST(RunByRanks, ends_in_time_without_a_whole_result_when_rank_0_is_killed) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Loss loss = lose(out, 0, SIGKILL);
  EXPECT_EQ(loss.finished.code, 70) << loss.finished.both();
  EXPECT_NE(loss.finished.err.find("rank 0"), std::string::npos) << loss.finished.err;
  EXPECT_LE(loss.took_s, kLimit_s);
  EXPECT_FALSE(fs::exists(out / "result.json"));
}

/// Signals a rank when rank 0 writes this file. While it writes the weights, the other one already
/// waits with what it found; while it writes the result, the other one ends.
void lose_at_the_end(int64_t rank, int signal, const std::string& file) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(
      noisemark_command(with(timed_only(out, 2), {"--threads", "1", "--set", "model.dim=64",
                                                  "--ranks", "2", "--timeout", "10"})));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
  const auto found = process_of(out, rank);
  ASSERT_TRUE(found.has_value());
  while (!fs::exists(out / file) && process.running()) {
  }
  kill(*found, signal);
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(30);
  while (process.running() && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_FALSE(process.running()) << "it waits for ever";
  const Finished finished = process.wait();
  const bool whole = fs::exists(out / "result.json") && result_in(out).exit.code == 0;
  EXPECT_TRUE(whole || finished.code != 0) << finished.both();
  EXPECT_TRUE(rank == 0 || !whole || finished.code == 0) << finished.both();
  expect_no_rank_left(out);
}

TEST(RunByRanks, end_as_the_result_says_when_one_is_lost_at_the_end) {
  for (const int64_t rank : {0, 1}) {
    for (const int signal : {SIGKILL, SIGSTOP})
      lose_at_the_end(rank, signal, "weights.safetensors");
  }
  lose_at_the_end(0, SIGSTOP, "result.json");
}

TEST(RunByRanks, stops_after_the_same_step_when_it_is_interrupted) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(endless(out)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().code, 130);
  const reports::Result result = result_in(out);
  EXPECT_EQ(result.exit.status, "interrupted");
  ASSERT_EQ(result.ranks.size(), 2U);
  EXPECT_EQ(result.ranks[0].samples.step_s.size(), result.ranks[1].samples.step_s.size());
  expect_no_rank_left(out);
}

TEST(RunByRanks, leaves_no_rank_behind_when_the_one_that_started_them_is_killed) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(endless(out)));
  ASSERT_TRUE(test::wait_for_file(out / "events.mlog", "run_start"));
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().code, 128 + SIGKILL);
  for (int tries = 0; tries < 500 && (process_of(out, 0) || process_of(out, 1)); ++tries) {
    usleep(10'000);
  }
  expect_no_rank_left(out);
}

}  // namespace
}  // namespace noisemark::suite
