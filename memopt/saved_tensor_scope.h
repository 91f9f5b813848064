#pragma once

#include <memory>

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace noisemark::memopt {

/// Where saved tensors go while a scope is open.
class SavedTensorSink {
 public:
  virtual ~SavedTensorSink() = default;
  /// Null: autograd keeps the tensor itself.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() = 0;
  /// A scope opened and closed, on the thread of the scope. Must not throw in end_forward().
  virtual void begin_forward() {}
  virtual void end_forward() {}
};

/// Installs our autograd engine, whose default saved-variable hooks ask the current thread's
/// innermost SavedTensorScope. Call once, early in main, before the first backward. Idempotent.
/// Threads without a scope are not affected.
void install_saved_tensor_engine();

/// One forward pass: while alive, tensors that autograd saves on this thread are offered to `sink`
/// (not owned). Nests.
class [[nodiscard]] SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorSink& sink);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorSink& sink_;
  SavedTensorSink* previous_;
};

}  // namespace noisemark::memopt
