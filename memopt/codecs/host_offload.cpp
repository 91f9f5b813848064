#include "memopt/codecs/host_offload.h"

#include <string>
#include <utility>

#include "memopt/codecs/host_copy.h"
#include "memopt/codecs/pinned_offload.h"

namespace noisemark::memopt {

std::string HostOffload::form() const {
  return std::string(name()) + ", room " + std::to_string(usage().capacity_bytes);
}

std::set<int64_t> HostOffload::take_refused() const {
  const std::lock_guard<std::mutex> lock(refused_mutex_);
  return std::exchange(refused_, {});
}

void HostOffload::note_refused(const EncodeKey& key) const {
  if (key.storage == EncodeKey::kNoStorage) return;
  const std::lock_guard<std::mutex> lock(refused_mutex_);
  refused_.insert(key.storage);
}

std::unique_ptr<HostOffload> make_host_offload(c10::Device device, int64_t capacity_bytes) {
  if (device.is_cpu()) return std::make_unique<codecs::HostCopy>(capacity_bytes);
  return std::make_unique<codecs::PinnedOffload>(device, capacity_bytes);
}

}  // namespace noisemark::memopt
