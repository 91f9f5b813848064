#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <memory>
#include <string>

#include "suite/io/safetensors.h"

namespace noisemark::suite {

/// `parameters` in the order in which a backward pass from `root` begins to make their gradients:
/// the one that forward read last comes first, whatever the order in which the model lists them. It
/// is read from the graph behind `root`, whose edges stay after it was used. Those that `root` does
/// not depend on come last; of equals (a layer's weight and bias) the first listed comes first.
[[nodiscard]] NamedTensors in_backward_order(const at::Tensor& root, NamedTensors parameters);

/// Waits for the device.
[[nodiscard]] bool all_finite(const at::Tensor& tensor);

/// While alive, looks at what every operator of this thread reads and makes, and knows the first
/// that made an infinity or a NaN of finite tensors. Of operators that call others it is the
/// innermost. Looking costs several passes over every tensor and waits for the device each time: it
/// is for a forward pass that is repeated because it failed. One at a time on a thread.
class [[nodiscard]] NonFiniteWatch {
 public:
  NonFiniteWatch();
  ~NonFiniteWatch();
  NonFiniteWatch(const NonFiniteWatch&) = delete;
  NonFiniteWatch& operator=(const NonFiniteWatch&) = delete;

  /// "aten::mul"; empty while there was none.
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);

  std::string first_;
};

}  // namespace noisemark::suite
