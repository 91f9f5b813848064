#include "memopt/saved_tensor_scope.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>
#include <vector>

#include "memopt/backward_watch.h"

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

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    if (!create_graph) {
      tell_backward_watcher([&](const std::vector<at::Tensor>& leaves) {
        torch::autograd::edge_list edges;
        edges.reserve(leaves.size());
        for (const at::Tensor& leaf : leaves) {
          edges.push_back(torch::autograd::impl::gradient_edge(leaf));
        }
        return Engine::execute(roots, inputs, /*keep_graph=*/true, /*create_graph=*/false,
                               /*accumulate_grad=*/false, edges);
      });
    }
    return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
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
