#include "memopt/autograd/saved_original.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/VariableHooksInterface.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memopt/autograd/saved_tensor_scope.h"

namespace noisemark::memopt {
namespace {

/// The tensors that got other memory while hooks had noted them.
class ReplacedTensors {
 public:
  [[nodiscard]] int64_t calls() const { return calls_.load(std::memory_order_acquire); }

  void note(const at::Tensor& tensor) {
    WeakTensor weak(tensor.getIntrusivePtr());
    constexpr uint32_t kOwnAndAlive = 2;
    if (weak.weak_use_count() == kOwnAndAlive) return;  // nobody noted it
    // Autograd holds a leaf that is trained; any other may go before backward reads it.
    const bool is_held = tensor.is_leaf() && tensor.requires_grad();
    Replaced replaced{std::move(weak), is_held ? at::Tensor() : tensor.tensor_data(), 0};
    std::vector<Replaced> gone;  // they go after the lock
    const std::lock_guard lock(mutex_);
    replaced.call = calls() + 1;
    calls_.store(replaced.call, std::memory_order_release);
    const auto [entry, is_new] =
        tensors_.try_emplace(tensor.unsafeGetTensorImpl(), std::move(replaced));
    if (!is_new) std::swap(entry->second, gone.emplace_back(std::move(replaced)));
    if (tensors_.size() < next_sweep_) return;
    take_unknown(gone);
    next_sweep_ = std::max(kFirstSweep, 2 * tensors_.size());
  }

  [[nodiscard]] at::Tensor find(const WeakTensor& saved, int64_t since) const {
    const std::lock_guard lock(mutex_);
    const auto entry = tensors_.find(saved._unsafe_get_target());
    if (entry == tensors_.end() || entry->second.call <= since) return {};
    if (entry->second.data.defined()) return entry->second.data;
    return at::Tensor(saved.lock()).tensor_data();
  }

  /// Others may know the tensor as weakly as `saved` does, and go without a word. So all go that
  /// nobody knows any more.
  void forget(WeakTensor saved) {
    saved.reset();
    std::vector<Replaced> gone;  // they go after the lock
    const std::lock_guard lock(mutex_);
    take_unknown(gone);
  }

 private:
  static constexpr size_t kFirstSweep = 16;

  struct Replaced {
    WeakTensor tensor;
    at::Tensor data;  ///< is undefined where the tensor itself lives as long
    int64_t call = 0;

    /// The number of others that know the tensor without keeping it.
    [[nodiscard]] uint32_t users() const {
      const uint32_t own = tensor.expired() ? 1 : 2;
      return tensor.weak_use_count() - own;
    }
  };

  void take_unknown(std::vector<Replaced>& gone) {
    std::erase_if(tensors_, [&gone](auto& known) {
      const bool goes = known.second.users() == 0;
      if (goes) gone.push_back(std::move(known.second));
      return goes;
    });
  }

  std::atomic<int64_t> calls_ = 0;
  mutable std::mutex mutex_;
  /// They are found by address, which is not used again as long as the entry is there.
  std::unordered_map<const c10::TensorImpl*, Replaced> tensors_;
  size_t next_sweep_ = kFirstSweep;
};

/// Lives as long as the process, since tensors are changed and let go until its end.
ReplacedTensors& replaced_tensors() {
  static auto* const tensors = new ReplacedTensors();
  return *tensors;
}

/// LibTorch's own hooks, and the news of set_data(), which calls no operator.
class WatchingHooks final : public at::impl::VariableHooksInterface {
 public:
  using Base = at::TensorBase;

  explicit WatchingHooks(const VariableHooksInterface& own) : own_(own) {}

  void set_data(const Base& tensor, const Base& data) const override {
    own_.set_data(tensor, data);
    replaced_tensors().note(at::Tensor(tensor));
  }

  Base tensor_data(const Base& tensor) const override { return own_.tensor_data(tensor); }
  Base variable_data(const Base& tensor) const override { return own_.variable_data(tensor); }
  const std::shared_ptr<torch::autograd::Node>& grad_fn(const Base& tensor) const override {
    return own_.grad_fn(tensor);
  }
  unsigned _register_hook(const Base& tensor,
                          std::function<Base(const Base&)> hook) const override {
    return own_._register_hook(tensor, std::move(hook));
  }
  void remove_hook(const Base& tensor, unsigned place) const override {
    own_.remove_hook(tensor, place);
  }
  bool is_view(const Base& tensor) const override { return own_.is_view(tensor); }
  const Base& base(const Base& tensor) const override { return own_.base(tensor); }
  const std::string& name(const Base& tensor) const override { return own_.name(tensor); }
  bool is_leaf(const Base& tensor) const override { return own_.is_leaf(tensor); }
  int64_t output_nr(const Base& tensor) const override { return own_.output_nr(tensor); }
  Base data(const Base& tensor) const override { return own_.data(tensor); }
  int64_t _version(const Base& tensor) const override { return own_._version(tensor); }
  void retain_grad(const Base& tensor) const override { own_.retain_grad(tensor); }
  bool retains_grad(const Base& tensor) const override { return own_.retains_grad(tensor); }
  void _backward(const at::Tensor& tensor, at::TensorList inputs,
                 const std::optional<at::Tensor>& gradient, std::optional<bool> keep_graph,
                 bool create_graph) const override {
    own_._backward(tensor, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const Base& tensor, bool requires_grad) const override {
    own_.requires_grad_(tensor, requires_grad);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op,
                                               c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    own_.basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const Base& tensor) const override {
    return own_.grad_dtype(tensor);
  }
  void set_grad_dtype(const Base& tensor,
                      const std::optional<c10::ScalarType>& dtype) const override {
    own_.set_grad_dtype(tensor, dtype);
  }

 private:
  const VariableHooksInterface& own_;
};

}  // namespace

void watch_set_data() {
  static auto* const hooks = new WatchingHooks(*at::impl::GetVariableHooks());
  at::impl::SetVariableHooks(hooks);
}

SavedOriginal::~SavedOriginal() {
  if (tensor_ && calls_ != replaced_tensors().calls()) {
    replaced_tensors().forget(*std::move(tensor_));
  }
}

void SavedOriginal::note(const at::Tensor& tensor) {
  const auto& node = tensor.grad_fn();
  // The operator that saves has made its node, and no other since. A view that was written through
  // its base gets a new node when it is asked for it, which is younger than any operator's.
  const bool is_youngest = node != nullptr &&
                           node->sequence_nr() + 1 == at::sequence_number::peek() &&
                           node->thread_id() == at::RecordFunction::currentThreadId();
  if (is_youngest && !tensor.is_view()) return;
  is_certain_ = !is_youngest;
  tensor_.emplace(tensor.getIntrusivePtr());
  calls_ = replaced_tensors().calls();
  version_ = tensor._version();
}

at::Tensor SavedOriginal::replaced() const {
  if (!tensor_ || calls_ == replaced_tensors().calls()) return {};
  at::Tensor now = replaced_tensors().find(*tensor_, calls_);
  if (!now.defined()) return now;
  TORCH_CHECK(is_certain_, "a view of shape ", now.sizes(),
              " got other memory by set_data() after ",
              "an operator had saved it for backward, and it is not known which of both it saved");
  if (now._version() != version_) {
    refuse_changed(now.sizes(), {version_, now._version()}, "a tensor with memory of set_data()",
                   "an operator");
  }
  return now;
}

}  // namespace noisemark::memopt
