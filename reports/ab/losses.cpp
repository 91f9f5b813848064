#include "reports/ab/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "reports/quantity.h"
#include "reports/sha256.h"

namespace noisemark::reports {
namespace {

using Trace = std::vector<double>;

std::vector<Trace> traces_of(const AbRecord& record, AbSide side) {
  std::vector<Trace> traces;
  for (const AbPair& pair : record.pairs) {
    Trace trace;
    for (const std::vector<AbTurn>* turns : {&pair.warmup, &pair.turns}) {
      for (const AbTurn& turn : *turns) {
        if (turn.side == side) trace.insert(trace.end(), turn.loss.begin(), turn.loss.end());
      }
    }
    traces.push_back(std::move(trace));
  }
  return traces;
}

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

/// The first step at which two traces differ; empty when one continues the other.
std::optional<size_t> first_difference(const Trace& a, const Trace& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!same_bits(a[i], b[i])) return i;
  }
  return std::nullopt;
}

const Trace& longest(const std::vector<Trace>& traces) {
  return *std::max_element(traces.begin(), traces.end(),
                           [](const Trace& a, const Trace& b) { return a.size() < b.size(); });
}

bool repeats_itself(const std::vector<Trace>& traces) {
  const Trace& reference = longest(traces);
  return std::none_of(traces.begin(), traces.end(), [&](const Trace& trace) {
    return first_difference(reference, trace).has_value();
  });
}

/// Of the bits, so that equal digests are equal losses.
std::string digest_of(const Trace& trace, size_t steps) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(trace).first(steps)));
  return digest.hex();
}

std::string difference_words(const Trace& a, const Trace& b, size_t step) {
  return fmt::format("first at step {}: {} and {}", step, a[step], b[step]);
}

LossFinding not_repeated(ExactRow row, bool a_repeats, bool b_repeats, bool deterministic) {
  const char* who = a_repeats ? "B does not repeat its" : "A does not repeat its";
  const std::string words =
      fmt::format("{} own losses", a_repeats || b_repeats ? who : "A and B do not repeat their");
  if (!a_repeats && !deterministic) {
    return {std::nullopt, words + ", so that they cannot be compared; --deterministic can"};
  }
  row.verdict = CompareVerdict::kInconclusive;
  row.words = words;
  return {row, ""};
}

}  // namespace

LossFinding compare_losses(const AbRecord& record, const std::string& cell, bool other_losses) {
  if (record.pairs.empty()) return {};
  const std::vector<Trace> a = traces_of(record, AbSide::kA);
  const std::vector<Trace> b = traces_of(record, AbSide::kB);
  const Trace& of_a = longest(a);
  const Trace& of_b = longest(b);
  const size_t steps = std::min(of_a.size(), of_b.size());
  if (steps == 0) return {};
  ExactRow row{cell,
               fmt::format("losses of {} steps", format_count(static_cast<int64_t>(steps))),
               "",
               {},
               {},
               digest_of(of_a, steps),
               digest_of(of_b, steps),
               {},
               {}};
  const bool a_repeats = repeats_itself(a);
  const bool b_repeats = repeats_itself(b);
  if (!a_repeats || !b_repeats) {
    const auto profile = record.a.identity.find("protocol.deterministic");
    const bool deterministic = profile != record.a.identity.end() && profile->second == "yes";
    return not_repeated(row, a_repeats, b_repeats, deterministic);
  }
  const std::optional<size_t> step = first_difference(of_a, of_b);
  if (!step) return {row, ""};
  const std::string words = difference_words(of_a, of_b, *step);
  if (other_losses) return {std::nullopt, "the losses differ, as they may: " + words};
  row.verdict = CompareVerdict::kRegression;
  row.words = "must be equal; " + words;
  return {row, ""};
}

}  // namespace noisemark::reports
