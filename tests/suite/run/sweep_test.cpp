#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/suite/process.h"
#include "tests/suite/run/short_run.h"

/// `noisemark sweep`, as a user meets it.
namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
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

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
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
  return text.find(part) != std::string::npos;
}

TEST(Sweep, has_a_run_and_a_row_for_every_combination) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished sweep =
      run_noisemark(with(short_sweep(out, {"batch=2,4", "mode=none,echo"}), {"--no-certificate"}));
  ASSERT_EQ(sweep.code, 0) << sweep.both();
  const std::string table = text_of(out / "sweep.md");
  EXPECT_TRUE(has(sweep.out, table)) << sweep.out;
  EXPECT_TRUE(has(table, "# Sweep of gmm16@cpu\n\n4 of 4 cells passed.\n")) << table;
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 4U) << table;
  size_t row = 0;
  for (const char* batch : {"2", "4"}) {
    for (const char* mode : {"none", "echo"}) {
      const fs::path cell = out / ("batch=" + std::string(batch) + ",mode=" + mode);
      EXPECT_EQ(result_in(cell).protocol.batch, std::stoi(batch));
      EXPECT_EQ(result_in(cell).identity.mode, mode);
      EXPECT_TRUE(rows[row].starts_with("|" + std::string(batch) + "|" + mode + "|")) << rows[row];
      EXPECT_TRUE(has(rows[row], "MiB|none|CUSTOM|") || has(rows[row], "KiB|none|CUSTOM|"))
          << rows[row];
      ++row;
    }
  }
  EXPECT_TRUE(has(table, "No convolution workspace: on a CPU")) << table;
  EXPECT_EQ(run_noisemark({"check", out.string()}).code, 0);
  EXPECT_TRUE(has(run_noisemark({"table", out.string()}).out, "batch=4,mode=echo"));
}

TEST(Sweep, goes_on_after_a_cell_that_fails_and_ends_with_its_exit_code) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished sweep =
      run_noisemark(with(timed_sweep(out, {"optimizer.lr=1e30,1e-4", "batch=0,2"}),
                         {"--set", "optimizer.clip_norm=0"}));
  EXPECT_EQ(sweep.code, 1) << sweep.both();
  const std::string table = text_of(out / "sweep.md");
  EXPECT_TRUE(has(table, "1 of 4 cells passed, 3 did not pass.")) << table;
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 4U) << table;
  EXPECT_TRUE(rows[0].starts_with("|1e30|0|none||")) << rows[0];
  EXPECT_TRUE(rows[0].ends_with("|no result, exit code 2|")) << rows[0];
  EXPECT_TRUE(rows[1].ends_with("|FAIL, exit code 1|")) << rows[1];
  EXPECT_TRUE(rows[3].ends_with("|CUSTOM|")) << rows[3];
  EXPECT_TRUE(has(table, "- `optimizer.lr=1e30,batch=0`: --set: train.batch: 0 (")) << table;
}

/// Of this process, which has loaded the libraries that the program loads.
int64_t address_space_kib() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST(Sweep, finds_where_memory_ends_and_passes) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  // A network of 384 channels takes half a GiB, and three times that with its optimizer.
  const std::string limit = "ulimit -v " + std::to_string(address_space_kib() + 1'100'000);
  const Finished sweep =
      run_noisemark_after(limit, with(timed_sweep(out, {"model.dim=384,16"}), {"--threads=1"}));
  EXPECT_EQ(sweep.code, 0) << sweep.both();
  const std::string table = text_of(out / "sweep.md");
  EXPECT_TRUE(has(table, "1 of 2 cells passed, 1 found no memory.")) << table;
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 2U) << table;
  EXPECT_TRUE(rows[0].ends_with("|OUT OF MEMORY, exit code 71|")) << rows[0];
  EXPECT_TRUE(rows[1].ends_with("|CUSTOM|")) << rows[1];
}

TEST(Sweep, gives_the_limit_of_scratch_memory_to_each_cell_and_shows_it) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Finished sweep = run_noisemark(short_sweep(out, {"cudnn.workspace_mib=8,64"}));
  ASSERT_EQ(sweep.code, 0) << sweep.both();
  for (const int64_t mib : {8, 64}) {
    const fs::path cell = out / ("cudnn.workspace_mib=" + std::to_string(mib));
    EXPECT_EQ(result_in(cell).memory.convolution_workspace.limit_bytes, mib << 20);
    EXPECT_TRUE(has(text_of(cell / "report.md"), "Whether the limit of "));
  }
  const std::string table = text_of(out / "sweep.md");
  EXPECT_TRUE(has(table, "none (limit 8.00 MiB: not known)")) << table;
  EXPECT_TRUE(has(run_noisemark({"table", out.string()}).out, "not known"));
}

TEST(Sweep, resumed_leaves_finished_cells_alone_and_makes_the_others) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ASSERT_EQ(run_noisemark(timed_sweep(out, {"batch=2,4"})).code, 0);
  const std::string first = result_in(out / "batch=2").run_id;
  const std::string second = result_in(out / "batch=4").run_id;
  fs::remove(out / "batch=4" / "result.json");  // as if killed before the result

  const Texts more = timed_sweep(out, {"batch=2,4,8"});
  EXPECT_EQ(run_noisemark(more).code, 2) << "the folder holds a sweep";
  const Finished resumed = run_noisemark(with(more, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_EQ(result_in(out / "batch=2").run_id, first);
  EXPECT_NE(result_in(out / "batch=4").run_id, second);
  EXPECT_EQ(rows_of(text_of(out / "sweep.md")).size(), 3U);

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
    process.signal_all(SIGINT);
    EXPECT_EQ(process.wait().code, 130);
  }
  const std::string table = text_of(out / "sweep.md");
  const Texts rows = rows_of(table);
  ASSERT_EQ(rows.size(), 3U) << table;
  EXPECT_TRUE(rows[0].ends_with("|CUSTOM|")) << rows[0];
  EXPECT_TRUE(rows[2].ends_with("|not started|")) << rows[2];
  const Finished resumed = run_noisemark(with(words, {"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.both();
  EXPECT_TRUE(has(text_of(out / "sweep.md"), "3 of 3 cells passed."));
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
  EXPECT_EQ(text_of(folder.path() / "sweep.md"), "years of work");
}

}  // namespace
}  // namespace noisemark::suite
