#include "memopt/modes/planned_mode.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "memopt/accounting/allocation_source.h"
#include "memopt/device/repeated_work.h"
#include "memopt/modes/policies.h"
#include "memopt/modes/shared_pass.h"
#include "memopt/plan/codec_figures.h"
#include "memopt/plan/cuts.h"
#include "memopt/plan/peak_timeline.h"
#include "memopt/replay/value_samples.h"

namespace noisemark::memopt {
namespace {

constexpr const char* kNothingRecorded = "no forward pass was recorded yet";
constexpr const char* kNoBackward =
    "the backward of a recorded forward pass did not begin before its step ended, or each was "
    "differentiated itself";
constexpr const char* kOneRecorded = "one forward pass was recorded, of two that are needed";
constexpr const char* kDeparted = "passes departed from the recorded one";
constexpr const char* kToBeCompared = "a plan was made, and the next pass is compared with it";
constexpr const char* kMeasured = "the last pass kept everything, to measure an error by it";
constexpr const char* kNotCompared =
    "backward asked for nothing that a plan could be compared with";
constexpr const char* kNotRehearsed =
    "no error was measured: the gradient was zero or not finite, or backward was called inside of "
    "the scope of its forward pass or on another thread";
constexpr const char* kNothingTrained =
    "no error can be measured: the mode was told of no parameter that is trained";
constexpr const char* kHigherPeak =
    "making values again would hold more at the peak of the step than keeping them does";
constexpr const char* kNoTwoAlike = "no two of the recorded passes were alike";

/// Plans that wait for passes of their kind.
constexpr size_t kMostKnown = 3;
/// The number of passes that are watched in vain before the mode rests. A new one is compared with
/// all of them, so that shapes in rotation are seen again; they hold no tensors but the model's.
constexpr size_t kMostInVain = 16;
/// The number of passes that depart from a plan and are let by, at first and at most.
constexpr int64_t kFirstPatience = 4;
constexpr int64_t kMostPatience = 256;
/// The number of passes in a row without a plan after which the user is warned, once.
constexpr int64_t kLongUnplanned = 32;

/// The number of times that a codec may refuse a value before the next one is taken.
constexpr int kRefusalsOfACodec = 2;

/// The number of passes that were cut short and are seen again; then what a backward leaves out is
/// taken for what this model leaves out.
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

/// Watches between a pass that is rehearsed and its backward.
class PlannedMode::Watcher final : public BackwardWatcher {
 public:
  explicit Watcher(PlannedMode& mode) : mode_(mode) {}
  void before_backward(const BackwardToCome& backward) override {
    const auto restore = c10::make_scope_exit(
        [this, before = std::exchange(mode_.rehearses_, true)] { mode_.rehearses_ = before; });
    mode_.rehearse_before(backward);
  }

