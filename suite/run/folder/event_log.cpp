#include "suite/run/folder/event_log.h"

#include <algorithm>
#include <utility>

#include "suite/train/adam.h"

namespace noisemark::suite {
namespace {

using reports::EventMetadata;

EventMetadata samples(int64_t count) {
  return {{"samples_count", count}};
}

}  // namespace

void EventLog::start(const std::string& name, const EventMetadata& metadata) {
  if (writer_) writer_->start(name, metadata);
}

void EventLog::stop(const std::string& name, const EventMetadata& metadata) {
  if (writer_) writer_->stop(name, metadata);
}

void EventLog::point(const std::string& key, const reports::EventValue& value,
                     const EventMetadata& metadata) {
  if (writer_) writer_->point(key, value, metadata);
}

void EventLog::init_start(const Definition& definition, uint64_t seed) {
  point("cache_clear", false);  // nothing flushes the system's file cache
  start("init");
  in_init_ = true;
  point("submission_benchmark", definition.id + "@" + definition.scale);
  point("seed", static_cast<int64_t>(seed));
  point("global_batch_size", definition.train.batch);
  point("gradient_accumulation_steps", definition.train.accumulation);
  point("eval_samples", definition.eval.samples);
  const OptimizerConfig& optimizer = definition.optimizer;
  point("opt_name", optimizer.name);
  const RateScale scale = rate_scale(definition);
  point("opt_base_learning_rate", optimizer.lr * scale.factor);
  point("opt_learning_rate_warmup_steps", std::max(optimizer.warmup_steps, scale.warmup_steps));
  point("opt_adam_beta_1", optimizer.beta1);
  point("opt_adam_beta_2", optimizer.beta2);
  point("opt_adam_epsilon", optimizer.eps);
  point("opt_gradient_clip_norm", optimizer.clip_norm);
}

void EventLog::run_start() {
  stop("init");
  in_init_ = false;
  start("run");
}

void EventLog::eval_start(int64_t step, int64_t samples_seen) {
  EventMetadata metadata = samples(samples_seen);
  metadata["step"] = step;
  start("eval", metadata);
}

void EventLog::eval_stop(const reports::Evaluation& evaluation) {
  point("eval_accuracy", evaluation.loss, samples(evaluation.samples_seen));
  stop("eval", samples(evaluation.samples_seen));
}

void EventLog::eval_abort(int64_t samples_seen) {
  EventMetadata metadata = samples(samples_seen);
  metadata["status"] = "aborted";
  stop("eval", metadata);
}

void EventLog::machine_state(int64_t step, const EventMetadata& figures) {
  point("machine_state", step, figures);
}

void EventLog::run_stop(const std::string& status, int64_t samples_seen) {
  EventMetadata metadata = samples(samples_seen);
  metadata["status"] = status;
  stop("run", metadata);
}

void EventLog::pass_start(const std::string& pass) {
  start(pass);
  pass_ = pass;
}

void EventLog::pass_stop(const std::string& pass) {
  stop(pass);
  pass_.clear();
}

std::string EventLog::pass_abort() {
  const std::string pass = std::exchange(pass_, "");
  const EventMetadata aborted{{"status", std::string("aborted")}};
  if (!pass.empty()) stop(pass, aborted);
  if (std::exchange(in_init_, false)) stop("init", aborted);
  return pass;
}

}  // namespace noisemark::suite
