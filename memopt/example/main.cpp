#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "memopt/example/promises.h"
#include "memopt/example/training.h"
#include "memopt/saved_tensor_scope.h"
#include "memopt/tracking_allocator.h"

/// memopt in a program that has nothing else of Noisemark: an encoder is trained under mode "none"
/// and under every mode that is named, and what they hold is printed side by side.
///
/// Exit code 0: as each mode promises. 1: a lossless mode gave another bit, a budget was exceeded,
/// a mode saved no memory, or the encoder learned nothing. 2: bad usage, or a budget that cannot be
/// met.
namespace {

namespace memopt = noisemark::memopt;
using example::Outcome;

constexpr int kBroken = 1;
constexpr int kBadInput = 2;

void print(const std::string& mode, const Outcome& outcome, const std::string& remark) {
  std::printf("%-24s %10.6f %14lld %16lld   %s\n", mode.c_str(),
              outcome.losses.back().item<double>(), static_cast<long long>(outcome.saved_bytes),
              static_cast<long long>(outcome.peak_saved_bytes), remark.c_str());
}

int run(const std::vector<std::string>& modes) {
  const example::TrainingOptions options;
  std::printf("%-24s %10s %14s %16s\n", "mode", "last loss", "saved_bytes", "peak_saved_bytes");
  const Outcome none = example::train("none", options);
  print("none", none, "");
  int code = 0;
  for (const std::string& mode : modes) {
    const Outcome outcome = example::train(mode, options);
    const std::string broken = example::broken_promise(mode, outcome, none);
    if (!broken.empty()) code = kBroken;
    const std::string kept = outcome.lossless ? "the bits of mode none" : "rounded";
    print(mode, outcome, broken.empty() ? kept : broken);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  memopt::install_tracking_allocator();
  memopt::install_saved_tensor_engine();
  const std::vector<std::string> modes(argv + 1, argv + argc);
  try {
    return run(modes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return kBadInput;
  }
}