 private:
  PlannedMode& mode_;  ///< owns this
};

PlannedMode::PlannedMode(std::string name, bool lossless, Policy policy)
    : name_(std::move(name)), lossless_(lossless), policy_(std::move(policy)) {
  report_.missing_reason = kNothingRecorded;
}

PlannedMode::~PlannedMode() = default;

void PlannedMode::attach(const ModelView& model) {
  attached_ = true;
  model_ = model;
  // A module may register a parameter or buffer that it does not have.
  std::erase_if(model_.parameters, [](const auto& named) { return !named.second.defined(); });
  std::erase_if(model_.buffers, [](const at::Tensor& buffer) { return !buffer.defined(); });
  // One that is registered twice would be asked twice for its gradient.
  std::set<const c10::TensorImpl*> seen;
  std::erase_if(model_.parameters, [&seen](const auto& named) {
    return !seen.insert(named.second.unsafeGetTensorImpl()).second;
  });
  enter(Recording{});
  open_on_ = std::thread::id();
  known_.clear();
  shared_pass_.reset();
  other_ = {};
  begins_like_others_ = was_shared_ = false;
  departures_ = passes_ = followed_until_ = followed_at_ = steps_ = 0;
  step_is_open_ = false;
  warned_ = false;
  open_passes_.clear();
  earlier_passes_.clear();
  earlier_held_ = 0;
  patience_ = kFirstPatience;
  together_ = model_.passes_together;
  beside_bytes_ = refused_bytes_ = other_plans_bytes_ = 0;
  graph_.reset();
  plan_.reset();
  past_.clear();
  awaited_.clear();
  doubt_.reset();
  doubted_.reset();
  asked_.reset();
  unchecked_ = false;
  cut_short_ = 0;
  overrides_ = {};
  refusals_.clear();
  if (policy_.host != nullptr) policy_.host->reset();
  report_ = {};
  report_.missing_reason = kNothingRecorded;
  forget_plan();
}

void PlannedMode::begin_step(int64_t step) {
  require_attached();
  step_ = step;
  step_is_open_ = true;
  ++steps_;
  earlier_held_ = other_plans_bytes_ = 0;
  check_unchecked_step();
}

void PlannedMode::require_attached() const {
  if (attached_) return;
  throw std::logic_error("mode " + name_ + " was not told of a model: call attach() with its " +
                         "parameters and buffers before the first step");
}

void PlannedMode::end_step() {
  step_is_open_ = false;
  finish_pass();
  forget_other_models();
  earlier_passes_.insert(earlier_passes_.end(), open_passes_.begin(), open_passes_.end());
  open_passes_.clear();
}

void PlannedMode::check_step() {
  unchecked_ = false;
  asked_.reset();
  warn_of_unplanned_passes();
  if (doubt_ != nullptr) refuse_doubtful_step();
}

void PlannedMode::warn_of_unplanned_passes() {
  if (warned_ || passes_ - followed_until_ < kLongUnplanned) return;
  warned_ = true;
  TORCH_WARN("mode ", name_, ": the last ", passes_ - followed_until_,
             " forward passes followed no plan, and kept everything: ", reason_without_plan());
}

/// Never waits: what is not known yet is looked at again when the next step begins.
void PlannedMode::check_unchecked_step() {
  if (doubt_ == nullptr || !unchecked_ || work_is_recorded()) return;
  if (asked_ == nullptr) asked_ = doubt_->ask();
  const DeviceAnswer::State state = asked_->poll();
  if (state == DeviceAnswer::State::kPending) return;
  asked_.reset();
  if (state == DeviceAnswer::State::kLost) refuse_doubtful_step();
}

void PlannedMode::refuse_doubtful_step() {
  const int32_t number = doubt_->take();
  if (number == 0) return;
  const std::shared_ptr<const TreatmentPlan> plan = doubted_;
  const SlotId slot = ValueSamples::slot_of(number);
  ++report_.counters.mismatches;
  // In a step of several passes the doubt may be about one that followed another plan.
  if (static_cast<size_t>(slot) >= plan->slots.size()) {
    if (!is<GivenUp>()) start_over("a value was not what forward had");
    TORCH_CHECK(false, "a value that was made again is not what forward had: another plan's slot ",
                slot);
  }
  if (!is<GivenUp>()) keep_what_differed({plan->slots[static_cast<size_t>(slot)].value}, *plan);
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
  require_saved_tensor_engine();
  require_attached();
  if (rehearses_) return;
  auto open_on = std::thread::id();
  if (!open_on_.compare_exchange_strong(open_on, std::this_thread::get_id()) &&
      open_on != std::this_thread::get_id()) {
    throw std::logic_error("mode " + name_ + ": a scope is open on another thread: a mode " +
                           "serves one forward pass at a time");
  }
  auto close = c10::make_scope_exit([this] { open_on_ = std::thread::id(); });
  finish_pass();
  for (auto* passes : {&open_passes_, &earlier_passes_}) {
    std::erase_if(*passes, [](const auto& pass) { return pass.expired(); });
  }
  earlier_held_ = std::max(earlier_held_, std::ssize(earlier_passes_));
  together_ = std::max(together_, std::ssize(open_passes_) + 1);
  begin_gradient_bytes_ = gradient_bytes(model_);
  forget_other_models();
  try {
    if (verified()) before_pass();
  } catch (const std::exception& error) {
    give_up(words_of(error));
  }
  begin_pass();
  close.release();
  was_shared_ = false;
  if (is<GivenUp>() || known_.empty()) return;
  const EncodeKey key{model_.seed, step_, 0};
  std::vector<Alternative> alternatives;
  for (const KnownPlan& known : known_) {
    alternatives.push_back(
        {known.plan,
         std::make_unique<PlanExecution>(known.plan, key, PlanExecution::Purpose::kFollow, doubt()),
         known.begins_like_others});
  }
  shared_pass_ = std::make_shared<SharedPass>(*this, std::move(alternatives));
}

namespace {

using Storages = std::unordered_set<const c10::StorageImpl*>;

Storages storages_of(const ModelView& model) {
  Storages storages;
  const auto note = [&storages](const at::Tensor& tensor) {
    if (tensor.has_storage()) storages.insert(tensor.storage().unsafeGetStorageImpl());
  };
  for (const auto& [name, parameter] : model.parameters) note(parameter);
  for (const at::Tensor& buffer : model.buffers) note(buffer);
  return storages;
}

/// The graph was recorded when the model had other memory.
bool is_of_another_model(const StepGraph& graph, const Storages& now) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&now](const RecordedValue& value) {
    return value.origin == RecordedValue::Origin::kModel && value.model_tensor.has_storage() &&
           now.count(value.model_tensor.storage().unsafeGetStorageImpl()) == 0;
  });
}

}  // namespace

