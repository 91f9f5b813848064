#include "suite/probes/flop_counter.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <numeric>

#include "suite/probes/flop_formulas.h"

namespace noisemark::suite {
namespace {

/// Callbacks are plain functions without a place for our data, so the counter is found here.
std::atomic<FlopCounter*> active{nullptr};
/// An operator that has been counted and has not returned yet.
struct CountedContext final : at::ObserverContext {
  int64_t flops = 0;
  std::string worker;  ///< itself, or the operator that it passes the work on to
};
thread_local CountedContext* counted = nullptr;

}  // namespace

FlopCounter::FlopCounter() : handle_(0) {
  FlopCounter* none = nullptr;
  TORCH_CHECK(active.compare_exchange_strong(none, this), "FLOPs are being counted already");
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_begin, &on_end)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() {
  at::removeCallback(handle_);
  active = nullptr;
  counted = nullptr;
}

std::unique_ptr<at::ObserverContext> FlopCounter::on_begin(const at::RecordFunction& function) {
  FlopCounter* counter = active.load();
  if (counter == nullptr) return nullptr;
  if (counted != nullptr) {
    if (works_for_another(function.name())) counted->worker = function.name();
    return nullptr;
  }
  const FlopFormula formula = find_flop_formula(function.name());
  if (formula == nullptr) return nullptr;
  auto context = std::make_unique<CountedContext>();
  context->worker = function.name();
  // LibTorch turns an exception of a callback into a warning, so it is kept for the reader.
  try {
    context->flops = formula(function.inputs());
    counter->by_phase_.at(static_cast<size_t>(counter->phase_)) += context->flops;
  } catch (...) {
    if (!counter->error_) counter->error_ = std::current_exception();
  }
  counted = context.get();
  return context;
}

void FlopCounter::on_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr) return;
  FlopCounter* counter = active.load();
  if (counter != nullptr && counted != nullptr) {
    counter->by_operator_[counted->worker] += counted->flops;
  }
  counted = nullptr;
}

int64_t FlopCounter::total() const {
  if (error_) std::rethrow_exception(error_);
  return std::accumulate(by_phase_.begin(), by_phase_.end(), int64_t{0});
}

int64_t FlopCounter::of(Phase phase) const {
  if (error_) std::rethrow_exception(error_);
  return by_phase_.at(static_cast<size_t>(phase));
}

std::map<std::string, int64_t> FlopCounter::by_operator() const {
  if (error_) std::rethrow_exception(error_);
  return by_operator_;
}

}  // namespace noisemark::suite
