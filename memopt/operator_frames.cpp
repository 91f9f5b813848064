#include "memopt/operator_frames.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>
#include <utility>

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
std::atomic<uint32_t> innermost{0};
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
    : clock_(std::move(clock)), parameters_(parameters), handle_(0) {
  for (const at::Tensor& parameter : parameters_) {
    parameter_storages_.insert(parameter.storage().unsafeGetStorageImpl());
  }
  OperatorTracker* none = nullptr;
  TORCH_CHECK(active.compare_exchange_strong(none, this), "operators are being followed already");
  innermost = 0;
  thread_frame = 0;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_begin, &on_end)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

OperatorTracker::~OperatorTracker() {
  at::removeCallback(handle_);
  active = nullptr;
  thread_frame = 0;
}

uint32_t OperatorTracker::current() const noexcept {
  if (thread_frame != 0) return thread_frame;
  return at::in_parallel_region() ? innermost.load(std::memory_order_relaxed) : 0;
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
  innermost = thread_frame;
  return thread_frame;
}

void OperatorTracker::close(uint32_t id, uint32_t thread_parent) {
  if (id > frames_.size()) return;
  frames_[id - 1].closed_at = clock_();
  thread_frame = thread_parent;
  innermost = thread_parent;
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

}  // namespace noisemark::memopt
