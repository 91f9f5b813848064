#pragma once

#include <string>

namespace noisemark::suite {

/// The rules by which every benchmark's runs are judged and which no definition file names: what
/// the warm-up rule finds in fixed series of step times, and the margins of metrics with noise (the
/// others have none). One a line.
[[nodiscard]] std::string judging_text();

/// SHA-256 of judging_text(): the same for all benchmarks.
[[nodiscard]] std::string judging_sha256();

}  // namespace noisemark::suite
