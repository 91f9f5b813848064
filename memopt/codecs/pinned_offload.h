#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "memopt/codecs/event_pool.h"
#include "memopt/codecs/host_offload.h"
#include "memopt/codecs/slab_pool.h"

namespace noisemark::memopt::codecs {

/// Host offload of a device with streams and events, through LibTorch's interface to them, so that
/// this needs no header of such a device.
class PinnedOffload final : public HostOffload {
 public:
  PinnedOffload(c10::Device device, int64_t capacity_bytes);
  ~PinnedOffload() override;
  [[nodiscard]] std::string_view name() const override { return "offload"; }
  [[nodiscard]] std::optional<Encoded> encode(const at::Tensor& x,
                                              const EncodeKey& key) const override;
  void prefetch(const Encoded& encoded) const override;
  [[nodiscard]] at::Tensor decode(const Encoded& encoded) const override;
  [[nodiscard]] HostOffloadUsage usage() const override;
  void finish_encoding() const override;

 private:
  /// A tensor on its way out; its memory must stay.
  struct Leaving {
    c10::Storage storage;
    std::unique_ptr<PooledEvent> copied;
  };
  struct Returning;

  /// What is issued to `after` from now on waits for what was issued to `before`.
  void order(const c10::Stream& before, const c10::Stream& after) const;
  /// The compute stream waits for the oldest until at most `most` are under way.
  void let_go(size_t most, const c10::Stream& compute) const;
  void begin_return(const Encoded& encoded, Returning& returning) const;

  c10::Device device_;
  c10::Stream side_;
  mutable SlabPool pool_;
  std::shared_ptr<EventPool> events_;  ///< of encodings too, which may outlive this
  mutable std::mutex mutex_;
  mutable std::deque<Leaving> leaving_;
};

}  // namespace noisemark::memopt::codecs