/// A plan recomputes values from the memory that parameters had, and holds it.
void PlannedMode::forget_other_models() {
  const Storages now = storages_of(model_);
  const auto is_of_another = [&now](const auto& graph) { return is_of_another_model(*graph, now); };
  std::erase_if(known_, [&](const auto& known) { return is_of_another(known.plan->graph); });
  if (auto* recording = std::get_if<Recording>(&phase_)) {
    std::erase_if(recording->seen, is_of_another);
  }
  if (graph_ == nullptr || !is_of_another(graph_)) return;
  plan_.reset();
  record_again("parameters got other memory");
}

void PlannedMode::begin_pass() {
  ++passes_;
  if (!step_is_open_) ++steps_;
  if (auto* resting = std::get_if<Resting>(&phase_)) {
    if (--resting->passes_left <= 0) enter(Recording{});
    return;
  }
  if (auto* recording = std::get_if<Recording>(&phase_)) {
    // The second pass is the one whose times are taken, and all that it launches has been loaded.
    const auto queue =
        recording->seen.empty() ? OperatorTimes::Queue::kAsItComes : OperatorTimes::Queue::kHeld;
    recording->pass = std::make_unique<StepRecorder>(model_, recorded_memory(), queue);
    return;
  }
  const EncodeKey key{model_.seed, step_, 0};
  if (auto* verifying = std::get_if<Verifying>(&phase_)) {
    verifying->pass = std::make_unique<PlanExecution>(plan_, key, PlanExecution::Purpose::kVerify);
  } else if (verified() && wants_rehearsal()) {
    doubted_ = plan_;
    enter(Rehearsing{std::make_unique<Rehearsal>(graph_, key, doubt()), nullptr});
  } else if (verified()) {
    doubted_ = plan_;
    unchecked_ = true;
    enter(Following{
        std::make_unique<PlanExecution>(plan_, key, PlanExecution::Purpose::kFollow, doubt())});
  }
}

PlanExecution* PlannedMode::execution() const {
  if (other_.pass != nullptr) return other_.pass.get();
  if (const auto* verifying = std::get_if<Verifying>(&phase_)) return verifying->pass.get();
  if (const auto* following = std::get_if<Following>(&phase_)) return following->pass.get();
  return nullptr;
}

