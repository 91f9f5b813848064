#include "suite/run/sweep.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "suite/probes/convolutions.h"
#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// `noisemark sweep`, as a user meets it.
namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

/// The error's words; empty where it is accepted.
std::string refusal(const Texts& texts, const RunOptions& base = {}) {
  try {
    (void)sweep_cells(base, parse_axes(texts));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
    return error.what();
  }
}

bool starts(const std::string& text, const std::string& beginning) {
  return text.starts_with(beginning);
}

Texts names(const Texts& texts) {
  Texts all;
  for (const SweepCell& cell : sweep_cells({}, parse_axes(texts))) all.push_back(cell.name);
  return all;
}

TEST(SweepAxes, make_every_combination_in_the_order_given) {
  EXPECT_EQ(names({"batch=16,32", "mode=none,echo"}),
            (Texts{"batch=16,mode=none", "batch=16,mode=echo", "batch=32,mode=none",
                   "batch=32,mode=echo"}));
  EXPECT_EQ(names({"seed=3"}), Texts{"seed=3"});
  EXPECT_EQ(names({"seed=2,1", "threads=1,2", "precision=fp32"}).size(), 4U);
}

TEST(SweepAxes, give_each_cell_the_options_of_its_values_beside_those_of_all) {
  RunOptions base;
  base.id = "gmm16";
  base.sets = {"train.steps=4"};
  const auto cells =
      sweep_cells(base, parse_axes({"mode=echo", "baseline=fused+channels-last", "precision=bf16",
                                    "threads=2", "seed=7", "batch=8", "optimizer.lr=0.001"}));
  ASSERT_EQ(cells.size(), 1U);
  const RunOptions& options = cells.front().options;
  EXPECT_EQ(options.id, "gmm16");
  EXPECT_EQ(options.modes, Texts{"echo"});
  EXPECT_EQ(options.baselines, Texts{"fused+channels-last"});
  EXPECT_EQ(options.precision, "bf16");
  EXPECT_EQ(options.threads, 2);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_EQ(options.sets, (Texts{"train.steps=4", "train.batch=8", "optimizer.lr=0.001"}));
  EXPECT_TRUE(cells.front().environment.empty());
  EXPECT_EQ(cells.front().values.size(), 7U);
}

TEST(SweepAxes, give_the_limit_of_scratch_memory_to_the_cells_process) {
  const auto cells = sweep_cells({}, parse_axes({"cudnn.workspace_mib=0,64"}));
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0].environment, (Variables{{kWorkspaceLimitVariable, "0"}}));
  EXPECT_EQ(cells[1].environment, (Variables{{kWorkspaceLimitVariable, "64"}}));
  EXPECT_EQ(cells[1].name, "cudnn.workspace_mib=64");
  EXPECT_TRUE(cells[1].options.sets.empty());
}

TEST(SweepAxes, leave_a_mode_and_a_list_their_commas) {
  EXPECT_EQ(names({"mode=none,budget:1GiB,error=0.01,echo"}),
            (Texts{"mode=none", "mode=budget-1GiB,error=0.01", "mode=echo"}));
  EXPECT_EQ(names({"mode=budget:saved=14MiB,error=0.02,budget:saved=16MiB"}),
            (Texts{"mode=budget-saved=14MiB,error=0.02", "mode=budget-saved=16MiB"}));
  EXPECT_EQ(names({"model.dim_mults=[1,2],[1,2,4]"}),
            (Texts{"model.dim_mults=[1,2]", "model.dim_mults=[1,2,4]"}));
}

TEST(SweepAxes, name_a_mode_as_results_do) {
  EXPECT_EQ(names({"mode=budget:1024MiB"}), Texts{"mode=budget-1GiB"});
  EXPECT_EQ(refusal({"mode=budget:1GiB,budget:1024MiB"}),
            "--axis: mode: budget:1GiB: given twice (each once)");
}

