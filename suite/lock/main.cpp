// noisemark_lock FILE [--force] [ID@SCALE ...] [DEFINITION.toml@SCALE ...]: adds missing entries to
// FILE (suite/benchmarks/v1/LOCK), all benchmarks when none is named. An entry that would change is
// refused: a change needs a new version of the benchmark. --force is for benchmarks that nobody has
// run yet.

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/streams.h"
#include "suite/config/catalogue.h"
#include "suite/lock/compute.h"

namespace noisemark::suite {
namespace {

std::vector<std::string> all_benchmarks() {
  std::vector<std::string> names;
  for (const BenchmarkFile& file : benchmark_files()) {
    for (const std::string_view scale : kScales)
      names.push_back(fmt::format("{}@{}", file.id, scale));
  }
  return names;
}

// Returns true when the entry may be written.
bool may_write(const Lock& lock, const std::string& name, const LockEntry& entry, bool force) {
  const auto locked = lock.find(name);
  if (locked == lock.end()) return true;
  const auto differences = lock_differences(locked->second, entry);
  for (const std::string& words : differences)
    reports::print_out(fmt::format("{}: {}\n", name, words));
  return !differences.empty() && force;
}

// Another machine's last bits are no change: a loss trace or an evaluation that agrees with the
// locked one stays.
LockEntry with_locked_numbers(const Lock& lock, const std::string& name, const LockEntry& found) {
  const auto locked = lock.find(name);
  if (locked == lock.end()) return found;
  LockEntry kept = found;
  for (const auto member : {&LockEntry::losses, &LockEntry::evaluation}) {
    kept.*member = locked->second.*member;
    if (!lock_differences(kept, found).empty()) kept.*member = found.*member;
  }
  return kept;
}

ExitCode update(const std::string& path, bool force, const std::vector<std::string>& names) {
  Lock lock = parse_lock(reports::read_file(path), path);
  LockComputer computer;
  bool refused = false;
  for (const std::string& given : names) {  // a name, or the path of a definition file
    const Definition definition = load_definition(given, "cpu");
    const std::string name = fmt::format("{}@{}", definition.id, definition.scale);
    const LockEntry entry = with_locked_numbers(lock, name, computer.compute(definition));
    if (may_write(lock, name, entry, force)) {
      lock[name] = entry;
      reports::write_file_atomically(path, lock_json(lock));
      reports::print_out(fmt::format("{}: written\n", name));
    } else if (lock_differences(lock.at(name), entry).empty()) {
      reports::print_out(fmt::format("{}: unchanged\n", name));
    } else {
      reports::print_out(
          fmt::format("{}: refused, a change needs a new version (or --force)\n", name));
      refused = true;
    }
  }
  return refused ? ExitCode::kFailed : ExitCode::kPass;
}

ExitCode run_tool(std::vector<std::string> words) {
  const bool force = std::erase(words, "--force") > 0;
  if (words.empty() || words.front().starts_with('-')) {
    throw bad_input("noisemark_lock", "", "no file",
                    "noisemark_lock FILE [--force] [ID@SCALE ...]");
  }
  const std::vector<std::string> named(words.begin() + 1, words.end());
  return update(words.front(), force, named.empty() ? all_benchmarks() : named);
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  noisemark::memopt::install_tracking_allocator();
  try {
    return static_cast<int>(noisemark::suite::run_tool({argv + 1, argv + argc}));
  } catch (const noisemark::Error& error) {
    fmt::print(stderr, "noisemark_lock: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "noisemark_lock: internal error: {}\n", error.what());
    return static_cast<int>(noisemark::ExitCode::kInternal);
  }
}
