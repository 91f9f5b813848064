#include "memopt/accounting/allocation_log.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "memopt/accounting/operator_callback.h"

namespace noisemark::memopt {
namespace {

/// Operators that pass their work to oneDNN, MKL, cuDNN or cuBLAS.
constexpr std::array<std::string_view, 20> kLibraryOperators = {
    "aten::_convolution",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_slow_conv2d_backward",
    "aten::_slow_conv2d_forward",
    "aten::addmm",
    "aten::baddbmm",
    "aten::bmm",
    "aten::convolution",
    "aten::convolution_backward",
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_transpose",
    "aten::mkldnn_convolution",
    "aten::mm",
};

/// Callbacks are plain functions without a place for our data, so the tracker in force is found
/// here.
std::atomic<OperatorTracker*> active{nullptr};
/// Innermost operator of all threads that the tracker follows; they never run at the same time.
std::atomic<uint32_t> innermost_operator{0};
/// Innermost operator of this thread.
thread_local uint32_t thread_frame = 0;

struct FrameContext final : at::ObserverContext {
  uint32_t id = 0;
  uint32_t thread_parent = 0;
};

bool calls_library(std::string_view name) {
  return std::binary_search(kLibraryOperators.begin(), kLibraryOperators.end(), name);
}

}  // namespace

OperatorTracker::OperatorTracker(std::function<size_t()> clock,
                                 const std::vector<at::Tensor>& parameters)
    : clock_(std::move(clock)), parameters_(parameters) {
  for (const at::Tensor& parameter : parameters_) {
    parameter_storages_.insert(parameter.storage().unsafeGetStorageImpl());
  }
  OperatorTracker* none = nullptr;
  TORCH_CHECK(active.compare_exchange_strong(none, this), "operators are being followed already");
  innermost_operator = 0;
  thread_frame = 0;
  add_operator_callback(at::RecordFunctionCallback(&on_begin, &on_end)
                            .needsInputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

OperatorTracker::~OperatorTracker() {
  remove_operator_callback(&on_begin);
  active = nullptr;
  thread_frame = 0;
}

uint32_t OperatorTracker::current() const noexcept {
  if (thread_frame != 0) return thread_frame;
  return at::in_parallel_region() ? innermost_operator.load(std::memory_order_relaxed) : 0;
}

std::vector<OperatorFrame> OperatorTracker::take_frames() {
  return std::exchange(frames_, {});
}

std::unique_ptr<at::ObserverContext> OperatorTracker::on_begin(const at::RecordFunction& function) {
  OperatorTracker* tracker = active.load();
  // Ranges that are no operators (autograd's evaluate_function) have no schema.
  if (tracker == nullptr || !function.operator_name().has_value()) return nullptr;
  auto context = std::make_unique<FrameContext>();
  context->thread_parent = thread_frame;
  context->id = tracker->open(function.name(), tracker->is_cast_of_parameter(function));
  return context;
}

void OperatorTracker::on_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  const auto* frame = static_cast<FrameContext*>(context);
  OperatorTracker* tracker = active.load();
  if (frame == nullptr || tracker == nullptr) return;
  tracker->close(frame->id, frame->thread_parent);
}

uint32_t OperatorTracker::open(std::string name, bool casts_weight) {
  OperatorFrame frame;
  frame.calls_library = calls_library(name);
  frame.name = std::move(name);
  frame.parent = thread_frame;
  frame.casts_weight = casts_weight;
  frame.opened_at = clock_();
  frames_.push_back(std::move(frame));
  thread_frame = static_cast<uint32_t>(frames_.size());
  innermost_operator = thread_frame;
  return thread_frame;
}

void OperatorTracker::close(uint32_t id, uint32_t thread_parent) {
  if (id > frames_.size()) return;
  frames_[id - 1].closed_at = clock_();
  thread_frame = thread_parent;
  innermost_operator = thread_parent;
}

OperatorCall::OperatorCall(const std::string& name) : thread_parent_(thread_frame) {
  // The tracker's callback is local to the threads that it follows.
  if (!at::hasThreadLocalCallbacks()) return;
  tracker_ = active.load();
  if (tracker_ != nullptr) id_ = tracker_->open(name, /*casts_weight=*/false);
}

OperatorCall::~OperatorCall() {
  if (tracker_ != nullptr) tracker_->close(id_, thread_parent_);
}

bool OperatorTracker::is_cast_of_parameter(const at::RecordFunction& function) const {
  const std::string_view name = function.name();
  if (name != "aten::to" && name != "aten::_to_copy") return false;
  const auto inputs = function.inputs();
  if (inputs.empty() || !inputs[0].isTensor()) return false;
  const at::Tensor& source = inputs[0].toTensor();
  return source.defined() && source.has_storage() &&
         parameter_storages_.count(source.storage().unsafeGetStorageImpl()) != 0;
}

namespace {

using Clock = std::chrono::steady_clock;
using Hooks = torch::autograd::SavedVariableHooks;

/// Enough for a step of the benchmarks' U-Nets, so that the list rarely grows while it is measured.
constexpr size_t kReservedEvents = size_t{1} << 16;

/// The facts that a hook remembers of the variable that it holds.
struct HeldBlock {
  Block block;
  size_t record = 0;  ///< index in AllocationRecord::saved
};

uint32_t thread_ordinal() {
  static std::atomic<uint32_t> next{0};
  thread_local const uint32_t ordinal = next.fetch_add(1);
  return ordinal;
}

}  // namespace

/// The log's memory. Hooks share it, because a graph that is kept outlives the log.
class AllocationLog::Recorder final : public AllocationListener {
 public:
  Recorder(AllocationSource& source, const std::vector<at::Tensor>& parameters)
      : source_(source), opened_(Clock::now()) {
    record_.events.reserve(kReservedEvents);
    tracker_.emplace([this] { return instant(); }, parameters);
    record_.baseline = source.attach(*this);
  }

  void on_allocate(const Block& block) noexcept override {
    append(LogEvent::Kind::kAllocate, block);
  }
  void on_release(const Block& block) noexcept override { append(LogEvent::Kind::kRelease, block); }

  [[nodiscard]] std::optional<Block> find(const at::Tensor& tensor) const {
    if (!tensor.defined() || !tensor.has_storage()) return std::nullopt;
    return source_.find(*tensor.storage().unsafeGetStorageImpl());
  }

  std::optional<HeldBlock> begin_saved(const at::Tensor& tensor);
  void end_saved(const HeldBlock& held);
  void add_mark(LogMark mark);
  AllocationRecord close();

 private:
  void append(LogEvent::Kind kind, const Block& block) noexcept {
    const std::lock_guard lock(mutex_);
    append_locked(kind, block);
  }
  void append_locked(LogEvent::Kind kind, const Block& block) noexcept;
  size_t instant() {
    const std::lock_guard lock(mutex_);
    return record_.events.size();
  }

  AllocationSource& source_;  ///< lives as long as the process
  std::optional<OperatorTracker> tracker_;
  Clock::time_point opened_;
  std::mutex mutex_;
  bool closed_ = false;
  AllocationRecord record_;
  std::unordered_map<uint64_t, int64_t> holders_;  ///< saved variables per block
};

void AllocationLog::Recorder::append_locked(LogEvent::Kind kind, const Block& block) noexcept {
  LogEvent event;
  event.kind = kind;
  event.thread = thread_ordinal();
  event.frame = tracker_->current();
  event.block = block;
  event.time_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - opened_).count();
  record_.events.push_back(event);
}

std::optional<HeldBlock> AllocationLog::Recorder::begin_saved(const at::Tensor& tensor) {
  // This comes before the lock: a source may hold its own while it tells this log of an allocation.
  const std::optional<Block> block = find(tensor);
  const std::lock_guard lock(mutex_);
  if (closed_ || !block) return std::nullopt;
  if (holders_[block->number]++ == 0) append_locked(LogEvent::Kind::kSaved, *block);
  record_.saved.push_back(
      {block->number, static_cast<int64_t>(tensor.nbytes()), record_.events.size(), 0});
  return HeldBlock{*block, record_.saved.size() - 1};
}

void AllocationLog::Recorder::end_saved(const HeldBlock& held) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  if (--holders_[held.block.number] == 0) append_locked(LogEvent::Kind::kUnsaved, held.block);
  record_.saved[held.record].end = record_.events.size();
}