TEST(SweepAxes, that_nobody_knows_are_told_the_nearest) {
  EXPECT_TRUE(starts(refusal({"bacth=1"}),
                     "--axis: bacth: unknown key (nearest \"batch\"; one of: "
                     "mode, baseline, precision, threads, ranks, pipeline, micro-batches, seed, "
                     "cudnn.workspace_mib, batch, "))
      << refusal({"bacth=1"});
  EXPECT_TRUE(starts(refusal({"train.stpes=1"}),
                     "--axis: train.stpes: unknown key (nearest \"train.steps\"; "));
  EXPECT_TRUE(starts(refusal({"cudnn.workspace=1"}), "--axis: cudnn.workspace: unknown key (near"));
  EXPECT_TRUE(starts(refusal({"device=cpu"}), "--axis: device: unknown key ("));
  EXPECT_TRUE(starts(refusal({"benchmark.id=x"}), "--axis: benchmark.id: unknown key ("))
      << "--set refuses it too";
}

TEST(SweepAxes, need_a_key_and_values) {
  EXPECT_EQ(refusal({}), "--axis: nothing given (KEY=V1,V2,...)");
  EXPECT_EQ(refusal({"batch"}), "--axis: batch (KEY=V1,V2,...)");
  EXPECT_EQ(refusal({"=1"}), "--axis: =1 (KEY=V1,V2,...)");
  for (const char* text : {"batch=", "batch=1,", "batch=,1", "batch=1,,2", "mode="}) {
    EXPECT_NE(refusal({text}).find("an empty value (KEY=V1,V2,...)"), std::string::npos) << text;
  }
}

TEST(SweepAxes, have_each_key_and_each_value_once) {
  EXPECT_EQ(refusal({"batch=1,2,1"}), "--axis: batch: 1: given twice (each once)");
  EXPECT_EQ(refusal({"seed=1", "seed=2"}), "--axis: seed: given twice (each once)");
  EXPECT_EQ(refusal({"batch=1", "train.batch=2"}), "--axis: train.batch: given twice (each once)");
}

TEST(SweepAxes, say_nothing_that_the_command_line_says_too) {
  RunOptions base;
  base.modes = {"echo"};
  base.sets = {"train.batch=4", "train.batches=1"};
  base.seed = 3;
  EXPECT_EQ(refusal({"mode=none"}, base), "--axis: mode: given with --mode (one of them)");
  EXPECT_EQ(refusal({"seed=1"}, base), "--axis: seed: given with --seed (one of them)");
  EXPECT_EQ(refusal({"batch=1"}, base),
            "--axis: batch: given with --set train.batch (one of them)");
  EXPECT_EQ(refusal({"baseline=plain", "train.steps=1"}, base), "");
}

TEST(SweepAxes, refuse_values_that_no_cell_could_take) {
  EXPECT_TRUE(starts(refusal({"mode=ecoh"}),
                     "--axis: mode: \"ecoh\" (nearest: \"echo\"; accepted: none, or some of "));
  EXPECT_TRUE(starts(refusal({"baseline=fusde"}), "--axis: baseline: \"fusde\" (nearest: "));
  EXPECT_NE(refusal({"precision=fp23"}), "");
  EXPECT_EQ(refusal({"precision=fp32,tf32,fp16"}), "") << "a GPU has them all";
  EXPECT_EQ(refusal({"threads=0"}), "--axis: threads: 0 (an integer of at least 1)");
  EXPECT_EQ(refusal({"seed=-1"}), "--axis: seed: -1 (an integer of at least 0)");
  EXPECT_EQ(refusal({"cudnn.workspace_mib=64MiB"}),
            "--axis: cudnn.workspace_mib: 64MiB (an integer of at least 0)");
  EXPECT_EQ(refusal({"model.name=a/b"}),
            "--axis: model.name: a/b (a value without a slash: it names a folder)");
}

namespace fs = std::filesystem;
using test::file_bytes;
using test::Finished;
using test::noisemark_command;
using test::Process;
using test::result_in;
using test::run_noisemark;
using test::run_noisemark_after;
using test::TemporaryFolder;
using test::with;

