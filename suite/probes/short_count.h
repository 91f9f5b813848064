#pragma once

#include <ATen/core/Tensor.h>

#include "memopt/allocation_source.h"

namespace noisemark::suite {

/// A source that is wrong about one block: whoever looks the tensor's storage up hears of
/// `lost_bytes` fewer than there are, while the allocator's own figures and events stay true. So
/// the owners' sum must come out short. `source` must outlive it.
class ShortCount final : public memopt::AllocationSource {
 public:
  ShortCount(memopt::AllocationSource& source, const at::Tensor& tensor, int64_t lost_bytes);

  [[nodiscard]] std::string_view name() const override { return source_.name(); }
  memopt::AllocationBaseline attach(memopt::AllocationListener& listener) override;
  void detach() override { source_.detach(); }
  [[nodiscard]] std::optional<memopt::Block> find(const c10::StorageImpl& storage) const override;
  [[nodiscard]] int64_t live_bytes() const override { return source_.live_bytes(); }
  [[nodiscard]] int64_t take_high_bytes() override { return source_.take_high_bytes(); }

 private:
  memopt::AllocationSource& source_;
  const at::Tensor tensor_;
  int64_t lost_bytes_;
};

}  // namespace noisemark::suite
