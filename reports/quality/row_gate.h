#pragma once

#include <vector>

#include "reports/quality/judge.h"
#include "reports/quality/row_sample.h"

namespace noisemark::reports {

/// Fills in the difference of a row with its interval, and by what test: of two seeds or more.
void describe_row(RowSample& sample, double alpha);

/// Describes, tests and judges all gated rows as one family, by the rules of judge.h, with the
/// share of alpha that the gates of this look have. Returns how many were tested.
int64_t judge_rows(const std::vector<RowSample*>& samples, const QualityOptions& options,
                   const Looks& looks = {});

}  // namespace noisemark::reports