using Texts = std::vector<std::string>;

/// Steps of a fraction of a second.
Texts short_sweep(const fs::path& out, const Texts& axes, int64_t steps = 4) {
  Texts words{"sweep", "gmm16@cpu", "--device", "cpu", "--out", out.string(), "--no-profile"};
  for (const std::string& set : {"train.steps=" + std::to_string(steps),
                                 std::string("eval.samples=8"), std::string("eval.every=0")}) {
    words.insert(words.end(), {"--set", set});
  }
  for (const std::string& axis : axes) words.insert(words.end(), {"--axis", axis});
  return words;
}

Texts timed_sweep(const fs::path& out, const Texts& axes, int64_t steps = 4) {
  return with(short_sweep(out, axes, steps), {"--no-memory", "--no-certificate"});
}

/// The rows of the table, cells joined by one bar.
Texts rows_of(const std::string& text) {
  Texts rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_head = line.find("images/s [") != std::string::npos || line.starts_with("| --");
    if (!line.starts_with("| ") || is_head) continue;
    std::string row;
    for (const char c : line) {
      if (c != ' ' || (!row.empty() && row.back() != '|' && row.back() != ' ')) row += c;
      if (c == '|' && row.size() > 1 && row[row.size() - 2] == ' ') row.erase(row.size() - 2, 1);
    }
    rows.push_back(row);
  }
  return rows;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(reports::finished_page(part)) != std::string::npos;
}

TEST(Sweep, has_a_run_and_a_row_for_every_combination) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished sweep = run_noisemark(
      with(short_sweep(out, {"batch=2,4", "mode=none,echo"}), {"--no-certificate", "--html"}));
  ASSERT_EQ(sweep.code, 0) << sweep.both();
  EXPECT_TRUE(has(file_bytes(out / "sweep.html"), "<title>Sweep of gmm16@cpu</title>"));
  const std::string table = file_bytes(out / "sweep.md");
  EXPECT_TRUE(has(sweep.out, table)) << sweep.out;
  EXPECT_TRUE(has(table, "# Sweep of gmm16@cpu\n\n4 of 4 cells ended, 4 custom (")) << table;
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 4U) << table;
  size_t row = 0;
  for (const char* batch : {"2", "4"}) {
    for (const char* mode : {"none", "echo"}) {
      const fs::path cell = out / ("batch=" + std::string(batch) + ",mode=" + mode);
      EXPECT_EQ(result_in(cell).protocol.batch, std::stoi(batch));
      EXPECT_EQ(result_in(cell).identity.mode, mode);
      EXPECT_TRUE(rows[row].starts_with("|" + std::string(batch) + "|" + mode + "|CUSTOM|"))
          << rows[row];
      EXPECT_TRUE(has(rows[row], "MiB|") || has(rows[row], "KiB|")) << rows[row];
      ++row;
    }
  }
  EXPECT_TRUE(has(table, "No convolution workspace: on a CPU")) << table;
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
  EXPECT_TRUE(has(run_noisemark({"table", out.string()}).out, "batch=4,mode=echo"));
}

