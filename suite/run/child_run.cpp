#include "suite/run/child_run.h"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "suite/config/catalogue.h"
#include "suite/environment/memory_limit.h"
#include "suite/run/interrupt.h"

namespace noisemark::suite {
namespace {

void append_option(std::vector<std::string>& arguments, const std::string& name,
                   const std::string& value) {
  if (value.empty()) return;
  arguments.push_back(name);
  arguments.push_back(value);
}

/// As C has them, with a null behind the last.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Leaves the child to be waited for: until then no other process gets its number, and with it the
/// signals that are meant for the child.
void forward_interrupts_until_end_of(pid_t child) {
  const InterruptForwarding forwarding(child);
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == -1 &&
         errno == EINTR) {
  }
}

int wait_status_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ChildEnd end_of_child(int wait_status, bool ended_for_memory) {
  if (WIFEXITED(wait_status)) return {static_cast<ExitCode>(WEXITSTATUS(wait_status)), ""};
  const int signal = WTERMSIG(wait_status);
  // By the second Ctrl-C, or by one before there was anything to write.
  if (signal == SIGINT || signal == SIGTERM) return {ExitCode::kInterrupted, ""};
  const std::string words = fmt::format("a run ended by signal {}", signal);
  if (signal != SIGKILL) return {ExitCode::kInternal, words};
  if (ended_for_memory) {
    return {ExitCode::kOutOfMemory, words + ": the kernel ended it for want of memory"};
  }
  return {ExitCode::kInternal, words + "; the kernel may have ended it for want of memory"};
}

std::vector<std::string> child_arguments(const RunOptions& options, const PlannedRun& plan,
                                         const std::filesystem::path& out) {
  std::vector<std::string> arguments{"run", plan.given};
  append_option(arguments, "--mode", plan.variant.mode);
  append_option(arguments, "--baseline", plan.variant.baseline);
  append_option(arguments, "--precision", plan.variant.precision.name);
  append_option(arguments, "--device", plan.variant.device.str());
  append_option(arguments, "--threads", std::to_string(plan.variant.threads));
  append_option(arguments, "--loader-threads", std::to_string(options.loader_threads));
  append_option(arguments, "--seed", std::to_string(plan.seed));
  append_option(arguments, "--data", options.data);
  append_option(arguments, "--out", out.string());
  append_option(arguments, "--init-weights", options.init_weights);
  if (options.checkpoint_every > 0) {
    append_option(arguments, "--checkpoint-every", std::to_string(options.checkpoint_every));
  }
  for (const std::string& set : options.sets) append_option(arguments, "--set", set);
  if (options.force) arguments.push_back("--force");
  if (options.resume) arguments.push_back("--resume");
  if (options.deterministic) arguments.push_back("--deterministic");
  if (!options.memory || plan.judged) arguments.push_back("--no-memory");
  if (options.memory_snapshot && options.memory && !plan.judged) {
    arguments.push_back("--memory-snapshot");
  }
  // A mode changes few operators: a suite, whose time is short, profiles mode "none" alone.
  const bool profiled = plan.variant.mode == "none" || find_suite(options.id) == nullptr;
  if (!options.profile || !profiled || plan.judged) arguments.push_back("--no-profile");
  // What a step may cost (tiers 0 and 1) one seed shows as well as all.
  const bool repeated = plan.judged && !plan.first_seed;
  if (!options.certificate || repeated) arguments.push_back("--no-certificate");
  if (options.fit_memory_bytes && !plan.judged) {
    append_option(arguments, "--fit-memory", std::to_string(*options.fit_memory_bytes));
  }
  return arguments;
}

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string entry(*one);
    if (!variables.contains(entry.substr(0, entry.find('=')))) all.push_back(entry);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

ExitCode run_in_child(const RunOptions& options, const PlannedRun& plan,
                      const std::filesystem::path& out, const Variables& variables) {
  std::vector<std::string> arguments = child_arguments(options, plan, out);
  arguments.insert(arguments.begin(), options.argv.empty() ? "noisemark" : options.argv.front());
  std::vector<std::string> environment = environment_with(variables);
  const auto ended_before = processes_ended_for_memory();
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                                pointers_to(arguments).data(), pointers_to(environment).data());
  if (error != 0) {
    throw Error(ExitCode::kInternal,
                std::string("cannot start a process for the run: ") + std::strerror(error));
  }
  forward_interrupts_until_end_of(child);
  const int status = wait_status_of(child);
  const bool ended_for_memory = ended_before && processes_ended_for_memory() > ended_before;
  const ChildEnd end = end_of_child(status, ended_for_memory);
  if (!end.words.empty()) fmt::print(stderr, "noisemark: {}\n", end.words);
  return end.code;
}

}  // namespace noisemark::suite