void PlannedMode::end_forward() {
  if (rehearses_) return;
  open_on_ = std::thread::id();
  settle_shared_pass();
  const auto* recording = std::get_if<Recording>(&phase_);
  if (recording != nullptr && recording->pass != nullptr) recording->pass->end_forward();
  auto* rehearsing = std::get_if<Rehearsing>(&phase_);
  if (rehearsing != nullptr && rehearsing->pass != nullptr) {
    rehearsing->pass->end_forward();
    rehearsing->watcher = std::make_shared<Watcher>(*this);
    watch_backward(rehearsing->watcher);
  }
  if (execution() == nullptr) return;
  try {
    execution()->end_forward();
  } catch (const std::exception& error) {
    give_up(words_of(error));
  }
}

std::unique_ptr<torch::autograd::SavedVariableHooks> PlannedMode::make_hooks() {
  if (rehearses_) return nullptr;
  if (shared_pass_ != nullptr) return shared_pass_->make_hooks();
  return hooks_of_pass();
}

/// The pass is none of the kind that the mode is at work on.
void PlannedMode::drop_pass() {
  std::visit(
      [](auto& phase) {
        if constexpr (requires { phase.pass; }) phase.pass.reset();
      },
      phase_);
}

/// The forward pass is over: it is known which plan it follows.
void PlannedMode::settle_shared_pass() {
  const std::shared_ptr<SharedPass> shared = std::exchange(shared_pass_, nullptr);
  if (shared == nullptr) return;
  other_ = shared->settle();
  was_shared_ = !shared->plans().empty();
  note_other_plans(shared->plans());
  if (other_.pass == nullptr) return;
  doubted_ = other_.plan;
  unchecked_ = true;
}

/// Returns null where the pass in progress is watched, compared or rehearsed.
std::shared_ptr<const TreatmentPlan> PlannedMode::followed_plan() const {
  return is<Following>() ? plan_ : nullptr;
}

/// Each held what it needs of the part that is the same for all; at most, all that it holds.
void PlannedMode::note_other_plans(
    const std::vector<std::shared_ptr<const TreatmentPlan>>& shared) {
  const auto followed = other_.pass != nullptr ? other_.plan : followed_plan();
  int64_t bytes = 0;
  for (const std::shared_ptr<const TreatmentPlan>& plan : shared) {
    if (plan == followed) continue;
    const PlanSummary summary = summarize(plan == nullptr ? *followed : *plan);
    bytes +=
        plan == nullptr ? summary.recorded_bytes : summary.held_bytes + summary.encoded_from_bytes;
  }
  other_plans_bytes_ = std::max(other_plans_bytes_, bytes);
}

bool PlannedMode::begins_as_planned(const at::Tensor& tensor) {
  return says_of_pass([&tensor](auto& pass) { return pass.begins_with(tensor); });
}

bool PlannedMode::has_departed() {
  return says_of_pass([](auto& pass) { return pass.departed(); });
}

bool PlannedMode::is_complete() {
  return says_of_pass([](auto& pass) { return pass.complete(); });
}

std::unique_ptr<torch::autograd::SavedVariableHooks> PlannedMode::hooks_of_pass() {
  return std::visit(
      [](auto& phase) -> std::unique_ptr<torch::autograd::SavedVariableHooks> {
        if constexpr (requires { phase.pass; }) {
          if (phase.pass != nullptr) return phase.pass->make_hooks();
        }
        return nullptr;
      },
      phase_);
}

std::vector<at::Tensor> PlannedMode::held() const {
  return execution() == nullptr ? std::vector<at::Tensor>{} : execution()->held();
}

std::string PlannedMode::reason_without_plan() const {
  const PlannedModeReport report = PlannedMode::report();
  return report.missing_reason.empty() ? kDeparted : report.missing_reason;
}

PlannedModeReport PlannedMode::report() const {
  PlannedModeReport report = report_;
  if (plan_ != nullptr) report.plan = summarize(*plan_);
  report.verified = verified() && !wants_rehearsal();
  if (plan_ != nullptr && makes_nothing_again_ && report.missing_reason.empty()) {
    report.missing_reason = kHigherPeak;
  }
  report.unplanned_passes = passes_ - followed_until_;
  if (report.missing_reason.empty() && is<Verifying>()) report.missing_reason = kToBeCompared;
  if (report.missing_reason.empty() && is<Rehearsing>()) report.missing_reason = kMeasured;
  // Passes of another kind are let by before they are watched.
  if (report.verified && report.unplanned_passes > 0 && departures_ > 0) {
    report.departure_reason = kDeparted;
  }
  report.host = host_memory();
  return report;
}