TEST(Sweep, of_ranks_and_pipelines_passes_and_shows_which_of_them_cannot_be) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished sweep =
      run_noisemark(with(timed_sweep(out, {"ranks=1,2", "pipeline=none,1f1b"}), {"--threads=1"}));
  EXPECT_EQ(sweep.code, 0) << sweep.both();
  const std::string table = file_bytes(out / "sweep.md");
  EXPECT_TRUE(has(table, "3 of 3 cells ended, 1 not possible, 3 custom (")) << table;
  const Texts rows = rows_of(table);
  ASSERT_GE(rows.size(), 4U) << table;
  EXPECT_TRUE(rows[0].starts_with("|1|none|CUSTOM|")) << rows[0];
  EXPECT_TRUE(rows[1].starts_with("|1|1f1b|not possible|–|")) << rows[1];
  EXPECT_TRUE(rows[2].starts_with("|2|none|CUSTOM|")) << rows[2];
  EXPECT_TRUE(rows[3].starts_with("|2|1f1b|CUSTOM|")) << rows[3];
  EXPECT_TRUE(has(table, "- `ranks=1,pipeline=1f1b`: --pipeline: 1f1b for one process")) << table;
  EXPECT_TRUE(has(table, "## Scaling")) << table;
  EXPECT_EQ(result_in(out / "ranks=1,pipeline=none").ranks.size(), 0U);
  EXPECT_EQ(result_in(out / "ranks=2,pipeline=none").ranks.size(), 2U);
  EXPECT_EQ(result_in(out / "ranks=2,pipeline=1f1b").identity.pipeline, "1f1b");
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
  // Without an axis of ranks a pipeline is what the user asks for, and not had by one process.
  EXPECT_EQ(run_noisemark(timed_sweep(folder.path() / "one", {"pipeline=none,1f1b"})).code, 2);
}

TEST(Sweep, goes_on_after_a_cell_that_fails_and_ends_with_its_exit_code) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished sweep =
      run_noisemark(with(timed_sweep(out, {"optimizer.lr=1e30,1e-4", "batch=0,2"}),
                         {"--set", "optimizer.clip_norm=0"}));
  EXPECT_EQ(sweep.code, 1) << sweep.both();
  const std::string table = file_bytes(out / "sweep.md");
  EXPECT_TRUE(has(table, "0 of 4 cells passed, 3 did not pass, 1 custom (")) << table;
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 4U) << table;
  EXPECT_TRUE(rows[0].starts_with("|1e30|0|no result, exit code 2|–|")) << rows[0];
  EXPECT_TRUE(rows[1].starts_with("|1e30|2|FAIL, exit code 1|")) << rows[1];
  EXPECT_TRUE(rows[3].starts_with("|1e-4|2|CUSTOM|")) << rows[3];
  EXPECT_TRUE(has(table, "- `optimizer.lr=1e30,batch=0`: --set: train.batch: 0 (")) << table;
}

TEST(Sweep, says_why_a_cell_left_no_result_also_when_its_report_is_written_again) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const std::string missing = (folder.path() / "missing").string();
  const Finished sweep =
      run_noisemark(with(short_sweep(out, {"seed=1"}), {"--init-weights", missing}));
  EXPECT_EQ(sweep.code, 2) << sweep.both();
  const std::string why = "it left no result: " + missing + ": cannot be read: No such file";
  EXPECT_TRUE(has(file_bytes(out / "sweep.md"), "- `seed=1`: " + why)) << sweep.out;
  const Finished checked = run_noisemark({"check", out.string()});
  EXPECT_TRUE(has(checked.out, "seed=1: lost: " + why)) << checked.both();
  fs::remove(out / "report.md");
  (void)run_noisemark({"report", out.string()});
  EXPECT_TRUE(has(file_bytes(out / "report.md"), "- `seed=1`: " + why));
}

