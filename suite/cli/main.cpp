#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "reports/base/error.h"
#include "reports/base/streams.h"
#include "suite/cli/commands.h"
#include "suite/environment/child.h"
#include "suite/environment/environment.h"
#include "suite/environment/processor.h"
#include "suite/run/passes/failure.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"

namespace {

using noisemark::ExitCode;

template <class Action>
ExitCode guarded(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    const noisemark::suite::Failure failure = noisemark::suite::failure_of(error);
    noisemark::reports::say_on_stderr(failure.message);
    noisemark::suite::tell_cause(failure.message);
    return failure.code;
  }
}

ExitCode run_with_requirement(const std::vector<std::string>& words,
                              const std::vector<std::string>& all) {
  const bool cuda = noisemark::suite::requires_cuda();
  const ExitCode code = guarded([&] { return noisemark::suite::run_command_line(words, all); });
  return cuda && code == ExitCode::kCannotRunHere ? ExitCode::kFailed : code;
}

/// A stream that the caller has closed would give its number to the next file that is opened, and
/// what is said would go into that file. A closed standard output still refuses what is written.
void keep_numbers_of_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    (void)open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Without a working folder MKL ends the process in words of its own when it is loaded. A function
/// in .preinit_array runs before that, and has the C library alone.
void require_working_folder() {
  constexpr std::string_view kWords =
      "noisemark: the working folder: cannot be found (a folder that is there)\n";
  std::array<char, PATH_MAX> path;
  if (getcwd(path.data(), path.size()) != nullptr || errno == ERANGE) return;
  (void)!write(STDERR_FILENO, kWords.data(), kWords.size());
  _exit(static_cast<int>(ExitCode::kBadInput));
}

/// LibTorch reads its own settings while it is loaded, and ends the process by an exception where
/// one makes no sense to it.
[[noreturn]] void end_of_loading() {
  std::string why = "the libraries cannot be loaded";
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    const std::string_view words = error.what();
    why += ": " + std::string(words.substr(0, words.find('\n')));
  } catch (...) {
  }
  noisemark::reports::say_on_stderr(
      why + " (the variables PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF as LibTorch has them)");
  _exit(static_cast<int>(ExitCode::kBadInput));
}

std::terminate_handler& usual_end() {
  static std::terminate_handler handler = nullptr;
  return handler;
}

void before_libraries() {
  require_working_folder();
  usual_end() = std::set_terminate(end_of_loading);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = before_libraries;

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(usual_end());
  keep_numbers_of_streams();
  noisemark::suite::end_on_request();
  // A write beyond the limit of a file's size fails with a cause, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  // LibTorch's profiler complains on standard error wherever a CUDA build finds no driver.
  setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  noisemark::suite::choose_cublas_workspace();
  noisemark::memopt::install_tracking_allocator(noisemark::suite::memory_limit_bytes());
  noisemark::memopt::install_saved_tensor_engine();
  const std::vector<std::string> all(argv, argv + argc);
  const std::vector<std::string> words(all.begin() + (argc > 0 ? 1 : 0), all.end());
  noisemark::reports::leave(
      static_cast<int>(guarded([&] { return run_with_requirement(words, all); })));
}