bool PlannedMode::steady() const {
  return is<GivenUp>() || (verified() && !wants_rehearsal());
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
  estimate.peak_saved_bytes =
      timeline.peak_saved_bytes + passes_beside().passes * timeline.saved_bytes;
  estimate.cost_ns = timeline.cost_ns;
  const bool followed = plan_->graph->at_end.live_bytes >= 0;
  if (followed) {
    estimate.peak_bytes = peak_bytes(timeline, other_bytes(plan_->graph), passes_beside());
  }
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

// Destructors call this: what goes wrong here ends the plan, not the training.
void PlannedMode::finish_pass() {
  settle_shared_pass();
  note_open_pass();
  try {
    if (other_.pass != nullptr) {
      finish_alternative();
    } else if (auto* recording = std::get_if<Recording>(&phase_)) {
      finish_recording(*recording);
    } else if (auto* verifying = std::get_if<Verifying>(&phase_)) {
      if (const auto pass = std::move(verifying->pass)) finish_verifying(*pass);
    } else if (auto* following = std::get_if<Following>(&phase_)) {
      if (const auto pass = std::move(following->pass)) finish_following(*pass);
    } else if (auto* rehearsing = std::get_if<Rehearsing>(&phase_)) {
      if (const auto pass = std::move(rehearsing->pass)) finish_rehearsing(*rehearsing, *pass);
    }
    learn_from_answers();
    learn_from_backwards();
  } catch (const std::exception& error) {
    give_up(words_of(error));
  }
}

/// A backward of another forward pass is let by; what goes wrong ends the plan, not the training,
/// unless the backward that is to come would give a wrong gradient.
void PlannedMode::rehearse_before(const BackwardToCome& backward) {
  auto* rehearsing = std::get_if<Rehearsing>(&phase_);
  if (rehearsing == nullptr || rehearsing->pass == nullptr) return;
  if (!rehearses_hooks() && !backward.is_of_library()) {
    rehearsing->met_hooks = true;
    return;
  }
  rehearsing->watched = true;
  Rehearsal& rehearsal = *rehearsing->pass;
  try {
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> model = model_.buffers;
    for (const auto& [name, parameter] : model_.parameters) {
      if (parameter.requires_grad()) parameters.push_back(parameter);
      model.push_back(parameter);
    }
    GradientProbe probe(rehearsal, backward.again, std::move(parameters), std::move(model));
    // The program's own backward says what is wrong when it is run.
    if (probe.failed()) return rehearsal.end();
    rehearsing->tried = rehearsing->tried || probe.usable();
    // A backward of another pass was run once too: what that spent or changed must not go unseen.
    if (probe.passes() > 0) rehearse(probe);
    if (doubt_ != nullptr) refuse_doubtful_step();
  } catch (const BackwardNotRepeatable& error) {
    rehearsal.end();
    give_up(words_of(error));
    throw;
  } catch (const std::exception& error) {
    rehearsal.end();
    give_up(words_of(error));
  }
}

PlannedMode::Unrehearsed PlannedMode::why_unrehearsed(const Rehearsing& rehearsing,
                                                      const Rehearsal& pass) {
  if (rehearsing.met_hooks) return Unrehearsed::kHooks;
  const bool unwatched = !rehearsing.watched && pass.asked();
  return unwatched ? Unrehearsed::kUnwatched : Unrehearsed::kNoGradient;
}

/// A plan must serve every backward of the pass, so none is made before its last.
void PlannedMode::finish_rehearsing(Rehearsing& rehearsing, const Rehearsal& pass) {
  rehearsing.watcher.reset();
  const bool tried = rehearsing.tried;
  if (pass.departed()) return note_departure();
  note_recorded_way();
  if (!tried && wants_rehearsal() && !follows_unrehearsed(why_unrehearsed(rehearsing, pass))) {
    const bool trains = std::any_of(model_.parameters.begin(), model_.parameters.end(),
                                    [](const auto& named) { return named.second.requires_grad(); });
    report_.missing_reason = trains ? kNotRehearsed : kNothingTrained;
    return;
  }
  report_.missing_reason.clear();
  if (tried && must_not_round(pass.unmeasured())) forget_rehearsal();
  make_plan();
}

/// Returns whether a plan could have rounded one of them until now.
bool PlannedMode::must_not_round(const std::vector<SlotId>& slots) {
  bool any = false;
  for (const SlotId id : slots) {
    RecordedSlot& slot = graph_->slots[static_cast<size_t>(id)];
    const RecordedValue& value = graph_->value(slot.value);
    RecordedStorage& storage = graph_->storages[static_cast<size_t>(value.storage)];
    if (storage.external || !at::isFloatingType(value.dtype)) continue;
    any = !std::exchange(slot.exact, true) || any;
    storage.exact = true;
  }
  return any;
}

void PlannedMode::must_be_exact(const std::vector<StorageId>& storages) {
  for (const StorageId id : storages) graph_->storages[static_cast<size_t>(id)].exact = true;
}

void PlannedMode::must_not_use(const std::vector<Refusal>& refused) {
  for (const Refusal& refusal : refused) {
    overrides_.refused[refusal.value].insert(refusal.form);
  }
}

void PlannedMode::give_up(const std::string& reason) {
  enter(GivenUp{});
  plan_.reset();
  known_.clear();
  past_.clear();
  awaited_.clear();
  report_.missing_reason = reason;
}

void PlannedMode::finish_recording(Recording& recording) {
  const std::unique_ptr<StepRecorder> pass = std::move(recording.pass);
  if (pass == nullptr) return;
  StepGraph graph = pass->take();
  // A pass that failed before backward began says nothing about the next one.
  if (!graph.backward_ran) {
    if (recording.seen.empty()) report_.missing_reason = kNoBackward;
    return;
  }
  const auto alike = std::find_if(
      recording.seen.rbegin(), recording.seen.rend(), [&](const std::shared_ptr<StepGraph>& seen) {
        const bool cut_short = !asked_alike(*seen, graph) && is_seen_again();
        return !cut_short && reconcile(*seen, graph, report_.unrepeatable);
      });
  if (alike == recording.seen.rend()) return keep_recording(recording, std::move(graph));
  // The second pass is warm: its times and bytes are those of a steady step.
  take_measurements(**alike, graph);
  if (policy_.segments_of_equal_bytes) cut_for_lowest_peak(**alike, policy_);
  graph_ = *alike;
  departures_ = 0;
  followed_at_ = passes_;
  ++report_.recordings;
  enter(Verifying{});
  report_.missing_reason.clear();
  make_plan();
}

void PlannedMode::keep_recording(Recording& recording, StepGraph graph) {
  report_.missing_reason = recording.seen.empty() ? kOneRecorded : kNoTwoAlike;
  recording.seen.push_back(std::make_shared<StepGraph>(std::move(graph)));
  if (recording.seen.size() < kMostInVain) return;
  patience_ = std::min(2 * patience_, kMostPatience);
  enter(Resting{patience_});
}

void PlannedMode::note_open_pass() {
  const auto* recording = std::get_if<Recording>(&phase_);
  if (execution() != nullptr) {
    open_passes_.push_back(execution()->held_pass());
  } else if (recording != nullptr && recording->pass != nullptr) {
    open_passes_.push_back(recording->pass->held_pass());
  }
}

void PlannedMode::finish_alternative() {
  const Alternative other = std::exchange(other_, {});
  note_pass(*other.pass, other.plan);
  count_fallbacks(other.pass->refused(), *other.plan);
  const auto known = std::find_if(known_.begin(), known_.end(),
                                  [&](const KnownPlan& one) { return one.plan == other.plan; });
  if (other.pass->departed()) {
    if (known != known_.end()) known->begins_like_others |= other.pass->departed_later();
    return note_departure();
  }
  note_followed();
  if (known != known_.end()) known->followed_at = passes_;
  if (other.pass->is_retained()) ++report_.retained_passes;
}

/// The pass that ends is of the kind that the mode is at work on.
void PlannedMode::note_recorded_way() {
  beside_bytes_ = std::max(beside_bytes_, begin_gradient_bytes_ - graph_->begin_gradient_bytes);
}

void PlannedMode::note_followed() {
  ++report_.followed_passes;
  followed_until_ = passes_;
}

/// A pass was of a kind that no plan is for.
void PlannedMode::note_departure() {
  if (++departures_ < patience_) return;
  patience_ = std::min(2 * patience_, kMostPatience);
  record_again(kDeparted);
}

void PlannedMode::record_again(const std::string& reason) {
  if (verified() && plan_ != nullptr && !wants_rehearsal() && serves_later()) {
    known_.push_back({plan_, followed_at_, begins_like_others_});
    const auto earlier = [](const KnownPlan& a, const KnownPlan& b) {
      return a.followed_at < b.followed_at;
    };
    if (known_.size() > kMostKnown) {
      known_.erase(std::min_element(known_.begin(), known_.end(), earlier));
    }
  }
  plan_.reset();
  graph_.reset();
  overrides_ = {};
  refusals_.clear();
  awaited_.clear();
  departures_ = 0;
  begins_like_others_ = false;
  beside_bytes_ = 0;
  cut_short_ = 0;
  forget_plan();
  report_.missing_reason = reason;
  enter(Recording{});
}

void PlannedMode::start_over(const std::string& reason) {
  plan_.reset();
  known_.clear();
  record_again(reason);
}

void PlannedMode::plan_again() {
  known_.clear();
  make_plan();
}

void PlannedMode::note_pass(const PlanExecution& pass,
                            std::shared_ptr<const TreatmentPlan> followed) {
  if (pass.departed()) ++report_.counters.departures;
  if (pass.departed_later() && followed == plan_) begins_like_others_ = true;
  if (policy_.host != nullptr) {
    std::set<StorageId> refused = policy_.host->take_refused();
    // A plan of the past was for a graph with other storages.
    const bool of_past = followed != nullptr && followed->graph != graph_;
    // A full pool says nothing where several plans filled it.
    if (!of_past && !was_shared_) overrides_.no_room.merge(refused);
  }
  past_.push_back({pass.findings(), std::move(followed), {}});
}

void PlannedMode::finish_verifying(const PlanExecution& pass) {
  note_pass(pass, nullptr);
  if (pass.departed()) return note_departure();
  note_recorded_way();
  if (!pass.compared_any()) {
    report_.missing_reason = kNotCompared;
    return;
  }
  report_.missing_reason.clear();
  learn_from(pass);
}

void PlannedMode::finish_following(PlanExecution& pass) {
  note_pass(pass, plan_);
  const std::vector<Refusal> refused = pass.refused();
  count_fallbacks(refused, *plan_);
  replace_codecs(refused);
  if (pass.departed()) return note_departure();
  note_recorded_way();
  note_followed();
  followed_at_ = passes_;
  if (pass.is_retained()) ++report_.retained_passes;
  for (AwaitedAnswer& awaited : pass.awaited()) awaited_.push_back(std::move(awaited));
}

/// Hears what a device had not said of an encoding when its pass ended, once a later pass ends.
void PlannedMode::learn_from_answers() {
  if (work_is_recorded()) return;
  std::vector<Refusal> lost;
  std::erase_if(awaited_, [&lost](const AwaitedAnswer& awaited) {
    const DeviceAnswer::State answer = awaited.answer->poll();
    if (answer == DeviceAnswer::State::kLost) lost.push_back(awaited.if_lost);
    return answer != DeviceAnswer::State::kPending;
  });
  if (!lost.empty()) count_fallbacks(lost, *plan_);
  replace_codecs(lost);
}

void PlannedMode::count_fallbacks(const std::vector<Refusal>& refused, const TreatmentPlan& plan) {
  report_.counters.codec_fallbacks += std::ssize(refused);
  for (const Refusal& refusal : refused) {
    const StorageId storage = plan.graph->value(refusal.value).storage;
    refused_bytes_ += plan.graph->storages[static_cast<size_t>(storage)].bytes;
  }
}

/// Hears passes that are over. A backward that comes later is heard the next time.
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

/// The pass has verified the plan.
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
  must_not_use(execution.refused());
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
  if (wrong.empty()) enter(Following{});
  make_plan();
}

