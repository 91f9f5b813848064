#include "suite/probes/snapshot_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

#include "memopt/accounting/attribution.h"
#include "memopt/accounting/tracking_allocator.h"
#include "reports/base/file.h"
#include "suite/probes/memory_probe.h"
#include "tests/memopt/nets.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using Kind = memopt::LogEvent::Kind;

struct Answer {
  int code = 0;
  std::string text;
};

/// Returns what the script beside this test says of a file: «pickle» shows the value, «snapshot»
/// checks it as PyTorch's memory viewer reads it.
Answer ask_python(const std::string& what, const std::string& pickle) {
  const fs::path file =
      fs::path(testing::TempDir()) / ("snapshot_" + std::to_string(getpid()) + ".pickle");
  reports::write_file_atomically(file, pickle);
  const char* python = std::getenv("NOISEMARK_PYTHON");
  const std::string command = std::string(python == nullptr ? "python3" : python) +
                              " -B " NOISEMARK_SNAPSHOT_CHECK " " + what + " " + file.string() +
                              " 2>&1";
  Answer answer;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part{};
  for (size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    answer.text.append(part.data(), n);
  }
  answer.code = WEXITSTATUS(pclose(pipe));
  fs::remove(file);
  return answer;
}

TEST(PickleWriter, writes_what_python_reads) {
  PickleWriter out;
  out.begin_dict();
  out.text("integers");
  out.begin_list();
  for (const int64_t value :
       {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{65535}, int64_t{65536}, int64_t{2147483647},
        int64_t{2147483648}, int64_t{-1}, int64_t{-2147483648}, int64_t{-2147483649},
        std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    out.integer(value);
  }
  out.end_list();
  out.text("numbers");
  out.begin_list();
  for (const double value : {0.0, -0.1, 1e300}) out.number(value);
  out.end_list();
  out.text("texts");
  out.begin_list();
  for (const char* value : {"", "a", "a", "µs"}) out.text(value);
  out.end_list();
  out.text("empty");
  out.begin_dict();
  out.end_dict();
  out.end_dict();
  const Answer answer = ask_python("pickle", out.finish());
  EXPECT_EQ(answer.text,
            "{'integers': [0, 255, 256, 65535, 65536, 2147483647, 2147483648, -1, -2147483648, "
            "-2147483649, 9223372036854775807, -9223372036854775808], 'numbers': [0.0, -0.1, "
            "1e+300], 'texts': ['', 'a', 'a', 'µs'], 'empty': {}}\n");
  EXPECT_EQ(answer.code, 0);
}

TEST(PickleWriter, refers_to_what_it_remembers_also_beyond_255_values) {
  PickleWriter out;
  out.begin_list();
  for (int i = 0; i < 300; ++i) out.text("text " + std::to_string(i));
  EXPECT_FALSE(out.recall("a list"));
  out.begin_list();
  out.text("text 299");
  out.end_list();
  out.remember("a list");
  EXPECT_TRUE(out.recall("a list"));
  out.text("text 0");
  out.end_list();
  const std::string text = ask_python("pickle", out.finish()).text;
  EXPECT_TRUE(text.ends_with("'text 299', ['text 299'], ['text 299'], 'text 0']\n"))
      << text.substr(text.size() - 200);
}

TEST(AddressSpace, uses_again_what_is_given_back_and_joins_it) {
  AddressSpace space;
  const int64_t a = space.take(100);
  const int64_t b = space.take(513);
  const int64_t c = space.take(0);
  EXPECT_EQ(a, AddressSpace::kBegin);
  EXPECT_EQ(b, a + 512);
  EXPECT_EQ(c, b + 1024) << "513 bytes take two units, none takes one";
  EXPECT_EQ(space.extent(), 2048);
  space.give_back(a, 100);
  EXPECT_EQ(space.take(600), c + 512) << "too large for the gap";
  space.give_back(b, 513);
  EXPECT_EQ(space.take(1536), a) << "two gaps became one";
  EXPECT_EQ(space.extent(), 3072);
}

/// A step of three blocks: one from before, one that stays, one that goes.
memopt::AllocationRecord small_record() {
  memopt::AllocationRecord record;
  record.baseline.live_bytes = 1000;
  const auto add = [&](Kind kind, uint64_t number, int64_t bytes, uint32_t frame) {
    memopt::LogEvent event;
    event.kind = kind;
    event.frame = frame;
    event.block = {number, bytes, memopt::Owner::kUnattributed};
    event.time_ns = static_cast<int64_t>(record.events.size() + 1) * 1000;
    record.events.push_back(event);
  };
  const auto walk = [&](const std::string& name, std::vector<memopt::OwnedBlock> owned) {
    add(Kind::kMark, 0, 0, 0);
    memopt::LogMark mark;
    mark.name = name;
    mark.walked = true;
    mark.instant = record.events.size();
    mark.owned = std::move(owned);
    record.marks.push_back(mark);
  };
  walk("step_begin", {{{7, 600}, memopt::Owner::kWeights}});
  memopt::OperatorFrame outer, inner;
  outer.name = "aten::conv2d";
  inner.name = "aten::convolution";
  inner.parent = 1;
  record.frames = {outer, inner};
  add(Kind::kAllocate, 8, 2000, 2);
  add(Kind::kSaved, 8, 2000, 0);
  add(Kind::kAllocate, 9, 100, 1);
  add(Kind::kRelease, 9, 100, 0);
  walk("step_end", {{{7, 600}, memopt::Owner::kWeights}});
  return record;
}

TEST(Snapshot, has_every_block_with_its_owner_operators_and_phase) {
  const Answer answer = ask_python("trace", snapshot_of(small_record(), c10::Device("cpu")));
  EXPECT_EQ(answer.text,
            "alloc 600 weights 0: weights, before the step\n"
            "alloc 400 unknown 0: unknown, before the step\n"
            "alloc 2000 activations 2: activations, aten::convolution, aten::conv2d, step_begin\n"
            "alloc 100 temporary 4: temporary, aten::conv2d, step_begin\n"
            "free_requested 100 temporary 5: temporary, aten::conv2d, step_begin\n"
            "free_completed 100 temporary 5: temporary, aten::conv2d, step_begin\n"
            "snapshot 0 unknown 6: \n");
  EXPECT_EQ(answer.code, 0);
}

TEST(Snapshot, gives_what_it_has_not_seen_to_the_owners_that_a_result_gives_it_to) {
  memopt::AllocationRecord record = small_record();
  record.baseline.born_bytes[static_cast<size_t>(memopt::Owner::kInput)] = 300;
  record.events[1].block.born_as = memopt::Owner::kInput;  // born later: no part of the 300
  const memopt::OwnedInstant opening = memopt::attribute(record).timeline.front();
  EXPECT_EQ(opening.of(memopt::Owner::kInput), 300);
  const Answer answer = ask_python("trace", snapshot_of(record, c10::Device("cpu")));
  EXPECT_TRUE(
      answer.text.starts_with("alloc 600 weights 0: weights, before the step\n"
                              "alloc 300 input 0: input, before the step\n"
                              "alloc 100 unknown 0: unknown, before the step\n"))
      << answer.text;
  EXPECT_EQ(ask_python("snapshot", snapshot_of(record, c10::Device("cpu"))).code, 0);
}

TEST(Snapshot, is_read_by_the_memory_viewer) {
  const Answer answer = ask_python("snapshot", snapshot_of(small_record(), c10::Device("cpu")));
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_NE(answer.text.find("live at the end: 3000 bytes in 3 blocks"), std::string::npos)
      << answer.text;
}

TEST(Snapshot, of_a_gpu_stands_at_its_number) {
  const Answer answer = ask_python("snapshot", snapshot_of(small_record(), c10::Device("cuda:2")));
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_NE(answer.text.find("devices: 0 0 7"), std::string::npos) << answer.text;
}

TEST(Snapshot, of_an_empty_log_is_read_too) {
  const Answer answer = ask_python("snapshot", snapshot_of({}, c10::Device("cpu")));
  EXPECT_EQ(answer.code, 0) << answer.text;
}

TEST(Snapshot, of_a_training_step_adds_up_to_what_was_live) {
  memopt::test::SmallNet net;
  const auto mode = memopt::make_mode("none");
  MemoryProbe probe(*mode, [&] {
    OwnerRoots roots;
    roots.held[memopt::Owner::kWeights] = net.parameters;
    roots.parameters = net.parameters;
    roots.held[memopt::Owner::kOptimizer] = net.optimizer_state();
    roots.held[memopt::Owner::kEma] = net.ema;
    return roots;
  });
  const at::Tensor x = at::randn({2, 3, 16, 16});
  net.train_step(x, x);
  probe.arm(1);
  probe.on_step_begin(1);
  net.train_step(x, x);
  probe.on_step_end(1);
  const int64_t live = probe.section().boundaries.back().allocator_bytes;
  const Answer answer = ask_python("snapshot", snapshot_of(probe.record(), c10::Device("cpu")));
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_NE(answer.text.find("live at the end: " + std::to_string(live) + " bytes"),
            std::string::npos)
      << live << "\n"
      << answer.text;
}

}  // namespace
}  // namespace noisemark::suite
