#include "memopt/planned_mode.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "memopt/device_parts.h"
#include "memopt/offload_pool.h"
#include "memopt/plan/codec_figures.h"
#include "memopt/plan/peak_timeline.h"
#include "memopt/repeated_work.h"
#include "memopt/replay/value_samples.h"

namespace noisemark::memopt {
namespace {

constexpr const char* kNothingRecorded = "no forward pass was recorded yet";
constexpr const char* kNoBackward =
    "the backward of a recorded forward pass did not begin before its step ended";
constexpr const char* kOneRecorded = "one forward pass was recorded, of two that are needed";

/// So often a codec may refuse a value before the next one is taken.
constexpr int kRefusalsOfACodec = 2;

/// A pass that failed before backward asked for anything says nothing about the next one.
bool reached_backward(const StepGraph& graph) {
  return std::any_of(graph.slots.begin(), graph.slots.end(),
                     [](const RecordedSlot& slot) { return slot.unpack_order != kNone; });
}

/// So many passes that were cut short are seen again; then what a backward leaves out is taken
/// for what this model leaves out.
constexpr int kPassesCutShort = 2;

/// Backward asked for the same slots: an exception may end it early.
bool asked_alike(const StepGraph& a, const StepGraph& b) {
  if (a.slots.size() != b.slots.size()) return true;  // another flow, which shows elsewhere
  return std::equal(a.slots.begin(), a.slots.end(), b.slots.begin(),
                    [](const RecordedSlot& x, const RecordedSlot& y) {
                      return (x.unpack_order == kNone) == (y.unpack_order == kNone);
                    });
}

}  // namespace

/// Between a pass that is rehearsed and its backward.
class PlannedMode::Watcher final : public BackwardWatcher {
 public:
  explicit Watcher(PlannedMode& mode) : mode_(mode) {}
  void before_backward(const BackwardAgain& again) override { mode_.rehearse_before(again); }

