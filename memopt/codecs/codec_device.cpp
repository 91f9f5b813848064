#include "memopt/codecs/codec_device.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "memopt/codecs/kernels/kernels.h"

namespace noisemark::memopt::codecs {
namespace {

/// Enough work for a thread that handing it over costs little beside it.
constexpr int64_t kElementsPerTask = 32768;

template <typename Job>
void share_out(void (*work)(const Job&, int64_t, int64_t), const Job& job, int64_t per_block) {
  at::parallel_for(0, blocks_of(job.count, per_block), kElementsPerTask / per_block,
                   [&](int64_t begin, int64_t end) { work(job, begin, end); });
}

template <typename T>
uint32_t first_nonzero(const SearchJob& job) {
  const auto* x = static_cast<const T*>(job.x);
  const T* found = std::find_if(x, x + job.count, [](T element) { return element != 0; });
  return found == x + job.count ? 0 : *found;
}

/// Turns each block's number of values into their offset, and returns the sum.
int64_t make_offsets(uint32_t* offsets, int64_t blocks) {
  int64_t sum = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const uint32_t values = offsets[block];
    offsets[block] = static_cast<uint32_t>(sum);
    sum += values;
  }
  return sum;
}

class CpuCodecDevice final : public CodecDevice {
 public:
  void encode(const FieldJob& job) const override {
    share_out(kernels_.fields.encode, job, elements_per_block(job.form));
  }
  void decode(const FieldJob& job) const override {
    share_out(kernels_.fields.decode, job, elements_per_block(job.form));
  }
  void encode(const GroupJob& job) const override {
    share_out(kernels_.groups.encode, job, job.elements_per_block());
  }
  void decode(const GroupJob& job) const override {
    share_out(kernels_.groups.decode, job, job.elements_per_block());
  }
  void encode(const SparseJob& job) const override {
    share_out(kernels_.sparse.map, job, SparseJob::kBlock);
    const int64_t values = make_offsets(job.offsets, blocks_of(job.count, SparseJob::kBlock));
    if (values > job.capacity) {
      *job.lost = 1;
      return;
    }
    share_out(kernels_.sparse.gather, job, SparseJob::kBlock);
    const int64_t behind = (job.capacity - values) * job.element_bytes;
    std::memset(static_cast<char*>(job.values) + values * job.element_bytes, 0, behind);
  }
  void decode(const SparseJob& job) const override {
    share_out(kernels_.sparse.scatter, job, SparseJob::kBlock);
  }
  void find_extent(const SearchJob& job) const override {
    std::atomic<Extent> all = 0;
    at::parallel_for(0, job.count, kElementsPerTask, [&](int64_t begin, int64_t end) {
      const Extent here = kernels_.search.extent(job, begin, end);
      Extent before = all;
      while (!all.compare_exchange_weak(before, joined(before, here))) {
      }
    });
    *job.number = all;
  }
  void find_nonzero(const SearchJob& job) const override {
    *job.number =
        job.element_bytes == 2 ? first_nonzero<uint16_t>(job) : first_nonzero<uint32_t>(job);
  }

 private:
  const Kernels& kernels_ = kernels_of(current_cpu_level());
};

}  // namespace

const CodecDevice& cpu_codec_device() {
  static const CpuCodecDevice device;
  return device;
}

}  // namespace noisemark::memopt::codecs
