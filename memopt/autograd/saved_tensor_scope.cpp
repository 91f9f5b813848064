#include "memopt/autograd/saved_tensor_scope.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace noisemark::memopt {
namespace {

/// Autograd passes nothing along from forward to backward but the graph, so the thread is where the
/// two find each other.
thread_local std::weak_ptr<BackwardWatcher> current_watcher;
thread_local bool telling = false;
/// Devices have threads of their own for backward.
std::atomic<int> tellings = 0;

class TellingScope {
 public:
  TellingScope() {
    telling = true;
    ++tellings;
  }
  ~TellingScope() {
    telling = false;
    --tellings;
  }
  TellingScope(const TellingScope&) = delete;
  TellingScope& operator=(const TellingScope&) = delete;
};

}  // namespace

void watch_backward(std::weak_ptr<BackwardWatcher> watcher) {
  current_watcher = std::move(watcher);
}

bool backward_runs_again() {
  return tellings > 0;
}

namespace {

/// "the result of SiluBackward0", as autograd itself speaks of it.
std::string words_for(const std::type_info* made_by) {
  if (made_by == nullptr) return "a tensor without history";
  const std::string name = c10::demangle(made_by->name());
  const size_t scope = name.rfind("::");
  return "the result of " + (scope == std::string::npos ? name : name.substr(scope + 2));
}

}  // namespace

void refuse_changed(at::IntArrayRef sizes, Versions versions, const std::string& what,
                    const std::string& saver) {
  TORCH_CHECK(false, what, ", of shape ", sizes, ", was changed in place after ", saver,
              " had saved it for backward: it is at version ", versions.now, ", and version ",
              versions.saved, " was saved");
}

void KeepingHooks::call_pack_hook(const at::Tensor& tensor) {
  original_.note(tensor);
  kept_ = tensor.tensor_data();  // it shares the version counter, unlike detach() of inference code
  version_ = tensor._version();
  const auto& node = tensor.grad_fn();
  made_by_ = node ? &typeid(*node) : nullptr;
}

at::Tensor KeepingHooks::call_unpack_hook() {
  if (changed()) refuse(words_for(made_by_), "an operator");
  at::Tensor now = original_.replaced();
  if (!now.defined()) now = kept_;
  return backward_runs_again() ? now.clone() : now;
}

std::unique_ptr<torch::autograd::SavedVariableHooks> or_keeping(
    std::unique_ptr<torch::autograd::SavedVariableHooks> hooks) {
  if (hooks == nullptr) hooks = std::make_unique<KeepingHooks>();
  return hooks;
}

void KeepingHooks::refuse(const std::string& what, const std::string& saver) const {
  refuse_changed(kept_.sizes(), {version_, kept_._version()}, what, saver);
}

struct SavedTensorScope::Link {
  SavedTensorSink& sink;
  const std::shared_ptr<Link> outer;
  const std::shared_ptr<int> of_pass;  ///< scopes of the sink's forward pass that are open
  bool ended = false;
};

namespace {

/// The innermost scope of this thread, or one inside of it that has ended. LibTorch asks its
/// process-wide engine for hooks and passes nothing along, so the thread is the only place where
/// the answer can be kept.
thread_local std::shared_ptr<SavedTensorScope::Link> innermost;

SavedTensorScope::Link* innermost_open() {
  while (innermost != nullptr && innermost->ended) innermost = innermost->outer;
  return innermost.get();
}

[[noreturn]] void end_program(const char* words) {
  std::fputs(words, stderr);
  std::terminate();
}

using torch::autograd::Node;

/// Calls `visit` for every node of the graph that begins at the roots.
void for_each_node(const torch::autograd::edge_list& roots,
                   const std::function<void(Node&)>& visit) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> left;
  const auto meet = [&](const torch::autograd::edge_list& edges) {
    for (const torch::autograd::Edge& edge : edges) {
      Node* node = edge.function.get();
      if (node != nullptr && seen.insert(node).second) left.push_back(node);
    }
  };
  for (meet(roots); !left.empty();) {
    Node* node = left.back();
    left.pop_back();
    visit(*node);
    meet(node->next_edges());
  }
}

bool is_of_library(const Node& node) {
  const std::string name = c10::demangle(typeid(node).name());
  return name.starts_with("torch::autograd::") && !name.starts_with("torch::autograd::CppNode<") &&
         !name.starts_with("torch::autograd::Py");
}

bool runs_library_alone(const torch::autograd::edge_list& roots) {
  bool alone = true;
  for_each_node(roots, [&alone](Node& node) {
    const auto* slices = dynamic_cast<const torch::autograd::CopySlices*>(&node);
    alone = alone && is_of_library(node) &&
            (slices == nullptr || slices->fn == nullptr || is_of_library(*slices->fn)) &&
            node.pre_hooks().empty() && node.post_hooks().empty() &&
            node.tensor_pre_hooks().empty();
  });
  return alone;
}

