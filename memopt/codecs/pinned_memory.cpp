#include "memopt/codecs/pinned_memory.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstddef>

namespace noisemark::memopt::codecs {

SlabPool::Memory pinned_memory(int64_t bytes) {
  try {
    const at::Tensor slab =
        at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    return {static_cast<std::byte*>(slab.mutable_data_ptr()), [slab](std::byte*) {}};
  } catch (const c10::Error&) {
    return nullptr;  // the pool asks for less, and usage() tells
  }
}

}  // namespace noisemark::memopt::codecs
