#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Sees with what the operators of one forward pass are called, as far as autograd may not keep it:
/// the operator's name, its constants (the summand of an addition, the epsilon of a norm), which of
/// the model's buffers it reads, how often the memory of its inputs was written, and the shapes of
/// what has no history. Each call becomes one number, kept by the number of the autograd node that
/// it makes; operators that make no node say nothing. Reads no values and keeps nothing alive. For
/// the thread that makes it; passes may nest.
class CallWatch {
 public:
  /// `graph` knows the model's tensors.
  explicit CallWatch(const StepGraph& graph);
  ~CallWatch() { stop(); }
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// Sees no more. Known calls stay known.
  void stop();
  /// Equal for equal calls, in this process; 0: the call that made the node was not seen.
  [[nodiscard]] uint64_t call_of(uint64_t sequence) const;

 private:
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);
  void note(const at::RecordFunction& function);
  void forget();
  [[nodiscard]] uint64_t digest_of(const c10::IValue& argument) const;
  [[nodiscard]] uint64_t digest_of(const at::Tensor& tensor) const;

  static thread_local CallWatch* innermost_;

  CallWatch* outer_ = nullptr;
  bool watching_ = true;
  at::CallbackHandle handle_ = 0;
  uint64_t first_sequence_;
  std::unordered_set<const c10::StorageImpl*> model_;
  std::vector<uint64_t> calls_;  ///< by sequence number, from first_sequence_ on
};

}  // namespace noisemark::memopt
