#pragma once

#include <ATen/record_function.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reports/result/result.h"

namespace noisemark::suite {

/// While alive, looks at the operators of this thread under autocast: which of them gave results in
/// a wider type than autocast's. An operator is what autograd sees: of a composite (linear) the
/// operators that it is made of, of a convolution itself and not what its library calls. Views,
/// operators in place and memory that is not filled yet do not count. Backward and whatever else is
/// outside autocast is not looked at. There is at most one in a thread.
class WideOperators {
 public:
  /// Autocast on this kind of device, to this type.
  WideOperators(c10::DeviceType device, at::ScalarType narrow);
  ~WideOperators();
  WideOperators(const WideOperators&) = delete;
  WideOperators& operator=(const WideOperators&) = delete;

  /// Calls with a floating-point result.
  [[nodiscard]] int64_t operators() const { return operators_; }
  /// The most bytes first, then by name. Bytes are those of the results' elements.
  [[nodiscard]] std::vector<reports::WideOperator> wide() const;

 private:
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);
  void count(const at::RecordFunction& function);

  c10::DeviceType device_;
  at::ScalarType narrow_;
  int64_t operators_ = 0;
  std::map<std::string, reports::WideOperator> wide_;
};

}  // namespace noisemark::suite
