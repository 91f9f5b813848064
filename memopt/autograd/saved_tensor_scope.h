#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "memopt/autograd/saved_original.h"

namespace noisemark::memopt {

/// Runs a backward pass that has not begun yet, as often as it is called. Gives the gradients of
/// `leaves`, undefined where there is none, and changes nothing: the graph stays, and so does
/// `.grad`, also of tensors that retain it and, on a CPU, of others that a backward within reaches.
/// Only of `leaves` it may be written by such a backward. Hooks that somebody put on tensors or
/// nodes between the leaves and the loss run every time.
using BackwardAgain = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& leaves)>;

/// A backward pass that is about to begin.
struct BackwardToCome {
  const BackwardAgain& again;
  /// Returns whether nothing of the program runs in it, such as a hook or the backward of a
  /// function of its own, which might keep count. Walks the graph.
  const std::function<bool()> is_of_library;
};

/// Is told of a backward pass before it begins.
class BackwardWatcher {
 public:
  virtual ~BackwardWatcher() = default;
  /// Runs on the thread that calls backward, which throws what it throws.
  virtual void before_backward(const BackwardToCome& backward) = 0;
};

/// Tells the watcher of the backward passes that this thread begins from now on, as long as it
/// lives; null: nobody. Passes that are differentiated themselves are left out. Needs
/// install_saved_tensor_engine().
void watch_backward(std::weak_ptr<BackwardWatcher> watcher);

/// A watcher is told, and may run the pass: what it does to saved tensors must not be seen when the
/// program runs it. Hooks hand out copies meanwhile.
[[nodiscard]] bool backward_runs_again();

/// The counts of writes to a tensor: when it was saved, and now.
struct Versions {
  int64_t saved = 0;
  int64_t now = 0;
};

/// Throws the c10::Error of a tensor that was changed in place after it was saved. `what` names it
/// ("the result of aten::silu"), `saver` who saved it ("aten::mul").
[[noreturn]] void refuse_changed(at::IntArrayRef sizes, Versions versions, const std::string& what,
                                 const std::string& saver);

/// Does what autograd does without hooks: keeps the tensor, also where it gets other memory
/// (SavedOriginal), and refuses to hand it out when it was changed in place since (with hooks
/// installed, autograd itself no longer checks). Keeps no history, so an operator's output can be
/// kept without a cycle.
class KeepingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override;
  /// May be called more than once. Throws c10::Error after a change in place, which names the
  /// autograd node that made the tensor.
  at::Tensor call_unpack_hook() override;

  [[nodiscard]] bool changed() const { return kept_._version() != version_; }
  /// The tensor has other memory than when it was saved, and is handed out with it.
  [[nodiscard]] bool replaced() const { return original_.replaced().defined(); }
  [[nodiscard]] const at::Tensor& as_saved() const { return kept_; }
  /// The error of a change, for one who knows more than the node's name.
  [[noreturn]] void refuse(const std::string& what, const std::string& saver) const;

 private:
  SavedOriginal original_;
  at::Tensor kept_;
  int64_t version_ = 0;
  const std::type_info* made_by_ = nullptr;  ///< is null for what autograd does not know
};

/// `hooks`, or KeepingHooks where they are null.
[[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> or_keeping(
    std::unique_ptr<torch::autograd::SavedVariableHooks> hooks);

/// The receiver of saved tensors while a scope is open.
class SavedTensorSink {
 public:
  /// Ends the program with a sentence where a scope of the sink is open on this thread: no error
  /// can leave a destructor, and the scope would end the pass of what is gone.
  virtual ~SavedTensorSink();
  /// Returns null where autograd keeps the tensor itself.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() = 0;
  /// A scope opened and closed, on the thread of the scope. Must not throw in end_forward().
  virtual void begin_forward() {}
  virtual void end_forward() {}
};

/// Installs our autograd engine, whose default saved-variable hooks ask the current thread's
/// innermost SavedTensorScope. Call once, early in main, before the first backward. Idempotent.
/// Threads without a scope are not affected.
void install_saved_tensor_engine();

/// Throws c10::Error where it was not called, or where another engine was installed since: no saved
/// tensor would arrive.
void require_saved_tensor_engine();

/// One forward pass: while alive, tensors that autograd saves on this thread are offered to `sink`
/// (not owned). Nests: the innermost scope has the word. A scope inside of one of the same sink is
/// part of its forward pass. Scopes may end in any order: the innermost that is left then has
/// the word, and the last of a forward pass ends it. One that ends on another thread than it began
/// on ends the program with a sentence, since no error can leave it.
class [[nodiscard]] SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorSink& sink);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

  /// A scope as its thread knows it, which may outlive it there.
  struct Link;

 private:
  std::shared_ptr<Link> link_;
  std::thread::id thread_ = std::this_thread::get_id();
};

/// Returns whether a scope is open on this thread; in begin_forward(): one around that which opens.
[[nodiscard]] bool inside_scope();

}  // namespace noisemark::memopt
