#pragma once

#include <optional>
#include <string>
#include <utility>

#include "reports/result/events.h"
#include "reports/result/result.h"
#include "suite/config/definition.h"

namespace noisemark::suite {

/// The events of one run under MLPerf's keys (mlcommons/logging, common.yaml): init, run, eval,
/// seed, batch size, optimizer.
class EventLog {
 public:
  /// Throws Error, exit code 74, when the file cannot be written.
  EventLog(const std::string& path, bool resume) : writer_(std::in_place, path, resume) {}
  /// Writes nothing.
  EventLog() = default;

  void init_start(const Definition& definition, uint64_t seed);
  void run_start();
  /// Notes that an evaluation begins after `step` steps, in which the training has seen so many
  /// images.
  void eval_start(int64_t step, int64_t samples_seen);
  void eval_stop(const reports::Evaluation& evaluation);
  /// Closes an evaluation that was cut off and has no result.
  void eval_abort(int64_t samples_seen);
  /// Notes the machine after `step` steps.
  void machine_state(int64_t step, const reports::EventMetadata& figures);
  /// `status`: "success", or "aborted" for a run that ended early.
  void run_stop(const std::string& status, int64_t samples_seen);

  void pass_start(const std::string& pass);
  void pass_stop(const std::string& pass);
  /// Closes the pass in progress, and the initialisation where it is a part of that: no run follows
  /// then. Returns the pass.
  std::string pass_abort();

 private:
  void start(const std::string& name, const reports::EventMetadata& metadata = {});
  void stop(const std::string& name, const reports::EventMetadata& metadata = {});
  void point(const std::string& key, const reports::EventValue& value,
             const reports::EventMetadata& metadata = {});

  std::optional<reports::EventWriter> writer_;
  std::string pass_;  // the pass in progress
  bool in_init_ = false;
};

}  // namespace noisemark::suite