TEST(Sweep, takes_no_result_that_another_run_left_in_a_cell_before_it) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Texts words = timed_sweep(out, {"seed=1,2"});
  Process process(noisemark_command(words));
  ASSERT_TRUE(test::wait_for_file(out / "seed=1" / "events.mlog", "init_start"));
  process.signal_all(SIGSTOP);
  const fs::path cell = out / "seed=2";
  const Finished other = run_noisemark(with(test::timed_only(cell, 2), {"--seed", "77"}));
  EXPECT_EQ(other.code, 0) << other.both();
  process.signal_all(SIGCONT);
  EXPECT_EQ(process.wait().code, 2);
  EXPECT_EQ(result_in(cell).seeds.base, 77U) << "it stays where it is";

  const std::string why = "it left no result: the one there is of another run: --out: ";
  const std::string page = file_bytes(out / "sweep.md");
  EXPECT_TRUE(has(page, "0 of 2 cells passed, 1 did not pass, 1 custom (")) << page;
  EXPECT_TRUE(has(page, "- `seed=2`: " + why)) << page;
  EXPECT_TRUE(has(file_bytes(out / "report.md"), "- `seed=2`: " + why));
  for (const char* command : {"check", "table", "report"}) {
    const Finished asked = run_noisemark({command, out.string()});
    EXPECT_NE(asked.code, 0) << command;
    EXPECT_NE(asked.both().find("the one there is of another run"), std::string::npos)
        << command << asked.both();
    EXPECT_EQ(asked.out.find("train.steps=2"), std::string::npos) << asked.out;
  }
  const Finished resumed = run_noisemark(with(words, {"--resume"}));
  EXPECT_EQ(resumed.code, 3) << resumed.both();
  fs::remove_all(cell);
  EXPECT_EQ(run_noisemark(with(words, {"--resume"})).code, 0);
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
}

TEST(Sweep, by_force_owns_what_replaced_the_result_of_another_run) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(with(timed_sweep(out, {"seed=1,2"}), {"--force"})));
  ASSERT_TRUE(test::wait_for_file(out / "seed=1" / "events.mlog", "init_start"));
  process.signal_all(SIGSTOP);
  const fs::path cell = out / "seed=2";
  ASSERT_EQ(run_noisemark(with(test::timed_only(cell, 2), {"--seed", "77"})).code, 0);
  process.signal_all(SIGCONT);
  EXPECT_EQ(process.wait().code, 0);
  EXPECT_EQ(result_in(cell).seeds.base, 2U);
  const Finished checked = run_noisemark({"check", out.string()});
  EXPECT_EQ(checked.code, 0) << checked.both();
}

TEST(Sweep, that_is_killed_takes_no_result_of_a_cell_that_it_had_not_begun) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  Process process(noisemark_command(timed_sweep(out, {"seed=1,2"}, 100'000)));
  ASSERT_TRUE(test::wait_for_file(out / "seed=1" / "events.mlog", "init_start"));
  process.signal_all(SIGKILL);
  (void)process.wait();
  ASSERT_EQ(run_noisemark(with(test::timed_only(out / "seed=2", 2), {"--seed", "77"})).code, 0);
  const Finished checked = run_noisemark({"check", out.string()});
  EXPECT_EQ(checked.code, 1) << checked.both();
  EXPECT_TRUE(has(checked.out, "result.json: lost: it left no result: the one there is of another"))
      << checked.out;
}

TEST(Sweep, finds_where_memory_ends_and_passes) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  // A network of 384 channels takes half a GiB, and three times that with its optimizer.
  const std::string limit = "ulimit -v " + std::to_string(test::address_space_kib() + 1'100'000);
  const Finished sweep =
      run_noisemark_after(limit, with(timed_sweep(out, {"model.dim=384,16"}), {"--threads=1"}));
  EXPECT_EQ(sweep.code, 0) << sweep.both();
  const std::string table = file_bytes(out / "sweep.md");
  EXPECT_TRUE(has(table, "0 of 2 cells passed, 1 ran out of memory, 1 custom (")) << table;
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 2U) << table;
  EXPECT_TRUE(rows[0].starts_with("|384|OUT OF MEMORY, exit code 71|")) << rows[0];
  EXPECT_TRUE(rows[1].starts_with("|16|CUSTOM|")) << rows[1];
}

TEST(Sweep, gives_the_limit_of_scratch_memory_to_each_cell_and_shows_it) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished sweep = run_noisemark(short_sweep(out, {"cudnn.workspace_mib=8,64"}));
  ASSERT_EQ(sweep.code, 0) << sweep.both();
  for (const int64_t mib : {8, 64}) {
    const fs::path cell = out / ("cudnn.workspace_mib=" + std::to_string(mib));
    EXPECT_EQ(result_in(cell).memory.convolution_workspace.limit_bytes, mib << 20);
    EXPECT_TRUE(has(file_bytes(cell / "report.md"), "Whether the limit of "));
  }
  const std::string table = file_bytes(out / "sweep.md");
  EXPECT_TRUE(has(table, "– (limit 8.00 MiB: not known)")) << table;
  EXPECT_TRUE(has(run_noisemark({"table", out.string()}).out, "not known"));
}

