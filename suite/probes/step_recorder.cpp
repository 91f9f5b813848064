#include "suite/probes/step_recorder.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "memopt/accounting/attribution.h"
#include "memopt/accounting/tracking_allocator.h"
#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using Type = libkineto::ActivityType;

/// A span that the profiler sees while it is alive.
std::unique_ptr<at::RecordFunction> open_span(const std::string& name) {
  auto span = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (span->isActive()) span->before(name);
  return span;
}

Type kineto_type(const kineto::KinetoEvent& event) {
  return static_cast<Type>(event.activityType());
}

reports::ProfiledKind kind_of(const kineto::KinetoEvent& event) {
  using reports::ProfiledKind;
  const Type type = kineto_type(event);
  switch (type) {
    case Type::USER_ANNOTATION:
    case Type::GPU_USER_ANNOTATION:
      return ProfiledKind::kSpan;
    case Type::CONCURRENT_KERNEL:
    case Type::GPU_MEMCPY:
    case Type::GPU_MEMSET:
      return ProfiledKind::kWork;
    default:
      break;
  }
  if (type != Type::CPU_OP) return ProfiledKind::kCall;
  const auto backward = static_cast<uint8_t>(at::RecordScope::BACKWARD_FUNCTION);
  return event.scope() == backward ? ProfiledKind::kBackward : ProfiledKind::kOperator;
}

std::string shapes_of(const kineto::KinetoEvent& event) {
  std::vector<std::string> all;
  for (const std::vector<int64_t>& shape : event.shapes()) {
    all.push_back(fmt::format("[{}]", fmt::join(shape, ", ")));
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

reports::ProfiledEvent translated(const kineto::KinetoEvent& event, bool shapes) {
  reports::ProfiledEvent to;
  to.name = event.name();
  if (shapes) to.shapes = shapes_of(event);
  to.kind = kind_of(event);
  to.on_device = event.deviceType() != c10::DeviceType::CPU;
  to.across_threads = event.isAsync() || event.startThreadId() != event.endThreadId();
  to.start_ns = static_cast<int64_t>(event.startNs());
  to.end_ns = static_cast<int64_t>(event.endNs());
  to.thread = event.startThreadId();
  to.id = event.correlationId();
  to.launched_by = event.linkedCorrelationId();
  to.sequence = event.sequenceNr();
  to.forward_thread = event.fwdThreadId();
  return to;
}

/// Returns the bytes that were asked for: our allocator of the host puts a header before them.
int64_t asked_bytes(const kineto::KinetoEvent& event) {
  const int64_t bytes = event.nBytes();
  if (event.deviceType() != c10::DeviceType::CPU) return bytes;
  const int64_t header = memopt::header_bytes();
  return bytes > 0 ? bytes - header : bytes + header;
}

void take(const kineto::KinetoEvent& event, bool shapes, reports::Recording& recording) {
  const std::string name = event.name();
  if (name == "[memory]") {
    recording.memory.push_back({static_cast<int64_t>(event.startNs()), asked_bytes(event),
                                event.startThreadId(), event.deviceType() != c10::DeviceType::CPU});
  } else if (name != "[OutOfMemory]" && !event.isHiddenEvent()) {
    recording.events.push_back(translated(event, shapes));
  }
}

}  // namespace

struct StepRecorder::State {
  RecorderOptions options;
  std::unordered_map<const torch::nn::Module*, std::string> names;
  bool running = false;
  const int log_level = FLAGS_caffe2_log_level;
  int64_t steps = 0;
  std::unique_ptr<at::RecordFunction> step;
  std::unique_ptr<at::RecordFunction> phase;
  std::vector<std::unique_ptr<at::RecordFunction>> layers;
  std::vector<size_t> open;  ///< visits
  std::vector<reports::ModuleVisit> visits;
  std::optional<ModuleObserverGuard> guard;
};

StepRecorder::StepRecorder(torch::nn::Module& model, const RecorderOptions& options)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  for (const auto& module : model.named_modules()) {
    state_->names[module.value().get()] = module.key();
  }
}

StepRecorder::~StepRecorder() {
  if (state_->running) (void)kineto::disableProfiler();
  FLAGS_caffe2_log_level = state_->log_level;
}

