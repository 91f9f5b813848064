#include "suite/parallel/group.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/suite/parallel/ranks.h"

namespace noisemark::suite {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using test::file_bytes;
using test::kLimit;
using test::put_bytes;
using test::Ranks;
using test::Words;

/// Within it all ends in the tests of bad luck.
constexpr seconds kShort{12};

const test::NamedJob kTalk{
    "talk", [](const Rank& rank, const Words&, const std::string& out) {
      const auto group = Group::join(rank, kLimit);
      const double mean = group->mean(static_cast<double>(rank.rank));
      std::string all;
      for (const std::string& text : group->exchange("r" + std::to_string(rank.rank))) all += text;
      put_bytes(out + "/said", std::to_string(mean) + " " + all);
    }};

/// Talks until something happens; rank 1 may have a cause of its own to leave.
const test::NamedJob kGoOn{"go_on",
                           [](const Rank& rank, const Words& words, const std::string& out) {
                             const auto group = Group::join(rank, kShort);
                             for (int round = 0;; ++round) {
                               (void)group->mean(1);
                               put_bytes(out + "/goes_on", "");
                               if (words.front() != "leave" || rank.rank != 1 || round < 3)
                                 continue;
                               group->leave(ExitCode::kOutOfMemory, "no room for 12 GiB");
                               throw Error(ExitCode::kOutOfMemory, "no room for 12 GiB");
                             }
                           }};

const test::NamedJob kEqual{"equal", [](const Rank& rank, const Words&, const std::string&) {
                              const auto group = Group::join(rank, kLimit);
                              group->require_equal("program", "one");
                              group->require_equal("definition", rank.rank == 1 ? "b" : "a");
                            }};

const test::NamedJob kJoin{"join", [](const Rank& rank, const Words&, const std::string&) {
                             (void)Group::join(rank, kShort);
                           }};

/// Keeps the store of the others, as torchrun's agent does. For rank 0 alone it comes in the place
/// of rank 1.
void keep_store(const Rank& rank, const Words& words, const std::string& out) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rank.port);
  options.isServer = true;
  options.waitWorkers = false;
  c10d::TCPStore store(rank.address, options);
  put_bytes(out + "/serves", "");
  if (words.front() == "for_rank_0") {
    store.set("noisemark/0/here/1", {'h', 'e', 'r', 'e'});
    store.wait({"noisemark/0/alive/0"}, kLimit);
    put_bytes(out + "/met_rank_0", "");
  }
  std::this_thread::sleep_for(10 * kLimit);
}
const test::NamedJob kKeepStore{"keep_store", keep_store};

/// Exchanges texts, or only waits, until it is told to end.
void use_store(const Rank& rank, const Words& words, const std::string& out) {
  const auto group = Group::join(rank, kShort);
  while (!std::filesystem::exists(out + "/end")) {
    if (words.front() == "exchange") (void)group->exchange("text");
    put_bytes(out + "/goes_on", "");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}
const test::NamedJob kUseStore{"use_store", use_store};

/// c10d, too, may write to standard error.
void expect_words(const Ranks& ranks, int64_t rank, const std::string& words) {
  EXPECT_NE(ranks.words_of(rank).find(words), std::string::npos) << ranks.words_of(rank);
}

void start_all(Ranks& ranks, int64_t number) {
  for (int64_t rank = 0; rank < number; ++rank) ranks.start(rank);
}

TEST(RanksTogether, find_the_same_mean_and_texts) {
  Ranks ranks(3, "talk");
  start_all(ranks, 3);
  EXPECT_EQ(ranks.wait(), (std::vector{0, 0, 0})) << ranks.words_of(0);
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(file_bytes(ranks.out(rank) + "/said"), "1.000000 r0r1r2");
  }
}

TEST(RanksTogether, refuse_what_is_not_equal_and_name_it) {
  Ranks ranks(2, "equal");
  start_all(ranks, 2);
  EXPECT_EQ(ranks.wait(), (std::vector{3, 3}));
  for (int64_t rank = 0; rank < 2; ++rank) {
    expect_words(ranks, rank, "definition: b on rank 1, a on rank 0\n");
  }
}

