#pragma once

#include <cstdint>
#include <memory>

#include "memopt/codecs/host_offload.h"

namespace noisemark::memopt::codecs {

/// Host offload where the device is the host.
class HostCopy final : public HostOffload {
 public:
  explicit HostCopy(int64_t capacity_bytes);
  [[nodiscard]] std::string_view name() const override { return "copy"; }
  [[nodiscard]] std::optional<Encoded> encode(const at::Tensor& x,
                                              const EncodeKey& key) const override;
  [[nodiscard]] at::Tensor decode(const Encoded& encoded) const override;
  [[nodiscard]] HostOffloadUsage usage() const override;
  void finish_encoding() const override {}

 private:
  struct Account;
  std::shared_ptr<Account> account_;
};

}  // namespace noisemark::memopt::codecs
