#pragma once

#include <ATen/record_function.h>

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "reports/profile/roofline.h"
#include "suite/train/observer.h"

namespace noisemark::suite {

/// Records the least work of every operator's call in one training step, on the thread that trains
/// and on autograd's. An operator with a formula (find_flop_formula) has its operations. Any other
/// one that writes memory, and within which nothing else has work, has some operations for each
/// element. The bytes of both are those of the tensors that they read and of those that they write,
/// each element once. One at a time in a process.
class WorkRecorder final : public StepObserver {
 public:
  WorkRecorder() = default;
  ~WorkRecorder() override;
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;

  /// The last step's. Throws what went wrong while it was recorded.
  [[nodiscard]] reports::StepWork work() const;

  void on_step_begin(int64_t step) override;
  void on_phase_begin(Phase /*phase*/) override {}
  void on_phase_end(Phase /*phase*/) override {}
  void on_step_end(int64_t step) override;

 private:
  struct ThreadCalls {
    std::thread::id thread;
    std::vector<reports::OperatorWork> calls;
  };
  struct Call;

  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);
  std::vector<reports::OperatorWork>& calls_of_this_thread();
  void keep_error();

  static thread_local Call* innermost_;

  bool recording_ = false;
  std::mutex mutex_;
  std::deque<ThreadCalls> threads_;
  std::exception_ptr error_;
};

}  // namespace noisemark::suite
