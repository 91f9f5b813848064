#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

struct HostOffloadUsage {
  int64_t capacity_bytes = 0;  ///< size of the pool, at most what was asked for
  int64_t held_bytes = 0;
  int64_t fallbacks = 0;  ///< tensors that found no room, and stayed where they were
};

/// Saved tensors in host memory, after vDNN (Rhu et al., MICRO 2016). It is lossless. Takes every
/// type. Keeps a pool of host memory, so unlike other codecs it has a state; thread-safe all the
/// same.
///
/// "offload", on a GPU: parts are pinned host memory, uint8 [bytes], from a pool that is allocated
/// once. Copies run on a stream of their own, in order; the host never waits. A tensor stays alive
/// until it has been copied out: two may be under way, and before a third one is begun the compute
/// stream waits for the first, so the peak does not depend on how far the host is ahead.
/// prefetch() begins the copy back behind the work issued so far, decode() makes the current
/// stream wait for its end. No graph capture.
///
/// "copy", on a CPU: the same interface around a plain copy in ordinary memory. It gains nothing
/// there, and is what tests and comparisons of the mode run.
class HostOffload : public Codec {
 public:
  [[nodiscard]] bool lossless() const override { return true; }
  [[nodiscard]] std::string form() const override;
  [[nodiscard]] virtual HostOffloadUsage usage() const = 0;
  /// Call it when forward ends: the memory of running copies is then released as each copy ends, by
  /// work that is issued to the current stream from now on.
  void finish_encoding() const override = 0;
  /// The storages (EncodeKey) of what found no room since the last call.
  [[nodiscard]] std::set<int64_t> take_refused() const;

 protected:
  void note_refused(const EncodeKey& key) const;

 private:
  mutable std::mutex refused_mutex_;
  mutable std::set<int64_t> refused_;
};

/// `capacity_bytes` of host memory at most, for tensors of `device`.
[[nodiscard]] std::unique_ptr<HostOffload> make_host_offload(c10::Device device,
                                                             int64_t capacity_bytes);

}  // namespace noisemark::memopt
