#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <unordered_map>
#include <vector>

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// Watches when the last tensor of a storage goes: the variables of a forward function hold tensors
/// longer than the operators that read them. What hooks keep for autograd are other tensors of the
/// same memory, and are not seen here.
class Lifetimes {
 public:
  void follow(StorageId storage, const at::Tensor& tensor);
  /// The storages whose last tensor has gone since it was last asked.
  [[nodiscard]] std::vector<StorageId> take_gone();

 private:
  struct Followed {
    StorageId storage;
    WeakTensor tensor;
  };
  std::vector<Followed> followed_;
  std::unordered_map<StorageId, int> tensors_of_;
};

}  // namespace noisemark::memopt
