#include "memopt/replay/same_bits.h"

#include <cstring>

namespace noisemark::memopt {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.strides() != b.strides() || a.scalar_type() != b.scalar_type()) {
    return false;
  }
  if (a.numel() == 0) return true;  // there is no address to compare at
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  if (x.is_cpu()) return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
  return x.view(-1).view(at::kByte).equal(y.view(-1).view(at::kByte));
}

}  // namespace noisemark::memopt
