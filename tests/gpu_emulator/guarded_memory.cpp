#include "tests/gpu_emulator/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace noisemark::test::gpu {

GuardedBytes::GuardedBytes(size_t bytes) : bytes_(bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + page - 1) / page * page;
  all_bytes_ = used + page;
  pages_ = mmap(nullptr, all_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages_ == MAP_FAILED) throw std::runtime_error("guarded memory: mmap failed");
  if (mprotect(static_cast<char*>(pages_) + used, page, PROT_NONE) != 0) {
    throw std::runtime_error("guarded memory: mprotect failed");
  }
  data_ = static_cast<char*>(pages_) + (used - bytes);
  std::memset(data_, 0xff, bytes);
}

GuardedBytes::~GuardedBytes() {
  if (pages_ != nullptr) munmap(pages_, all_bytes_);
}

GuardedBytes::GuardedBytes(GuardedBytes&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)),
      all_bytes_(other.all_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

}  // namespace noisemark::test::gpu