void AllocationLog::Recorder::add_mark(LogMark mark) {
  mark.live_bytes = source_.live_bytes();
  const std::lock_guard lock(mutex_);
  append_locked(LogEvent::Kind::kMark, {});
  mark.instant = record_.events.size();
  record_.marks.push_back(std::move(mark));
}

AllocationRecord AllocationLog::Recorder::close() {
  if (closed_) return {};
  source_.detach();
  const std::lock_guard lock(mutex_);
  record_.frames = tracker_->take_frames();
  tracker_.reset();
  closed_ = true;
  for (SavedRecord& saved : record_.saved) {
    if (saved.end == 0) saved.end = record_.events.size() + 1;
  }
  return std::move(record_);
}

/// Wraps the hooks of a mode, or what autograd itself would do.
class AllocationLog::ObservingHooks final : public Hooks {
 public:
  ObservingHooks(std::shared_ptr<Recorder> recorder, std::unique_ptr<Hooks> hooks)
      : recorder_(std::move(recorder)), hooks_(std::move(hooks)) {}

  ~ObservingHooks() override {
    hooks_.reset();  // releases first, so that the block has its owner until it is gone
    if (held_) recorder_->end_saved(*held_);
  }

  void call_pack_hook(const at::Tensor& tensor) override {
    hooks_->call_pack_hook(tensor);
    held_ = recorder_->begin_saved(tensor);
  }
  at::Tensor call_unpack_hook() override { return hooks_->call_unpack_hook(); }

 private:
  std::shared_ptr<Recorder> recorder_;
  std::unique_ptr<Hooks> hooks_;
  std::optional<HeldBlock> held_;
};

AllocationLog::AllocationLog(AllocationSource& source, const std::vector<at::Tensor>& parameters)
    : recorder_(std::make_shared<Recorder>(source, parameters)) {}

AllocationLog::~AllocationLog() {
  static_cast<void>(recorder_->close());
}

void AllocationLog::mark(std::string name) {
  LogMark mark;
  mark.name = std::move(name);
  recorder_->add_mark(std::move(mark));
}

void AllocationLog::walk(std::string name, const OwnedTensors& owned) {
  LogMark mark;
  mark.name = std::move(name);
  mark.walked = true;
  for (const auto& [owner, tensors] : owned) {
    for (const at::Tensor& tensor : tensors) {
      if (const auto block = recorder_->find(tensor)) mark.owned.push_back({*block, owner});
    }
  }
  recorder_->add_mark(std::move(mark));
}

std::unique_ptr<Hooks> AllocationLog::observe(std::unique_ptr<Hooks> hooks) {
  return std::make_unique<ObservingHooks>(recorder_, std::move(hooks));
}

AllocationRecord AllocationLog::close() {
  return recorder_->close();
}

}  // namespace noisemark::memopt