/// A backward that got an error for a value, and was perhaps not the end of the training. Which of
/// the operators behind the value changed is not known.
void PlannedMode::keep_what_differed(std::vector<ValueId> suspects, const TreatmentPlan& plan) {
  if (suspects.empty()) return;
  if (plan.graph != graph_) {
    std::erase_if(known_, [&plan](const auto& known) { return known.plan->graph == plan.graph; });
    return;
  }
  const size_t before = overrides_.keep.size();
  // Nothing is recomputed from what the program writes before backward.
  for (const ValueId value : suspects) {
    const Source source = plan.values[static_cast<size_t>(value)].source;
    if (source == Source::kModel) overrides_.keep.insert(value);
    if (source == Source::kHeld) {
      const StorageId storage = graph_->value(value).storage;
      graph_->storages[static_cast<size_t>(storage)].written_in_place = true;
    }
  }
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

/// Other wrong values may have been made from what a wrong shortcut gave: the next pass tells.
bool PlannedMode::give_up_shortcuts(const std::set<ValueId>& wrong) {
  const size_t before = overrides_.replay.size();
  std::set<ValueId> seen;
  std::vector<ValueId> suspects(wrong.begin(), wrong.end());
  while (!suspects.empty()) {
    const ValueId value = suspects.back();
    suspects.pop_back();
    const RecipeId recipe = plan_->values[static_cast<size_t>(value)].recipe;
    if (recipe == kNone || !seen.insert(value).second) continue;
    const Recipe& made_by = *plan_->recipes[static_cast<size_t>(recipe)];
    if (made_by.is_shortcut) overrides_.replay.insert(value);
    for (const ValueId input : made_by.inputs) {
      // A saved value was compared itself.
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
  plan_ = std::make_shared<const TreatmentPlan>(plan_for(graph_, overrides_, verified()));
}

TreatmentPlan PlannedMode::plan_for(std::shared_ptr<const StepGraph> graph,
                                    const Overrides& overrides, bool /*verified*/) {
  GuardedPlan guarded = resolve_below_none(graph, policy_, overrides);
  makes_nothing_again_ = guarded.makes_nothing_again;
  return std::move(guarded.plan);
}

namespace {

/// Says why a plan keeps all that is saved, where that is no choice; else empty.
std::string reason_to_keep_all(const TreatmentPlan& plan, const PlanSummary& summary) {
  if (summary.held_bytes < summary.recorded_bytes || summary.recorded_bytes == 0) return "";
  const std::vector<HeldGroup> held = held_groups(plan);
  const bool chosen = std::any_of(held.begin(), held.end(),
                                  [](const HeldGroup& group) { return is_choice(group.reason); });
  if (held.empty() || chosen) return "";
  return "for most of it: " + std::string(keep_reason_name(held.front().reason));
}

}  // namespace

PlannedModeReport report_of(const Mode& mode) {
  PlannedModeReport report;
  if (const auto* planned = dynamic_cast<const PlannedMode*>(&mode)) {
    report = planned->report();
    // A mode asks for its own report in each step, and this looks at every value of the plan.
    if (report.verified)
      report.keeps_all_reason = reason_to_keep_all(*planned->plan(), report.plan);
    return report;
  }
  report.missing_reason = "the mode makes no plan";
  return report;
}

}  // namespace noisemark::memopt
