#include "memopt/saved_tensor_scope.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <utility>

namespace noisemark::memopt {
namespace {

/// The innermost scope of this thread. LibTorch asks its process-wide engine for hooks and passes
/// nothing along, so the thread is the only place where the answer can be kept.
thread_local SavedTensorSink* current_sink = nullptr;

class ScopedEngine final : public torch::autograd::Engine {
 public:
  ~ScopedEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return current_sink == nullptr ? nullptr : current_sink->make_hooks();
  }
};

torch::autograd::Engine& scoped_engine() {
  static ScopedEngine engine;
  return engine;
}

}  // namespace

void install_saved_tensor_engine() {
  torch::autograd::set_default_engine_stub(&scoped_engine);
  at::SavedTensorDefaultHooks::lazy_initialize();
}

SavedTensorScope::SavedTensorScope(SavedTensorSink& sink) : sink_(sink), previous_(current_sink) {
  sink.begin_forward();
  current_sink = &sink;
}

SavedTensorScope::~SavedTensorScope() {
  current_sink = previous_;
  sink_.end_forward();
}

}  // namespace noisemark::memopt
