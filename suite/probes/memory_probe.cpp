#include "suite/probes/memory_probe.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <variant>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/attribution.h"
#include "suite/probes/convolutions.h"
#include "suite/probes/process_memory.h"

namespace noisemark::suite {
namespace {

int64_t total(const reports::MemoryPoint& point) {
  return std::accumulate(point.by_category.begin(), point.by_category.end(), int64_t{0});
}

}  // namespace

memopt::OwnedTensors owned_tensors(OwnerRoots roots) {
  std::vector<at::Tensor>& gradients = roots.held[memopt::Owner::kGradients];
  for (const at::Tensor& parameter : roots.parameters) gradients.push_back(parameter.grad());
  return std::move(roots.held);
}

std::vector<reports::MemoryPoint> thin_timeline(const std::vector<reports::MemoryPoint>& points,
                                                size_t limit) {
  if (points.size() <= limit) return points;
  const size_t spans = (limit - 2) / 2;
  const double begin_s = points.front().time_s;
  const double span_s = (points.back().time_s - begin_s) / static_cast<double>(spans);
  std::vector<reports::MemoryPoint> kept = {points.front()};
  size_t next = 1;
  const size_t last = points.size() - 1;
  for (size_t span = 0; span < spans && next < last; ++span) {
    const size_t first = next;
    const double end_s = begin_s + span_s * static_cast<double>(span + 1);
    // The final span takes what rounding left over.
    while (next < last && (points[next].time_s < end_s || span + 1 == spans)) ++next;
    if (next == first) continue;
    const auto highest =
        std::max_element(points.begin() + first, points.begin() + next,
                         [](const auto& a, const auto& b) { return total(a) < total(b); });
    kept.push_back(*highest);
    if (&*highest != &points[next - 1]) kept.push_back(points[next - 1]);
  }
  kept.push_back(points.back());
  return kept;
}

namespace {

constexpr size_t kTimelinePoints = 400;

reports::MemorySnapshot snapshot(const std::string& name, const memopt::OwnedInstant& instant) {
  reports::MemorySnapshot result;
  result.at = name;
  result.allocator_bytes = instant.live_bytes;
  result.unattributed_bytes = instant.live_bytes;
  for (const memopt::Owner owner : memopt::all_owners()) {
    const int64_t bytes = instant.of(owner);
    result.by_category[std::string(memopt::owner_name(owner))] = bytes;
    result.unattributed_bytes -= bytes;
  }
  return result;
}

reports::MemoryPoint point(const memopt::OwnedInstant& instant) {
  return {static_cast<double>(instant.time_ns) * 1e-9,
          {instant.bytes.begin(), instant.bytes.end()}};
}

std::optional<int64_t> limit_of_the_environment() {
  return workspace_limit(std::getenv(kWorkspaceLimitVariable));
}

bool is_forward_end(const memopt::OwnedBoundary& boundary) {
  return boundary.name.rfind("forward_end", 0) == 0;
}

/// The phase of the mark before the peak: "backward_begin" -> "backward". Between phases it is the
/// mark's own name.
std::string phase_of_mark(const std::string& mark) {
  constexpr std::string_view kBegin = "_begin";
  if (mark == "step_begin" || mark.size() < kBegin.size()) return mark;
  const size_t stem = mark.size() - kBegin.size();
  return mark.compare(stem, kBegin.size(), kBegin) == 0 ? mark.substr(0, stem) : mark;
}

/// Live bytes that are the model's, not the loader's, whose fill differs from step to step.
int64_t without_input(const memopt::OwnedInstant& instant) {
  return instant.live_bytes - instant.of(memopt::Owner::kInput);
}

reports::MemorySection make_section(const memopt::Attribution& attribution) {
  reports::MemorySection section;
  for (const memopt::Owner owner : memopt::all_owners()) {
    section.categories.emplace_back(memopt::owner_name(owner));
  }
  for (const memopt::OwnedBoundary& boundary : attribution.boundaries) {
    section.boundaries.push_back(snapshot(boundary.name, boundary.at));
    if (!is_forward_end(boundary) || boundary.at.saved_bytes() < section.saved_bytes) continue;
    section.saved_bytes = boundary.at.saved_bytes();
    section.naive_saved_bytes = boundary.naive_saved_bytes;
  }
  section.peak = snapshot("peak", attribution.peak);
  section.peak_phase = phase_of_mark(attribution.peak_after);
  section.peak_operator = attribution.peak_operator;
  section.peak_bytes = attribution.peak.live_bytes;
  section.peak_saved_bytes = attribution.peak_saved_bytes;
  section.leaked_bytes = without_input(attribution.boundaries.back().at) -
                         without_input(attribution.boundaries.front().at);
  section.allocations = attribution.allocations;
  std::vector<reports::MemoryPoint> points;
  std::transform(attribution.timeline.begin(), attribution.timeline.end(),
                 std::back_inserter(points), point);
  section.timeline = thin_timeline(points, kTimelinePoints);
  section.measured = true;
  return section;
}

}  // namespace

/// The mode's own sink; while a step is observed its hooks pass through the log.
class MemoryProbe::Sink final : public memopt::SavedTensorSink {
 public:
  Sink(memopt::Mode& mode, const std::unique_ptr<memopt::AllocationLog>& log)
      : mode_(mode), log_(log) {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return log_ == nullptr ? mode_.make_hooks()
                           : log_->observe(memopt::or_keeping(mode_.make_hooks()));
  }
  void begin_forward() override { mode_.begin_forward(); }
  void end_forward() override { mode_.end_forward(); }

