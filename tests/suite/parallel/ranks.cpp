#include "tests/suite/parallel/ranks.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "suite/environment/child.h"
#include "tests/run_tests.h"

namespace noisemark::suite::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJob = "NOISEMARK_TEST_JOB";
constexpr const char* kOut = "NOISEMARK_TEST_OUT";

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : own_variables()) {
    const size_t sign = entry.find('=');
    variables[entry.substr(0, sign)] = entry.substr(sign + 1);
  }
  return variables;
}

Words split(const std::string& line) {
  Words words;
  for (size_t begin = 0, end = 0; begin < line.size(); begin = end + 1) {
    end = std::min(line.find(' ', begin), line.size());
    words.push_back(line.substr(begin, end - begin));
  }
  return words;
}

std::string joined(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

}  // namespace

std::map<std::string, Job>& jobs() {
  static std::map<std::string, Job> all;
  return all;
}

Ranks::Ranks(int64_t ranks, const std::string& job, const Words& words)
    : ranks_(ranks), job_(job), words_(words), port_(free_port()) {}

Ranks::~Ranks() {
  for (const auto& [rank, process] : running_) kill(process, SIGKILL);
  wait();
}

void Ranks::start(int64_t rank, const std::map<std::string, std::string>& changed) {
  std::map<std::string, std::string> variables = environment();
  variables["RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = std::to_string(ranks_);
  variables["LOCAL_RANK"] = std::to_string(rank);
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(port_);
  variables[kJob] = job_ + " " + joined(words_);
  variables[kOut] = out(rank);
  for (const auto& [name, value] : changed) variables[name] = value;
  fs::create_directories(out(rank));
  ChildCommand command{"/proc/self/exe", {"rank"}, {}, out(rank) + "/words"};
  for (const auto& [name, value] : variables) command.variables.push_back(name + "=" + value);
  running_[rank] = start_child(command);
}

void Ranks::signal(int64_t rank, int number) const {
  kill(running_.at(rank), number);
}

void Ranks::await(int64_t rank, const std::string& name) const {
  constexpr auto kPause = std::chrono::milliseconds(20);
  for (auto left = kLimit / kPause; left > 0 && !fs::exists(out(rank) + "/" + name); --left) {
    std::this_thread::sleep_for(kPause);
  }
}

int Ranks::wait(int64_t rank) {
  int status = 0;
  waitpid(running_.at(rank), &status, 0);
  running_.erase(rank);
  return codes_[rank] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<int> Ranks::wait() {
  while (!running_.empty()) wait(running_.begin()->first);
  std::vector<int> codes;
  for (const auto& [rank, code] : codes_) codes.push_back(code);
  return codes;
}

std::string Ranks::out(int64_t rank) const {
  return folder_.path(std::to_string(rank));
}

std::string Ranks::words_of(int64_t rank) const {
  return file_bytes(out(rank) + "/words");
}

namespace {

/// Runs the job that the environment names; empty where it names none.
std::optional<int> run_job_of_environment() {
  const auto variables = environment();
  const auto found = variables.find(kJob);
  if (found == variables.end()) return std::nullopt;
  at::set_num_threads(1);
  try {
    const Words words = split(found->second);
    const auto rank = rank_from(variables);
    jobs().at(words.front())(rank.value_or(Rank{}), {words.begin() + 1, words.end()},
                             variables.at(kOut));
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace

/// A rank does its job and nothing else.
int run_ranks_main(int argc, char** argv) {
  memopt::install_tracking_allocator();
  memopt::install_saved_tensor_engine();
  if (const auto code = run_job_of_environment()) return *code;
  testing::InitGoogleTest(&argc, argv);
  noisemark::test::run_tests();
}

}  // namespace noisemark::suite::test

int main(int argc, char** argv) {
  return noisemark::suite::test::run_ranks_main(argc, argv);
}