TEST(Sweep, resumed_leaves_finished_cells_alone_and_makes_the_others) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_sweep(out, {"batch=2,4"})).code, 0);
  const std::string first = result_in(out / "batch=2").run_id;
  const std::string second = result_in(out / "batch=4").run_id;
  fs::remove(out / "batch=4" / "result.json");  // a kill before the result leaves this

  const Texts more = timed_sweep(out, {"batch=2,4,8"});
  EXPECT_EQ(run_noisemark(more).code, 2) << "the folder holds a sweep";
  const Finished resumed = run_noisemark(with(more, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_EQ(result_in(out / "batch=2").run_id, first);
  EXPECT_NE(result_in(out / "batch=4").run_id, second);
  EXPECT_EQ(rows_of(file_bytes(out / "sweep.md")).size(), 3U);

  const Finished other = run_noisemark(with(more, {"--resume", "--seed", "9"}));
  EXPECT_EQ(other.code, 3) << other.both();
  EXPECT_EQ(result_in(out / "batch=2").run_id, first);
  const Finished run = run_noisemark(
      {"run", "gmm16@cpu", "--device", "cpu", "--seeds", "2", "--resume", "--out", out.string()});
  EXPECT_EQ(run.code, 3) << "it is no suite of that name: " << run.both();
}

TEST(Sweep, that_is_interrupted_shows_what_was_not_started) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Texts words = timed_sweep(out, {"seed=1,2,3"}, 40);
  {
    Process process(noisemark_command(words));
    // The first cell is then over, and the second cannot be.
    ASSERT_TRUE(test::wait_for_file(out / "seed=2" / "events.mlog", "run_start"));
    process.signal(SIGINT);
    expect_interrupted(process.wait(), "noisemark: interrupted", out.string());
  }
  const std::string table = file_bytes(out / "sweep.md");
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 3U) << table;
  EXPECT_TRUE(rows[0].starts_with("|1|CUSTOM|")) << rows[0];
  EXPECT_TRUE(rows[2].starts_with("|3|not started|")) << rows[2];
  const Finished resumed = run_noisemark(with(words, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_TRUE(has(file_bytes(out / "sweep.md"), "3 of 3 cells ended, 3 custom ("));
}

TEST(Sweep, that_has_no_cell_to_run_is_refused_before_anything_is_made) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished threads = run_noisemark(timed_sweep(out, {"threads=99998,99999"}));
  EXPECT_EQ(threads.code, 2) << threads.both();
  EXPECT_TRUE(has(threads.err, "--threads: 99998 (at most ")) << threads.err;
  const Finished key = run_noisemark(timed_sweep(out, {"bacth=2"}));
  EXPECT_EQ(key.code, 2);
  EXPECT_TRUE(has(key.err, "nearest \"batch\"")) << key.err;
  const Finished suite = run_noisemark({"sweep", "smoke", "--axis", "seed=1"});
  EXPECT_EQ(suite.err, "noisemark: sweep: smoke: a suite (one benchmark, or a definition file)\n");
  EXPECT_EQ(run_noisemark({"sweep", "gmm16"}).code, 2);
  EXPECT_FALSE(fs::exists(out));
}

TEST(Sweep, takes_over_only_the_folder_of_a_sweep) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "sweep.md") << "years of work";
  for (const char* option : {"--force", "--resume"}) {
    EXPECT_EQ(run_noisemark(with(timed_sweep(folder.path(), {"seed=1"}), {option})).code, 2);
  }
  EXPECT_EQ(file_bytes(folder.path() / "sweep.md"), "years of work");
}

}  // namespace
}  // namespace noisemark::suite
