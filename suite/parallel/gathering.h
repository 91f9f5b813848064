#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "suite/parallel/group.h"

namespace noisemark::suite {

/// A tensor of every rank, of one shape and type, on its way to all of them (c10d's allgather). All
/// ranks must begin their gatherings in the same order. Of the traffic a rank counts the bytes that
/// it gives.
class Gathering {
 public:
  /// Begins, and does not wait. `own` must keep its values until wait() has returned.
  Gathering(std::shared_ptr<Group> group, const at::Tensor& own);

  /// Returns the tensors by rank, row-major. Throws GroupLost.
  [[nodiscard]] const std::vector<at::Tensor>& wait();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace noisemark::suite
