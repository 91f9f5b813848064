#include "reports/ab/exact_figures.h"

#include <algorithm>

#include "reports/ab/same_work.h"
#include "reports/compare/comparable.h"
#include "reports/compare/exact_tier.h"
#include "reports/compare/sides.h"
#include "reports/error.h"

namespace noisemark::reports {
namespace {

bool all_same_work(const std::vector<Result>& a, const std::vector<Result>& b) {
  const Strings work = same_work(a.front());
  const auto same = [&](const Result& result) {
    return differing_fields(work, same_work(result)).empty();
  };
  return std::all_of(a.begin(), a.end(), same) && std::all_of(b.begin(), b.end(), same);
}

std::vector<ExactRow> compare_pair(const Result& a, const Result& b) {
  const Side base{"A", {{"A", a}}};
  const Side candidate{"B", {{"B", b}}};
  std::vector<ExactRow> rows;
  for (const Cell& cell : pair_runs(base, candidate).both) {
    for (ExactRow& row : compare_exact(cell)) {
      if (row.metric != "parameters") rows.push_back(std::move(row));
    }
  }
  return rows;
}

bool passes(CompareVerdict verdict) {
  return exit_code_of(verdict) == ExitCode::kPass;
}

/// What another pair of runs says of the same figure.
void add(ExactRow& known, const ExactRow& row) {
  if (known.verdict == row.verdict) return;
  if (passes(known.verdict) && passes(row.verdict)) {
    known.verdict = std::max(known.verdict, row.verdict);
    return;
  }
  if (passes(known.verdict)) known = row;  // shows the values that differ
  known.verdict = CompareVerdict::kInconclusive;
  known.words = "differs between runs of one build";
}

void add(std::vector<ExactRow>& known, const std::vector<ExactRow>& rows) {
  for (const ExactRow& row : rows) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const ExactRow& one) { return one.metric == row.metric; });
    if (found == known.end()) {
      known.push_back(row);
    } else {
      add(*found, row);
    }
  }
}

}  // namespace

std::vector<ExactRow> compare_exact_figures(const std::vector<Result>& a,
                                            const std::vector<Result>& b) {
  if (a.empty() || b.empty() || !all_same_work(a, b)) return {};
  std::vector<ExactRow> rows;
  for (const Result& of_a : a) {
    for (const Result& of_b : b) add(rows, compare_pair(of_a, of_b));
  }
  return rows;
}

}  // namespace noisemark::reports
