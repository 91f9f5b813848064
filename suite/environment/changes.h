#pragma once

#include <c10/core/Device.h>

#include "reports/result.h"

/// What of a machine may change while something runs on it.
namespace noisemark::suite {

/// What capture_machine() calls the environment, but for packages and variables: read anew.
[[nodiscard]] reports::Strings machine_state(const c10::Device& device);

/// Adds to `environment`, captured before a run, what `end`, captured after it, has otherwise: the
/// value as "at the end: KEY" and, under reports::kChangedWhileItRan, the names of the settings
/// (governor, limits, what holds clocks down, other processes) that changed, or "nothing". Clocks,
/// power, temperature and load differ always and are no setting. Nor is it one that a GPU was idle
/// before the run and at work after it (same_clock_reasons()), or a count of processes that a
/// container cannot tell from its own.
void add_changes(reports::Strings& environment, const reports::Strings& end);

}  // namespace noisemark::suite
