#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace noisemark::suite {

/// Told which module a forward pass is in. Called on the thread that runs the pass; a module that
/// calls another one ends after it.
class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  virtual void on_module_begin(const torch::nn::Module& module) = 0;
  virtual void on_module_end() noexcept = 0;
};

/// While alive, forward passes of the calling thread tell `observer`, and no other.
class [[nodiscard]] ModuleObserverGuard {
 public:
  explicit ModuleObserverGuard(ModuleObserver& observer);
  ~ModuleObserverGuard();
  ModuleObserverGuard(const ModuleObserverGuard&) = delete;
  ModuleObserverGuard& operator=(const ModuleObserverGuard&) = delete;

 private:
  ModuleObserver* previous_;
};

/// The forward pass of a module. LibTorch's own modules have no hooks, so it stands where a module
/// computes, or around the call of one of LibTorch's. Without an observer it does nothing.
class [[nodiscard]] ModuleScope {
 public:
  explicit ModuleScope(const torch::nn::Module& module);
  ~ModuleScope();
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
