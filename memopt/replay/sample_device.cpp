#include "memopt/replay/sample_device.h"

namespace noisemark::memopt::replay {
namespace {

uint64_t digest_of(const SampledElements& sample) {
  uint64_t digest = 0;
  for (int32_t i = 0; i < sample.count; ++i) digest += share_of_digest(sample, i);
  return digest;
}

class CpuSampleDevice final : public SampleDevice {
 public:
  void take(const SampledElements& sample, uint64_t* digest) const override {
    *digest = digest_of(sample);
  }
  void compare(const SampledElements& sample, const uint64_t* digest, int32_t number,
               int32_t* flag) const override {
    if (*flag == 0 && digest_of(sample) != *digest) *flag = number;
  }
};

}  // namespace

const SampleDevice& cpu_sample_device() {
  static const CpuSampleDevice device;
  return device;
}

}  // namespace noisemark::memopt::replay