/// All but the victim end within the limit, with these words.
void expect_end(Ranks& ranks, int64_t number, int64_t victim, ExitCode code,
                const std::string& cause) {
  const auto begin = steady_clock::now();
  for (int64_t rank = 0; rank < number; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(ranks.wait(rank), static_cast<int>(code)) << rank;
    expect_words(ranks, rank, cause + "\n");
  }
  EXPECT_LE(steady_clock::now() - begin, kShort);
}

void start_and_go_on(Ranks& ranks, int64_t number) {
  start_all(ranks, number);
  for (int64_t rank = 0; rank < number; ++rank) ranks.await(rank, "goes_on");
}

TEST(BadLuck, a_rank_that_is_killed_is_named_by_the_others) {
  Ranks ranks(3, "go_on", {"until_killed"});
  start_and_go_on(ranks, 3);
  ranks.signal(2, SIGKILL);
  expect_end(ranks, 3, 2, ExitCode::kInternal, "rank 2 was killed or stopped: no sign of life");
}

TEST(BadLuck, a_rank_that_is_stopped_is_named_by_the_others) {
  Ranks ranks(3, "go_on", {"until_stopped"});
  start_and_go_on(ranks, 3);
  ranks.signal(1, SIGSTOP);
  expect_end(ranks, 3, 1, ExitCode::kInternal, "rank 1 was killed or stopped: no sign of life");
}

TEST(BadLuck, rank_0_that_is_killed_takes_the_store_with_it) {
  Ranks ranks(2, "go_on", {"until_killed"});
  start_and_go_on(ranks, 2);
  ranks.signal(0, SIGKILL);
  EXPECT_EQ(ranks.wait(1), static_cast<int>(ExitCode::kInternal));
  expect_words(ranks, 1, "is gone, and with it rank 0\n");
}

TEST(BadLuck, rank_0_that_is_stopped_is_named_too) {
  Ranks ranks(2, "go_on", {"until_stopped"});
  start_and_go_on(ranks, 2);
  const auto begin = steady_clock::now();
  ranks.signal(0, SIGSTOP);
  EXPECT_EQ(ranks.wait(1), static_cast<int>(ExitCode::kInternal));
  EXPECT_LE(steady_clock::now() - begin, kShort);
  expect_words(ranks, 1, "is gone, and with it rank 0\n");
}

TEST(BadLuck, the_cause_of_a_rank_that_fails_is_that_of_all) {
  Ranks ranks(3, "go_on", {"leave"});
  start_all(ranks, 3);
  expect_end(ranks, 3, 1, ExitCode::kOutOfMemory, "rank 1: no room for 12 GiB");
}

TEST(BadLuck, a_rank_that_does_not_come_is_named) {
  Ranks ranks(3, "join");
  ranks.start(0);
  ranks.start(2);
  for (const int64_t rank : {0, 2}) {
    EXPECT_EQ(ranks.wait(rank), static_cast<int>(ExitCode::kInternal));
    expect_words(ranks, rank, "rank 1 did not come to 127.0.0.1:");
  }
}

TEST(BadLuck, a_port_in_use_and_an_address_of_nobody_are_wrong_input) {
  Ranks ranks(2, "join");
  const test::BusyPort busy;
  ranks.start(0, {{"MASTER_PORT", std::to_string(busy.port())}});
  ranks.start(1, {{"MASTER_ADDR", "127.0.0.2"}});
  for (const int64_t rank : {0, 1}) {
    EXPECT_EQ(ranks.wait(rank), static_cast<int>(ExitCode::kBadInput));
    expect_words(ranks, rank, "MASTER_ADDR and MASTER_PORT: ");
  }
}

TEST(BadLuck, a_host_that_is_not_known_is_named_by_rank_0_and_by_the_others) {
  Ranks ranks(2, "join");
  const auto begin = steady_clock::now();
  for (const int64_t rank : {0, 1}) ranks.start(rank, {{"MASTER_ADDR", "nowhere.invalid"}});
  for (const int64_t rank : {0, 1}) {
    EXPECT_EQ(ranks.wait(rank), static_cast<int>(ExitCode::kBadInput));
    expect_words(ranks, rank, "MASTER_ADDR: nowhere.invalid: ");
    expect_words(ranks, rank, " (a host that is known on every machine)\n");
  }
  EXPECT_LE(steady_clock::now() - begin, kShort);
}

