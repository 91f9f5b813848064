#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "suite/train/observer.h"

namespace noisemark::suite {

/// Floating-point operations of one call of an operator, from its arguments alone; a fused
/// multiply-add counts as two, additions of a bias and what an operator makes once more instead of
/// keeping do not count. It is null for an operator that is not a matrix product, a convolution or
/// an attention.
using FlopFormula = int64_t (*)(c10::ArrayRef<c10::IValue> arguments);
[[nodiscard]] FlopFormula find_flop_formula(std::string_view operator_name);

/// Returns what the formula says without the operations on a convolution's padding, which a library
/// need not do.
[[nodiscard]] int64_t least_flops(FlopFormula formula, c10::ArrayRef<c10::IValue> arguments);

/// Returns whether operators of this name do the work for one that has a formula and only passes on
/// to them: mkldnn_convolution or cudnn_convolution for convolution.
[[nodiscard]] bool works_for_another(std::string_view operator_name);

/// While alive, counts the floating-point operations of this thread's operators and of what
/// autograd's threads do for it. An operator with a formula counts, and nothing
/// that it calls: convolution counts once, however many operators it is made of, and a composite
/// (linear, matmul, einsum) counts by the products it is made of. One at a time in a process.
class FlopCounter final : public StepObserver {
 public:
  FlopCounter();
  ~FlopCounter() override;
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  /// All work before the first phase counts as kForward. Each throws what went wrong while
  /// counting.
  [[nodiscard]] int64_t total() const;
  [[nodiscard]] int64_t of(Phase phase) const;
  /// The counts under the name of the operator that did the work, where a profile has its time.
  [[nodiscard]] std::map<std::string, int64_t> by_operator() const;

  void on_step_begin(int64_t /*step*/) override {}
  void on_phase_begin(Phase phase) override { phase_ = phase; }
  void on_phase_end(Phase /*phase*/) override {}
  void on_step_end(int64_t /*step*/) override {}

 private:
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);

  Phase phase_ = Phase::kForward;
  std::array<int64_t, 5> by_phase_{};
  std::map<std::string, int64_t> by_operator_;
  std::exception_ptr error_;
};

}  // namespace noisemark::suite
