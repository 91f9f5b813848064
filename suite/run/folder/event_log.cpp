#include "suite/run/folder/event_log.h"

#include <utility>

namespace noisemark::suite {
namespace {

using reports::EventMetadata;

EventMetadata samples(int64_t count) {
  return {{"samples_count", count}};
}

}  // namespace

void EventLog::init_start(const Definition& definition, uint64_t seed) {
  writer_.point("cache_clear", false);  // nothing flushes the system's file cache
  writer_.start("init");
  in_init_ = true;
  writer_.point("submission_benchmark", definition.id + "@" + definition.scale);
  writer_.point("seed", static_cast<int64_t>(seed));
  writer_.point("global_batch_size", definition.train.batch);
  writer_.point("gradient_accumulation_steps", definition.train.accumulation);
  writer_.point("eval_samples", definition.eval.samples);
  const OptimizerConfig& optimizer = definition.optimizer;
  writer_.point("opt_name", optimizer.name);
  writer_.point("opt_base_learning_rate", optimizer.lr);
  writer_.point("opt_learning_rate_warmup_steps", optimizer.warmup_steps);
  writer_.point("opt_adam_beta_1", optimizer.beta1);
  writer_.point("opt_adam_beta_2", optimizer.beta2);
  writer_.point("opt_adam_epsilon", optimizer.eps);
  writer_.point("opt_gradient_clip_norm", optimizer.clip_norm);
}

void EventLog::run_start() {
  writer_.stop("init");
  in_init_ = false;
  writer_.start("run");
}

void EventLog::eval_start(int64_t step, int64_t samples_seen) {
  EventMetadata metadata = samples(samples_seen);
  metadata["step"] = step;
  writer_.start("eval", metadata);
}

void EventLog::eval_stop(const reports::Evaluation& evaluation) {
  writer_.point("eval_accuracy", evaluation.loss, samples(evaluation.samples_seen));
  writer_.stop("eval", samples(evaluation.samples_seen));
}

void EventLog::machine_state(int64_t step, const EventMetadata& figures) {
  writer_.point("machine_state", step, figures);
}

void EventLog::run_stop(const std::string& status, int64_t samples_seen) {
  EventMetadata metadata = samples(samples_seen);
  metadata["status"] = status;
  writer_.stop("run", metadata);
}

void EventLog::pass_start(const std::string& pass) {
  writer_.start(pass);
  pass_ = pass;
}

void EventLog::pass_stop(const std::string& pass) {
  writer_.stop(pass);
  pass_.clear();
}

std::string EventLog::pass_abort() {
  const std::string pass = std::exchange(pass_, "");
  const EventMetadata aborted{{"status", std::string("aborted")}};
  if (!pass.empty()) writer_.stop(pass, aborted);
  if (std::exchange(in_init_, false)) writer_.stop("init", aborted);
  return pass;
}

}  // namespace noisemark::suite
