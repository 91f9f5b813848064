#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <utility>

namespace noisemark::suite {

/// Hears which module a forward pass is in, on the thread that runs the pass; a module that calls
/// another one ends after it.
class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  virtual void on_module_begin(const torch::nn::Module& module) = 0;
  virtual void on_module_end() noexcept = 0;
};

inline thread_local ModuleObserver* observer_in_force = nullptr;

/// While alive, forward passes of the calling thread tell `observer`, and no other.
class [[nodiscard]] ModuleObserverGuard {
 public:
  explicit ModuleObserverGuard(ModuleObserver& observer)
      : previous_(std::exchange(observer_in_force, &observer)) {}
  ~ModuleObserverGuard() { observer_in_force = previous_; }
  ModuleObserverGuard(const ModuleObserverGuard&) = delete;
  ModuleObserverGuard& operator=(const ModuleObserverGuard&) = delete;

 private:
  ModuleObserver* previous_;
};

/// The forward pass of a module. LibTorch's own modules have no hooks, so it stands where a module
/// computes, or around the call of one of LibTorch's. Without an observer it does nothing.
class [[nodiscard]] ModuleScope {
 public:
  explicit ModuleScope(const torch::nn::Module& module) : observer_(observer_in_force) {
    if (observer_ != nullptr) observer_->on_module_begin(module);
  }
  ~ModuleScope() {
    if (observer_ != nullptr) observer_->on_module_end();
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  ModuleObserver* observer_;
};

/// Runs one of LibTorch's modules, as layer(x) does, within its scope.
template <class Layer>
at::Tensor run_layer(Layer& layer, const at::Tensor& x) {
  const ModuleScope scope(*layer);
  return layer->forward(x);
}

}  // namespace noisemark::suite
