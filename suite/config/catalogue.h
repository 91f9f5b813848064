#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suite/config/definition.h"

/// The benchmarks and suites. The definition files of suite/benchmarks/ are part of the binary, so
/// that it needs no source tree.
namespace noisemark::suite {

struct BenchmarkFile {
  std::string_view id;
  std::string_view name;  ///< "suite/benchmarks/v1/gmm16.toml", as error messages name it
  std::string_view text;
};

/// Shipped definitions, in the order lists show them.
[[nodiscard]] std::span<const BenchmarkFile> benchmark_files();
/// suite/benchmarks/v1/LOCK.
[[nodiscard]] std::string_view lock_text();

/// A benchmark of a suite. The modes are those of the definition.
struct SuiteEntry {
  std::string benchmark;  ///< with its scale: "gmm16@cpu"
  /// More than one means that the benchmark judges what the modes cost in quality: each is trained
  /// with so many seeds, without the passes for memory and profile, and with a certificate in the
  /// first.
  int64_t seeds = 1;
};
struct Suite {
  std::string_view name;
  std::string_view summary;
  std::vector<SuiteEntry> entries;
};
/// A definition file names its suites itself (`benchmark.suites`).
[[nodiscard]] const std::vector<Suite>& suites();
/// Returns null when `name` is no suite.
[[nodiscard]] const Suite* find_suite(std::string_view name);

/// The definition of `id`: "ho-cifar10" (at `scale`, "cpu" or "gpu"), "ho-cifar10@cpu", or the path
/// of a definition file ending in ".toml" (custom; also with "@cpu"). `overrides` are the
/// "key=value" of --set, applied in order; any makes the definition custom, and so does a shipped
/// file that is not what LOCK holds. Throws Error (exit code 2) with the nearest valid name.
[[nodiscard]] Definition load_definition(std::string_view id, std::string_view scale,
                                         const std::vector<std::string>& overrides = {});

}  // namespace noisemark::suite