TEST(BadLuck, a_port_at_which_somebody_else_says_nothing_is_not_waited_for) {
  Ranks ranks(2, "join");
  const test::BusyPort busy;
  const auto begin = steady_clock::now();
  ranks.start(1, {{"MASTER_PORT", std::to_string(busy.port())}});
  EXPECT_EQ(ranks.wait(1), static_cast<int>(ExitCode::kBadInput));
  EXPECT_LE(steady_clock::now() - begin, kShort);
  expect_words(ranks, 1, "no answer within ");
}

/// Greets as LibTorch's store does, and then says nothing, as one whose process was stopped.
void greet(int listening) {
  const int connection = accept(listening, nullptr, nullptr);
  std::array<char, 10> greeting{};  // two words of a byte and a number
  ASSERT_EQ(recv(connection, greeting.data(), greeting.size(), MSG_WAITALL), std::ssize(greeting));
  ASSERT_EQ(send(connection, greeting.data() + 6, 4, 0), 4);
}

TEST(BadLuck, a_store_that_stops_answering_while_ranks_meet_is_gone) {
  Ranks ranks(2, "join");
  const test::BusyPort busy;
  const auto begin = steady_clock::now();
  ranks.start(1, {{"MASTER_PORT", std::to_string(busy.port())}});
  greet(busy.listener());
  EXPECT_EQ(ranks.wait(1), static_cast<int>(ExitCode::kInternal));
  EXPECT_LE(steady_clock::now() - begin, kShort);
  expect_words(ranks, 1, "is gone, and with it rank 0\n");
}

/// Ranks whose store another process keeps.
class StoreOfAnAgent : public testing::Test {
 protected:
  void start(Ranks& agent, Ranks& ranks, int64_t number) const {
    agent.start(0, {{"MASTER_PORT", port_}});
    agent.await(0, "serves");
    for (int64_t rank = 0; rank < number; ++rank) {
      ranks.start(rank, {{"MASTER_PORT", port_},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"}});
    }
  }

 private:
  std::string port_ = std::to_string(test::free_port());
};

TEST_F(StoreOfAnAgent, that_is_stopped_ends_ranks_that_ask_it) {
  Ranks agent(2, "keep_store", {"for_all"});
  Ranks ranks(2, "use_store", {"exchange"});
  start(agent, ranks, 2);
  for (const int64_t rank : {0, 1}) ranks.await(rank, "goes_on");
  agent.signal(0, SIGSTOP);
  expect_end(ranks, 2, /*victim=*/-1, ExitCode::kInternal, "is gone, and with it torchrun's agent");
}

TEST_F(StoreOfAnAgent, that_is_stopped_holds_no_rank_back_that_has_done_its_work) {
  Ranks agent(2, "keep_store", {"for_all"});
  Ranks ranks(2, "use_store", {"wait"});
  start(agent, ranks, 2);
  for (const int64_t rank : {0, 1}) ranks.await(rank, "goes_on");
  agent.signal(0, SIGSTOP);
  const auto begin = steady_clock::now();
  for (const int64_t rank : {0, 1}) put_bytes(ranks.out(rank) + "/end", "");
  EXPECT_EQ(ranks.wait(), (std::vector{0, 0}));
  EXPECT_LE(steady_clock::now() - begin, kShort);
}

TEST_F(StoreOfAnAgent, that_is_stopped_while_ranks_connect_is_gone) {
  Ranks agent(2, "keep_store", {"for_rank_0"});
  Ranks ranks(2, "join");
  start(agent, ranks, 1);
  agent.await(0, "met_rank_0");
  std::this_thread::sleep_for(seconds(1));  // it now waits for rank 1's addresses
  agent.signal(0, SIGSTOP);
  expect_end(ranks, 1, /*victim=*/-1, ExitCode::kInternal, "is gone, and with it torchrun's agent");
}

}  // namespace
}  // namespace noisemark::suite
