#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace noisemark::memopt {

/// Runs a backward pass that has not begun yet, as often as it is called. Gives the gradients of
/// `leaves`, undefined where there is none, and changes nothing: no `.grad`, and the graph stays.
/// Hooks that somebody put on tensors or nodes between the leaves and the loss run every time.
using BackwardAgain = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& leaves)>;

/// Is told of a backward pass before it begins.
class BackwardWatcher {
 public:
  virtual ~BackwardWatcher() = default;
  /// On the thread that calls backward. What it throws, backward throws.
  virtual void before_backward(const BackwardAgain& again) = 0;
};

/// Tells the watcher of the backward passes that this thread begins from now on, as long as it
/// lives; null: nobody. Passes that are differentiated themselves are left out. Needs
/// install_saved_tensor_engine().
void watch_backward(std::weak_ptr<BackwardWatcher> watcher);

/// For the engine. While the watcher is told, it is told of nothing else.
void tell_backward_watcher(const BackwardAgain& again);

}  // namespace noisemark::memopt