  [[nodiscard]] std::vector<at::Tensor> held() const { return mode_.held(); }

 private:
  memopt::Mode& mode_;
  const std::unique_ptr<memopt::AllocationLog>& log_;
};

MemoryProbe::MemoryProbe(memopt::Mode& mode, std::function<OwnerRoots()> roots, c10::Device device,
                         memopt::AllocationSource* source)
    : roots_(std::move(roots)),
      device_(device),
      source_(source),
      sink_(std::make_unique<Sink>(mode, log_)) {
  section_.missing_reason = "no step was armed";
}

MemoryProbe::~MemoryProbe() = default;

memopt::SavedTensorSink& MemoryProbe::sink() {
  return *sink_;
}

void MemoryProbe::arm(int64_t step) {
  armed_step_ = step;
  section_ = {};
  section_.missing_reason = "step " + std::to_string(step) + " has not ended";
  error_ = nullptr;
}

/// Observers are also told from destructors, which must not throw: the first error is kept.
template <typename Action>
void MemoryProbe::guarded(Action action) {
  try {
    action();
  } catch (...) {
    if (!error_) error_ = std::current_exception();
    log_.reset();
  }
}

void MemoryProbe::on_step_begin(int64_t step) {
  log_.reset();  // it is of a step that failed
  if (armed_step_ != step) return;
  guarded([&] {
    memopt::AllocationSource* source = source_;
    if (source == nullptr) source = memopt::find_allocation_source(device_);
    TORCH_CHECK(source != nullptr, "memory: allocations of ", device_.str(), " cannot be followed");
    micro_batches_.assign(reports::kSamplePhases.size(), 0);
    const OwnerRoots roots = roots_();
    resident_missing_ = reset_resident_peak();
    device_memory_.emplace(device_);
    log_ = std::make_unique<memopt::AllocationLog>(*source, roots.parameters);
    section_.source = source->name();
    boundary("step_begin");
  });
}

void MemoryProbe::on_phase_begin(Phase phase) {
  if (log_ == nullptr) return;
  guarded([&] { log_->mark(std::string(phase_name(phase)) + "_begin"); });
}

void MemoryProbe::on_phase_end(Phase phase) {
  if (log_ == nullptr) return;
  guarded([&] {
    std::string name = std::string(phase_name(phase)) + "_end";
    const int count = ++micro_batches_.at(static_cast<size_t>(phase));
    if (count > 1) name.append("[").append(std::to_string(count)).append("]");
    boundary(name);
  });
}

void MemoryProbe::on_step_end(int64_t /*step*/) {
  if (log_ == nullptr) return;
  guarded([&] {
    boundary("step_end");
    finish();
  });
}

void MemoryProbe::boundary(const std::string& name) {
  memopt::OwnedTensors owned = owned_tensors(roots_());
  for (const at::Tensor& tensor : sink_->held()) {
    owned[memopt::Owner::kActivations].push_back(tensor);
  }
  // Libraries keep them for later steps too, but they are scratch all the same.
  for (const at::Tensor& tensor : memopt::library_workspaces(device_)) {
    owned[memopt::Owner::kWorkspace].push_back(tensor);
  }
  log_->walk(name, owned);
}

void MemoryProbe::finish() {
  const auto resident = read_resident_memory();
  const reports::DeviceMemory device_memory = device_memory_->finish();
  record_ = log_->close();
  log_.reset();
  const std::string source = section_.source;
  const memopt::Attribution attribution = memopt::attribute(record_);
  section_ = make_section(attribution);
  section_.convolution_workspace =
      convolution_workspace(device_, record_, attribution, limit_of_the_environment());
  section_.source = source;
  section_.saved_tensors = static_cast<int64_t>(record_.saved.size());
  section_.device_memory = device_memory;
  armed_step_.reset();
  if (!device_.is_cpu()) {
    take_outside_of_device();
    return;
  }
  if (const auto* why = std::get_if<std::string>(&resident)) resident_missing_ = *why;
  if (resident_missing_.empty()) {
    const auto& memory = std::get<ResidentMemory>(resident);
    const int64_t outside = memory.peak_bytes - memory.file_bytes - section_.peak_bytes;
    if (outside >= 0) section_.outside_allocator_bytes = outside;
    if (outside < 0) resident_missing_ = "tensors hold pages that were never touched";
  }
  if (!resident_missing_.empty()) {
    section_.missing_reason = "outside_allocator_bytes: " + resident_missing_;
  }
}

void MemoryProbe::take_outside_of_device() {
  const reports::DeviceMemory& memory = section_.device_memory;
  section_.outside_allocator_bytes = outside_bytes(memory);
  if (section_.outside_allocator_bytes) return;
  const std::string why = memory.missing_reason.empty()
                              ? "the driver counts less than the allocator took"
                              : memory.missing_reason;
  section_.missing_reason = "outside_allocator_bytes: " + why;
}

reports::MemorySection MemoryProbe::section_at_failure() {
  if (log_ == nullptr) return section_;
  record_ = log_->close();
  log_.reset();
  reports::MemorySection section = make_section(memopt::attribute(record_));
  section.source = section_.source;
  if (device_memory_) section.device_memory = device_memory_->finish();
  section.measured = false;
  section.missing_reason = "the step that was watched did not end";
  section.convolution_workspace = {{}, {}, limit_of_the_environment(), section.missing_reason};
  return section;
}

reports::MemorySection MemoryProbe::section() const {
  if (error_) std::rethrow_exception(error_);
  return section_;
}

}  // namespace noisemark::suite