/// While the watcher is told, it is told of nothing else.
void tell_backward_watcher(const torch::autograd::edge_list& roots, const BackwardAgain& again) {
  if (telling) return;
  const std::shared_ptr<BackwardWatcher> watcher = current_watcher.lock();
  if (watcher == nullptr) return;
  const TellingScope scope;
  watcher->before_backward({again, [&roots] { return runs_library_alone(roots); }});
}

/// While alive, tensors of the graph that retain their gradients get none.
class RetainingAside {
 public:
  explicit RetainingAside(const torch::autograd::edge_list& roots) {
    for_each_node(roots, [this](Node& node) {
      if (!node.retains_grad_hooks().empty()) swap_out(node);
    });
  }
  ~RetainingAside() {
    for (auto& [node, hooks] : aside_) node->retains_grad_hooks() = std::move(hooks);
  }
  RetainingAside(const RetainingAside&) = delete;
  RetainingAside& operator=(const RetainingAside&) = delete;

 private:
  using Hooks = std::remove_reference_t<decltype(std::declval<Node&>().retains_grad_hooks())>;
  void swap_out(Node& node) {
    aside_.emplace_back(&node, std::exchange(node.retains_grad_hooks(), Hooks{}));
  }
  std::vector<std::pair<Node*, Hooks>> aside_;
};

/// Sets aside the `.grad` of what backward passes within one that runs again accumulate into, on
/// this thread: that of a device may be at work for another program's.
class AccumulatedAside {
 public:
  explicit AccumulatedAside(const std::vector<at::Tensor>& but) {
    for (const at::Tensor& tensor : but) seen_.insert(tensor.unsafeGetTensorImpl());
    current_ = this;
  }
  ~AccumulatedAside() {
    current_ = nullptr;
    for (auto& [tensor, gradient] : aside_) tensor.mutable_grad() = std::move(gradient);
  }
  AccumulatedAside(const AccumulatedAside&) = delete;
  AccumulatedAside& operator=(const AccumulatedAside&) = delete;

  /// A backward begins that accumulates.
  static void note(const torch::autograd::edge_list& roots) {
    if (current_ == nullptr) return;
    for_each_node(roots, [](Node& node) {
      const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node);
      if (leaf == nullptr || !current_->seen_.insert(leaf->variable.unsafeGetTensorImpl()).second) {
        return;
      }
      const at::Tensor& tensor = leaf->variable;
      current_->aside_.emplace_back(tensor, std::exchange(tensor.mutable_grad(), at::Tensor()));
    });
  }

 private:
  static inline thread_local AccumulatedAside* current_ = nullptr;
  std::unordered_set<const c10::TensorImpl*> seen_;
  std::vector<std::pair<at::Tensor, at::Tensor>> aside_;
};

class ScopedEngine final : public torch::autograd::Engine {
 public:
  ~ScopedEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    const SavedTensorScope::Link* scope = innermost_open();
    return scope == nullptr ? nullptr : scope->sink.make_hooks();
  }

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    if (!create_graph) {
      tell_backward_watcher(roots, [&](const std::vector<at::Tensor>& leaves) {
        torch::autograd::edge_list edges;
        edges.reserve(leaves.size());
        for (const at::Tensor& leaf : leaves) {
          edges.push_back(torch::autograd::impl::gradient_edge(leaf));
        }
        const RetainingAside retaining(roots);
        const AccumulatedAside accumulated(leaves);
        return Engine::execute(roots, inputs, /*keep_graph=*/true, /*create_graph=*/false,
                               /*accumulate_grad=*/false, edges);
      });
    }
    if (accumulate_grad) AccumulatedAside::note(roots);
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
  watch_set_data();
}

void require_saved_tensor_engine() {
  TORCH_CHECK(&torch::autograd::Engine::get_default_engine() == &scoped_engine(),
              "SavedTensorScope: the engine of saved tensors is not installed (call ",
              "install_saved_tensor_engine() first thing in main)");
}

SavedTensorSink::~SavedTensorSink() {
  for (const SavedTensorScope::Link* link = innermost.get(); link != nullptr;
       link = link->outer.get()) {
    if (link->ended || &link->sink != this) continue;
    end_program("SavedTensorScope: a mode was destroyed while a scope of it was open\n");
  }
}

SavedTensorScope::SavedTensorScope(SavedTensorSink& sink) {
  const Link* same = innermost_open();
  while (same != nullptr && (same->ended || &same->sink != &sink)) same = same->outer.get();
  if (same == nullptr) sink.begin_forward();
  const auto of_pass = same == nullptr ? std::make_shared<int>(0) : same->of_pass;
  link_ = std::make_shared<Link>(sink, innermost, of_pass);
  innermost = link_;
  ++*of_pass;
}

SavedTensorScope::~SavedTensorScope() {
  if (std::this_thread::get_id() != thread_) {
    end_program("SavedTensorScope: a scope ended on another thread than it began on\n");
  }
  link_->ended = true;
  static_cast<void>(innermost_open());  // lets go of it
  if (--*link_->of_pass == 0) link_->sink.end_forward();
}

bool inside_scope() {
  return innermost_open() != nullptr;
}

}  // namespace noisemark::memopt
