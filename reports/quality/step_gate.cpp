#include "reports/quality/step_gate.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/gate.h"
#include "reports/quality/gradient_bound.h"
#include "reports/quality/measures.h"
#include "reports/quantity.h"

namespace noisemark::reports {
namespace {

StepRow row_of(const Pairing& pairing, int tier) {
  StepRow row;
  row.tier = tier;
  row.benchmark = pairing.benchmark;
  row.variant = pairing.variant;
  row.reference = pairing.reference;
  return row;
}

void settle(StepRow& row, QualityVerdict verdict, const std::string& words) {
  if (row.verdict && *row.verdict >= verdict) return;
  row.verdict = verdict;
  row.words = words;
}

std::string what_differs(const Determinism& a, const Determinism& b) {
  return a.weights_sha256 == b.weights_sha256 ? "averages of the weights" : "weights";
}

/// One pair of runs; true: proven to be equal.
bool look_at_bits(const RunPair& pair, StepRow& row) {
  const Result& reference = pair.first->result;
  const Result& candidate = pair.second->result;
  const Certificate& proof = candidate.memory_mode.certificate;
  const std::string seed = fmt::format("seed {}: ", reference.seeds.base);
  if (proof.verdict == Verdict::kFail) {
    settle(row, QualityVerdict::kFail, seed + "the certificate failed: " + proof.words);
    return false;
  }
  if (proof.verdict == Verdict::kUnavailable) {
    settle(row, QualityVerdict::kInconclusive, seed + "no certificate: " + proof.words);
    return false;
  }
  if (!is_finished(reference) || !is_finished(candidate)) return false;
  const bool equal = same_weights(reference, candidate);
  const bool known = !reference.determinism.weights_sha256.empty() &&
                     !candidate.determinism.weights_sha256.empty();
  if (!equal && known && reference.protocol.deterministic && candidate.protocol.deterministic) {
    settle(row, QualityVerdict::kFail,
           seed + "deterministic runs, and yet other " +
               what_differs(reference.determinism, candidate.determinism));
  }
  return equal || proof.verdict == Verdict::kPass;
}

StepRow bits(const Pairing& pairing) {
  StepRow row = row_of(pairing, 0);
  for (const RunPair& pair : pairing.cell.pairs) {
    if (look_at_bits(pair, row)) ++row.seeds;
  }
  if (row.verdict) return row;
  if (row.seeds == static_cast<int64_t>(pairing.cell.pairs.size())) {
    settle(row, QualityVerdict::kPass, "bit for bit what the reference gives");
  } else {
    row.words = "not judged: without a certificate, and not all runs deterministic and ended";
  }
  return row;
}

StepRow gradient(const Pairing& pairing) {
  StepRow row = row_of(pairing, 1);
  const Result& first = pairing.cell.pairs.front().second->result;
  row.bound = gradient_error_bound(first);
  std::string missing = "it was not measured";
  for (const RunPair& pair : pairing.cell.pairs) {
    const GradientError& error = pair.second->result.memory_mode.gradient_error;
    if (!error.error_frac) {
      if (!error.missing_reason.empty()) missing = error.missing_reason;
      continue;
    }
    ++row.seeds;
    // Not by std::max alone, which passes over a NaN.
    const bool larger = !row.value || !(*error.error_frac <= *row.value);
    if (larger && !std::isnan(row.value.value_or(0))) row.value = error.error_frac;
  }
  if (!row.value) {
    row.words = "not judged: " + missing;
  } else if (*row.value <= *row.bound) {  // false of NaN
    settle(row, QualityVerdict::kPass, "within the bound");
  } else {
    settle(row, QualityVerdict::kFail, "the gradient of a step is another one");
  }
  return row;
}

}  // namespace

std::vector<StepRow> step_rows(const Pairing& pairing) {
  if (pairing.cell.pairs.empty()) return {};
  const Result& run = pairing.cell.pairs.front().second->result;
  if (run.identity.mode == "none" || !run.memory_mode.measured) return {};
  return {run.memory_mode.lossless ? bits(pairing) : gradient(pairing)};
}

}  // namespace noisemark::reports
