#include "memopt/codecs/host_copy.h"

#include <cstring>
#include <mutex>

#include "memopt/codecs/tensors.h"
#include "memopt/repeated_work.h"

namespace noisemark::memopt::codecs {

struct HostCopy::Account {
  std::mutex mutex;
  HostOffloadUsage usage;
};

HostCopy::HostCopy(int64_t capacity_bytes) : account_(std::make_shared<Account>()) {
  account_->usage.capacity_bytes = capacity_bytes;
}

std::optional<Encoded> HostCopy::encode(const at::Tensor& x, const EncodeKey& key) const {
  if (!x.is_cpu() || !is_dense(x)) return std::nullopt;
  require_host("tensors go to the host's memory, whose pool the host keeps");
  const auto bytes = static_cast<int64_t>(x.nbytes());
  {
    const std::lock_guard<std::mutex> lock(account_->mutex);
    HostOffloadUsage& usage = account_->usage;
    if (usage.held_bytes + bytes > usage.capacity_bytes) {
      ++usage.fallbacks;
      note_refused(key);
      return std::nullopt;
    }
    usage.held_bytes += bytes;
  }
  Encoded encoded = described(x);
  encoded.state = std::shared_ptr<void>(nullptr, [account = account_, bytes](void*) {
    const std::lock_guard<std::mutex> lock(account->mutex);
    account->usage.held_bytes -= bytes;
  });
  encoded.parts.push_back(new_part(x, bytes, at::kByte));
  std::memcpy(encoded.parts[0].mutable_data_ptr(), x.const_data_ptr(), x.nbytes());
  return encoded;
}

at::Tensor HostCopy::decode(const Encoded& encoded) const {
  at::Tensor x = new_decoded(encoded);
  std::memcpy(x.mutable_data_ptr(), encoded.parts.at(0).const_data_ptr(), x.nbytes());
  return x;
}

HostOffloadUsage HostCopy::usage() const {
  const std::lock_guard<std::mutex> lock(account_->mutex);
  return account_->usage;
}

}  // namespace noisemark::memopt::codecs