 private:
  PlannedMode& mode_;  ///< owns this
};

PlannedMode::PlannedMode(std::string name, bool lossless, Policy policy)
    : name_(std::move(name)), lossless_(lossless), policy_(std::move(policy)) {
  report_.missing_reason = kNothingRecorded;
}

PlannedMode::~PlannedMode() = default;

void PlannedMode::attach(const ModelView& model) {
  model_ = model;
  recorder_.reset();
  execution_.reset();
  rehearsal_.reset();
  watcher_.reset();
  graph_.reset();
  plan_.reset();
  past_.clear();
  awaited_.clear();
  doubt_.reset();
  doubted_.reset();
  asked_.reset();
  unchecked_ = false;
  reconciled_ = verified_ = gave_up_ = false;
  cut_short_ = 0;
  overrides_ = {};
  refusals_.clear();
  if (policy_.host != nullptr) policy_.host->reset();
  report_ = {};
  report_.missing_reason = kNothingRecorded;
}

void PlannedMode::begin_step(int64_t step) {
  step_ = step;
  check_unchecked_step();
}

void PlannedMode::end_step() {
  finish_pass();
}

void PlannedMode::check_step() {
  unchecked_ = false;
  asked_.reset();
  if (doubt_ != nullptr) refuse_doubtful_step();
}

/// Never waits: what is not known yet is looked at again when the next step begins.
void PlannedMode::check_unchecked_step() {
  if (doubt_ == nullptr || !unchecked_ || work_is_recorded()) return;
  if (asked_ == nullptr) asked_ = doubt_->ask();
  const Verdict::State state = asked_->poll();
  if (state == Verdict::State::kPending) return;
  asked_.reset();
  if (state == Verdict::State::kLost) refuse_doubtful_step();
}

void PlannedMode::refuse_doubtful_step() {
  const int32_t number = doubt_->take();
  if (number == 0) return;
  const std::shared_ptr<const TreatmentPlan> plan = doubted_;
  const SlotId slot = ValueSamples::slot_of(number);
  ++report_.counters.mismatches;
  if (!gave_up_) keep_what_differed({plan->slots[static_cast<size_t>(slot)].value}, *plan);
  TORCH_CHECK(false, not_what_forward_had(*plan->graph, slot));
}

const replay::SampleDevice* PlannedMode::late_comparison() const {
  return device().is_cpu() ? nullptr : find_sample_device(device().type());
}

std::shared_ptr<DeviceDoubt> PlannedMode::doubt() {
  const replay::SampleDevice* kernels = late_comparison();
  if (doubt_ == nullptr && kernels != nullptr) {
    doubt_ = std::make_shared<DeviceDoubt>(device(), *kernels);
  }
  return doubt_;
}

void PlannedMode::begin_forward() {
  finish_pass();
  if (gave_up_) return;
  if (!reconciled_) {
    // The second pass is the one whose times are taken, and all that it launches has been loaded.
    const auto queue =
        graph_ == nullptr ? OperatorTimes::Queue::kAsItComes : OperatorTimes::Queue::kHeld;
    recorder_ = std::make_unique<StepRecorder>(model_, recorded_memory(), queue);
    return;
  }
  const EncodeKey key{model_.seed, step_, 0};
  if (verified_ && wants_rehearsal()) {
    doubted_ = plan_;
    rehearsal_ = std::make_unique<Rehearsal>(graph_, key, doubt());
    return;
  }
  if (!verified_) {
    execution_ = std::make_unique<PlanExecution>(plan_, key, PlanExecution::Purpose::kVerify);
    return;
  }
  doubted_ = plan_;
  unchecked_ = true;
  execution_ =
      std::make_unique<PlanExecution>(plan_, key, PlanExecution::Purpose::kFollow, doubt());
}

void PlannedMode::end_forward() {
  if (recorder_ != nullptr) recorder_->end_forward();
  if (rehearsal_ != nullptr) {
    watcher_ = std::make_shared<Watcher>(*this);
    watch_backward(watcher_);
  }
  if (execution_ == nullptr) return;
  try {
    execution_->end_forward();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

std::unique_ptr<torch::autograd::SavedVariableHooks> PlannedMode::make_hooks() {
  if (recorder_ != nullptr) return recorder_->make_hooks();
  if (rehearsal_ != nullptr) return rehearsal_->make_hooks();
  return execution_ == nullptr ? nullptr : execution_->make_hooks();
}

std::vector<at::Tensor> PlannedMode::held() const {
  return execution_ == nullptr ? std::vector<at::Tensor>{} : execution_->held();
}

PlannedModeReport PlannedMode::report() const {
  PlannedModeReport report = report_;
  if (plan_ != nullptr) report.plan = summarize(*plan_);
  report.verified = plan_ != nullptr && verified_ && !wants_rehearsal();
  report.host = host_memory();
  return report;
}

bool PlannedMode::steady() const {
  return gave_up_ || (plan_ != nullptr && verified_ && !wants_rehearsal());
}

std::optional<HostMemoryReport> PlannedMode::host_memory() const {
  if (policy_.host == nullptr) return std::nullopt;
  const std::optional<HostOffloadUsage> usage = policy_.host->usage();
  if (!usage) return std::nullopt;
  HostMemoryReport report;
  report.capacity_bytes = usage->capacity_bytes;
  for (const StorageId storage : overrides_.no_room) {
    ++report.refused_tensors;
    report.refused_bytes += graph_->storages[static_cast<size_t>(storage)].bytes;
  }
  return report;
}

std::optional<PlanEstimate> PlannedMode::estimate() const {
  if (plan_ == nullptr) return std::nullopt;
  const PeakTimeline timeline = simulate(*plan_, measured_codec_figures(device()));
  PlanEstimate estimate;
  estimate.saved_bytes = timeline.saved_bytes;
  estimate.peak_saved_bytes = timeline.peak_saved_bytes;
  estimate.cost_ns = timeline.cost_ns;
  const bool followed = plan_->graph->at_end.live_bytes >= 0;
  if (followed) estimate.peak_bytes = peak_bytes(timeline, other_bytes(plan_->graph));
  return estimate;
}

std::optional<int64_t> PlannedMode::irreplaceable_bytes() const {
  if (plan_ == nullptr) return std::nullopt;
  return memopt::irreplaceable_bytes(*plan_);
}

c10::Device PlannedMode::device() const {
  return model_.parameters.empty() ? c10::Device(c10::kCPU)
                                   : model_.parameters.front().second.device();
}

AllocationSource* PlannedMode::recorded_memory() const {
  try {
    return find_allocation_source(device());
  } catch (const c10::Error&) {
    return nullptr;  // nobody follows the CPU's allocations in this program
  }
}

// Called from destructors: what goes wrong here ends the plan, not the training.
void PlannedMode::finish_pass() {
  watcher_.reset();
  rehearsal_.reset();
  try {
    if (recorder_ != nullptr) finish_recording();
    if (execution_ != nullptr) finish_following();
    learn_from_verdicts();
    learn_from_backwards();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

/// A backward of another forward pass is let by; what goes wrong ends the plan, not the training.
void PlannedMode::rehearse_before(const BackwardAgain& again) {
  if (rehearsal_ == nullptr) return;
  try {
    std::vector<at::Tensor> parameters;
    for (const auto& [name, parameter] : model_.parameters) {
      if (parameter.requires_grad()) parameters.push_back(parameter);
    }
    const std::unique_ptr<GradientProbe> probe = probe_of(again, std::move(parameters));
    if (probe != nullptr && rehearsal_->asked() == 0) return;
    if (probe != nullptr && probe->usable()) {
      rehearse(*probe);
      if (doubt_ != nullptr) refuse_doubtful_step();
      make_plan();
    }
    rehearsal_->end();
  } catch (const std::exception& error) {
    rehearsal_->end();
    give_up(error.what());
  }
}

/// Null where the program's own backward fails: it says so itself when it is run.
std::unique_ptr<GradientProbe> PlannedMode::probe_of(const BackwardAgain& again,
                                                     std::vector<at::Tensor> parameters) {
  try {
    return std::make_unique<GradientProbe>(*rehearsal_, again, std::move(parameters));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void PlannedMode::give_up(const std::string& reason) {
  recorder_.reset();
  execution_.reset();
  plan_.reset();
  past_.clear();
  awaited_.clear();
  gave_up_ = true;
  report_.missing_reason = reason;
}

void PlannedMode::finish_recording() {
  const std::unique_ptr<StepRecorder> recorder = std::move(recorder_);
  StepGraph graph = recorder->take();
  if (!reached_backward(graph)) {
    if (graph_ == nullptr) report_.missing_reason = kNoBackward;
    return;
  }
  const bool cut_short = graph_ != nullptr && !asked_alike(*graph_, graph) && is_seen_again();
  if (graph_ == nullptr || cut_short || !reconcile(*graph_, graph, report_.unrepeatable)) {
    report_.missing_reason =
        graph_ == nullptr ? kOneRecorded : "two recorded passes in a row differed";
    graph_ = std::make_shared<StepGraph>(std::move(graph));
    return;
  }
  // The second pass is warm: its times and bytes are those of a steady step.
  take_measurements(*graph_, graph);
  if (policy_.segments_of_equal_bytes) cut_into_equal_segments(*graph_);
  reconciled_ = true;
  report_.missing_reason.clear();
  make_plan();
}

void PlannedMode::finish_following() {
  const std::unique_ptr<PlanExecution> execution = std::move(execution_);
  const bool departed = execution->departed();
  if (departed) ++report_.counters.departures;
  if (policy_.host != nullptr) overrides_.no_room.merge(policy_.host->take_refused());
  past_.push_back({execution->findings(), verified_ ? plan_ : nullptr, {}});
  if (verified_) {
    if (!departed) ++report_.followed_passes;
    count_fallbacks(execution->refused());
    for (AwaitedVerdict& awaited : execution->awaited()) awaited_.push_back(std::move(awaited));
  } else if (!departed && execution->compared_any()) {
    learn_from(*execution);
  }
}

/// What a device had not said of an encoding when its pass ended is heard when a later one does.
void PlannedMode::learn_from_verdicts() {
  if (work_is_recorded()) return;
  std::vector<Refusal> lost;
  std::erase_if(awaited_, [&lost](const AwaitedVerdict& awaited) {
    const Verdict::State verdict = awaited.verdict->poll();
    if (verdict == Verdict::State::kLost) lost.push_back(awaited.if_lost);
    return verdict != Verdict::State::kPending;
  });
  count_fallbacks(lost);
}

void PlannedMode::count_fallbacks(const std::vector<Refusal>& refused) {
  report_.counters.codec_fallbacks += std::ssize(refused);
  replace_codecs(refused);
}

/// Of passes that are over. A backward that comes later is heard the next time.
void PlannedMode::learn_from_backwards() {
  std::vector<PastPass> open;
  for (PastPass& pass : std::exchange(past_, {})) {
    const bool ended = pass.findings.use_count() == 1;  // no hook is left to find more
    BackwardFinding found = pass.findings->all();
    ExecutionCounters& counters = report_.counters;
    counters.recipes_run += found.recipes_run - pass.heard.recipes_run;
    counters.recipes_run_again += found.recipes_run_again - pass.heard.recipes_run_again;
    const auto news = found.mismatched.begin() + std::ssize(pass.heard.mismatched);
    counters.mismatches += found.mismatched.end() - news;
    if (pass.plan != nullptr) keep_what_differed({news, found.mismatched.end()}, *pass.plan);
    if (!ended) open.push_back({pass.findings, pass.plan, std::move(found)});
  }
  past_ = std::move(open);
}

/// From a pass that verified the plan.
void PlannedMode::learn_from(const PlanExecution& execution) {
  if (execution.cut_short() && is_seen_again()) return;
  const auto is_encoded = [this](ValueId value) {
    return plan_->values[static_cast<size_t>(value)].source == Source::kEncoded;
  };
  const std::vector<ValueId> mismatched = execution.findings()->all().mismatched;
  const std::set<ValueId> wrong(mismatched.begin(), mismatched.end());
  overrides_.shortcut_ns = execution.shortcut_ns();
  if (give_up_shortcuts(wrong)) return make_plan();
  report_.kept_after_mismatch += static_cast<int32_t>(wrong.size());
  for (const Refusal& refusal : execution.refused()) {
    overrides_.refused[refusal.value].insert(refusal.form);
  }
  for (const auto& [value, trial] : plan_->trials) {
    const bool saved = !graph_->values[static_cast<size_t>(value)].slots.empty();
    if (!saved) overrides_.tried_parts.insert(value);
  }
  for (const ValueId value : wrong) {
    if (is_encoded(value)) {
      overrides_.as_saved.insert(encoded_as(value));
    } else {
      overrides_.keep.insert(value);
    }
  }
  // A codec keeps its promise whether backward asked or not; of a recipe nothing is known.
  for (const ValueId value : execution.not_compared()) {
    if (!is_encoded(value)) overrides_.keep.insert(value);
  }
  verified_ = wrong.empty();
  make_plan();
}

/// A backward that got an error for a value, and was perhaps not the end of the training. Which of
/// the operators behind the value changed is not known.
void PlannedMode::keep_what_differed(std::vector<ValueId> suspects, const TreatmentPlan& plan) {
  if (suspects.empty()) return;
  const size_t before = overrides_.keep.size();
  while (!suspects.empty()) {
    const ValueId value = suspects.back();
    suspects.pop_back();
    const ValueTreatment& treatment = plan.values[static_cast<size_t>(value)];
    if (treatment.source != Source::kMadeAgain || !overrides_.keep.insert(value).second) continue;
    const Recipe& recipe = *plan.recipes[static_cast<size_t>(treatment.recipe)];
    suspects.insert(suspects.end(), recipe.inputs.begin(), recipe.inputs.end());
  }
  report_.kept_after_mismatch += static_cast<int32_t>(overrides_.keep.size() - before);
  make_plan();
}

bool PlannedMode::is_seen_again() {
  return ++cut_short_ <= kPassesCutShort;
}

/// What else was wrong may have been made from what a wrong shortcut gave: the next pass tells.
bool PlannedMode::give_up_shortcuts(const std::set<ValueId>& wrong) {
  const size_t before = overrides_.replay.size();
  std::set<ValueId> seen;
  std::vector<ValueId> suspects(wrong.begin(), wrong.end());
  while (!suspects.empty()) {
    const ValueId value = suspects.back();
    suspects.pop_back();
    const int32_t recipe = plan_->values[static_cast<size_t>(value)].recipe;
    if (recipe == kNone || !seen.insert(value).second) continue;
    const Recipe& made_by = *plan_->recipes[static_cast<size_t>(recipe)];
    if (made_by.is_shortcut) overrides_.replay.insert(value);
    for (const ValueId input : made_by.inputs) {
      // What was saved was compared itself.
      if (graph_->values[static_cast<size_t>(input)].slots.empty()) suspects.push_back(input);
    }
  }
  report_.replayed_after_mismatch = static_cast<int32_t>(overrides_.replay.size());
  return overrides_.replay.size() > before;
}

ValueId PlannedMode::encoded_as(ValueId value) const {
  const ValueId with = plan_->values[static_cast<size_t>(value)].encoded_with;
  return with == kNone ? value : with;
}

/// A codec that did not take a value twice makes room for the next.
void PlannedMode::replace_codecs(const std::vector<Refusal>& refused) {
  bool any = false;
  for (const Refusal& refusal : refused) {
    if (++refusals_[refusal.value] < kRefusalsOfACodec) continue;
    refusals_.erase(refusal.value);
    overrides_.refused[refusal.value].insert(refusal.form);
    any = true;
  }
  if (any) make_plan();
}

void PlannedMode::make_plan() {
  plan_ = std::make_shared<const TreatmentPlan>(plan_for(graph_, overrides_, verified_));
}

TreatmentPlan PlannedMode::plan_for(std::shared_ptr<const StepGraph> graph,
                                    const Overrides& overrides, bool /*verified*/) {
  return resolve(std::move(graph), policy_, overrides);
}

PlannedModeReport report_of(const Mode& mode) {
  if (const auto* planned = dynamic_cast<const PlannedMode*>(&mode)) return planned->report();
  PlannedModeReport report;
  report.missing_reason = "the mode makes no plan";
  return report;
}

}  // namespace noisemark::memopt
