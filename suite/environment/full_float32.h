#pragma once

#include <ATen/Context.h>
#include <c10/core/Device.h>

namespace noisemark::suite {

/// No TF32 in the convolutions and matrix products of a GPU for as long as it lives, whatever is
/// allowed; then what was. LibTorch allows it in convolutions unless it is told otherwise.
class [[nodiscard]] FullFloat32Guard {
 public:
  explicit FullFloat32Guard(c10::Device device) : active_(device.is_cuda()) {
    if (!active_) return;
    convolutions_ = at::globalContext().allowTF32CuDNN();
    products_ = at::globalContext().allowTF32CuBLAS();
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
  }
  ~FullFloat32Guard() {
    if (!active_) return;
    at::globalContext().setAllowTF32CuDNN(convolutions_);
    at::globalContext().setAllowTF32CuBLAS(products_);
  }
  FullFloat32Guard(const FullFloat32Guard&) = delete;
  FullFloat32Guard& operator=(const FullFloat32Guard&) = delete;

 private:
  bool active_;
  bool convolutions_ = false;
  bool products_ = false;
};

}  // namespace noisemark::suite
