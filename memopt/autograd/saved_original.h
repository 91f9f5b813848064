#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>

namespace noisemark::memopt {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// Has LibTorch tell of each Tensor::set_data() from now on, on any thread. Idempotent.
void watch_set_data();

/// The tensor that autograd saves. Without hooks autograd keeps it, unless it is the result of the
/// operator that saves it, so backward reads the memory that set_data() gave it since. This tells
/// hooks of that, and keeps nothing alive before somebody calls set_data().
class SavedOriginal {
 public:
  SavedOriginal() = default;
  ~SavedOriginal();
  SavedOriginal(const SavedOriginal&) = delete;
  SavedOriginal& operator=(const SavedOriginal&) = delete;

  /// Call it once, when the tensor is saved, before anything that could make an autograd node.
  void note(const at::Tensor& tensor);
  /// The tensor as it is now, without history, if set_data() gave it other memory since; else
  /// undefined. Throws the c10::Error of a change in place, or where it is not known which of both
  /// autograd would have kept.
  [[nodiscard]] at::Tensor replaced() const;

 private:
  std::optional<WeakTensor> tensor_;  ///< is empty where autograd would have kept what was saved
  int64_t calls_ = 0;                 ///< calls of set_data() before the tensor was saved
  int64_t version_ = 0;
  bool is_certain_ = true;
};

}  // namespace noisemark::memopt