void StepRecorder::start() {
  std::set<ActivityType> activities{ActivityType::CPU};
  if (state_->options.device.is_cuda()) activities.insert(ActivityType::CUDA);
  torch::profiler::impl::ExperimentalConfig experimental;
  experimental.enable_cuda_sync_events = state_->options.device.is_cuda();
  const kineto::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                      state_->options.shapes, /*profile_memory=*/true,
                                      /*with_stack=*/false, /*with_flops=*/false,
                                      /*with_modules=*/false, experimental);
  state_->steps = 0;
  state_->visits.clear();
  // The profiler warns of every block that is older than itself, as weights are.
  FLAGS_caffe2_log_level = std::max<int>(state_->log_level, c10::GLOG_ERROR);
  kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities);
  state_->running = true;
}

reports::Recording StepRecorder::stop(const std::string& trace) {
  state_->running = false;
  const std::unique_ptr<kineto::ProfilerResult> result = kineto::disableProfiler();
  FLAGS_caffe2_log_level = state_->log_level;
  reports::Recording recording;
  recording.steps = state_->steps;
  recording.has_device = state_->options.device.is_cuda();
  recording.visits = std::move(state_->visits);
  for (const kineto::KinetoEvent& event : result->events()) {
    take(event, state_->options.shapes, recording);
  }
  if (trace.empty()) return recording;
  result->save(trace);
  std::error_code error;
  if (std::filesystem::file_size(trace, error) == 0 || error) {
    std::filesystem::remove(trace + ".tmp", error);  // kineto's, from which it makes the trace
    throw reports::unwritten_trace(trace);
  }
  return recording;
}

void StepRecorder::on_step_begin(int64_t /*step*/) {
  if (!state_->running) return;
  state_->step = open_span(reports::kStepPrefix + std::to_string(state_->steps++));
  state_->guard.emplace(static_cast<ModuleObserver&>(*this));
}

void StepRecorder::on_phase_begin(Phase phase) {
  if (state_->step) {
    state_->phase = open_span(reports::kPhasePrefix + std::string(phase_name(phase)));
  }
}

void StepRecorder::on_phase_end(Phase /*phase*/) {
  state_->phase.reset();
}

void StepRecorder::on_step_end(int64_t /*step*/) {
  state_->guard.reset();
  state_->step.reset();
}

void StepRecorder::on_module_begin(const torch::nn::Module& module) {
  const auto found = state_->names.find(&module);
  const std::string name = found == state_->names.end() ? "?" : found->second;
  state_->open.push_back(state_->visits.size());
  state_->visits.push_back({name, static_cast<int64_t>(at::sequence_number::peek()), 0});
  state_->layers.push_back(open_span(reports::kLayerPrefix + name));
}

void StepRecorder::on_module_end() noexcept {
  state_->layers.pop_back();
  state_->visits[state_->open.back()].end = static_cast<int64_t>(at::sequence_number::peek());
  state_->open.pop_back();
}

namespace {

/// An allocation or a release of the watched step, and what everyone held after it.
struct WatchedEvent {
  int64_t bytes = 0;
  const memopt::OwnedInstant* after = nullptr;
  bool of_earlier = false;  ///< the release of a block that this thread did not take in the step
};

std::vector<WatchedEvent> watched_events(const memopt::AllocationRecord& record,
                                         const memopt::Attribution& attribution, bool on_device) {
  using Kind = memopt::LogEvent::Kind;
  const auto mark =
      std::find_if(record.events.begin(), record.events.end(),
                   [](const memopt::LogEvent& event) { return event.kind == Kind::kMark; });
  std::vector<WatchedEvent> all;
  std::set<uint64_t> taken;
  size_t next = 0;
  for (size_t i = 0; i < record.events.size(); ++i) {
    const memopt::LogEvent& event = record.events[i];
    while (next < attribution.timeline.size() && attribution.timeline[next].instant <= i + 1) {
      ++next;
    }
    if (event.kind != Kind::kAllocate && event.kind != Kind::kRelease) continue;
    // On the host a loader's thread allocates too, which the profiler does not see.
    if (!on_device && mark != record.events.end() && event.thread != mark->thread) continue;
    if (event.block.bytes == 0) continue;
    const bool allocates = event.kind == Kind::kAllocate;
    if (allocates) taken.insert(event.block.number);
    all.push_back({allocates ? event.block.bytes : -event.block.bytes,
                   &attribution.timeline[next - 1],
                   !allocates && !taken.contains(event.block.number)});
  }
  return all;
}

/// A device's allocator reports the sizes that it rounded.
bool alike(int64_t seen, int64_t watched, bool on_device) {
  return on_device ? (seen > 0) == (watched > 0) : seen == watched;
}

std::vector<memopt::Owner> holders_in(const memopt::Attribution& attribution) {
  std::vector<memopt::Owner> owners = memopt::all_owners();
  owners.push_back(memopt::Owner::kUnattributed);
  std::erase_if(owners, [&](memopt::Owner owner) {
    return std::all_of(attribution.timeline.begin(), attribution.timeline.end(),
                       [&](const memopt::OwnedInstant& at) { return at.of(owner) == 0; });
  });
  return owners;
}

std::vector<reports::ProfiledMemory> seen_within(const reports::Recording& recording,
                                                 const reports::ProfiledEvent& step) {
  std::vector<reports::ProfiledMemory> seen;
  for (const reports::ProfiledMemory& one : recording.memory) {
    const bool within = one.time_ns >= step.start_ns && one.time_ns <= step.end_ns;
    if (within && one.bytes != 0 && one.on_device == recording.has_device) seen.push_back(one);
  }
  std::stable_sort(seen.begin(), seen.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return seen;
}

/// Puts the watched step's owners to the instants of one recorded step. The profiler of a host does
/// not see the release of what was taken before it began, or by a thread that it does not follow.
class OwnersOfStep {
 public:
  OwnersOfStep(const std::vector<WatchedEvent>& watched, const std::vector<memopt::Owner>& owners)
      : watched_(watched), owners_(owners) {}

  void add(const reports::ProfiledEvent& step, const reports::Recording& recording,
           std::vector<reports::MemoryCounter>& counters) {
    const bool first = step.name == std::string(reports::kStepPrefix) + "0";
    size_t next = 0;
    const memopt::OwnedInstant* before = nullptr;
    for (const reports::ProfiledMemory& seen : seen_within(recording, step)) {
      const auto fits = [&](const WatchedEvent& event) {
        return alike(seen.bytes, event.bytes, recording.has_device) &&
               !(first && event.of_earlier && !recording.has_device);
      };
      while (next < watched_.size() && watched_[next].of_earlier && !fits(watched_[next])) ++next;
      if (next == watched_.size() || !fits(watched_[next])) throw_different(step, next);
      const memopt::OwnedInstant* now = watched_[next++].after;
      if (now != before) counters.push_back({seen.time_ns, bytes_of(*now)});
      before = now;
    }
    while (next < watched_.size() && watched_[next].of_earlier) ++next;
    if (next != watched_.size()) throw_different(step, next);
  }

 private:
  [[noreturn]] void throw_different(const reports::ProfiledEvent& step, size_t next) const {
    throw Error(ExitCode::kInternal,
                fmt::format("{} allocates otherwise than the step whose owners are known, from its "
                            "allocation or release {} of {} on",
                            step.name, next + 1, watched_.size()));
  }

  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> bytes_of(
      const memopt::OwnedInstant& at) const {
    std::vector<std::pair<std::string, int64_t>> all;
    for (const memopt::Owner owner : owners_) {
      all.emplace_back(memopt::owner_name(owner), at.of(owner));
    }
    return all;
  }

  const std::vector<WatchedEvent>& watched_;
  const std::vector<memopt::Owner>& owners_;
};

}  // namespace

std::vector<reports::MemoryCounter> memory_counters(const reports::Recording& recording,
                                                    const memopt::AllocationRecord& watched) {
  const memopt::Attribution attribution = memopt::attribute(watched);
  const auto events = watched_events(watched, attribution, recording.has_device);
  const std::vector<memopt::Owner> owners = holders_in(attribution);
  std::vector<reports::MemoryCounter> counters;
  for (const reports::ProfiledEvent& event : recording.events) {
    if (event.on_device || !event.name.starts_with(reports::kStepPrefix)) continue;
    OwnersOfStep(events, owners).add(event, recording, counters);
  }
  return counters;
}

}  // namespace noisemark::suite
