#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <mutex>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt::codecs {

/// Brings a flag home from a device with streams: copied to pinned memory behind the work issued so
/// far on the current stream. Not for streams that are being captured into a graph.
class AsyncVerdict final : public Verdict {
 public:
  /// `flag` int32 [1]: not 0 when the encoding is lost.
  explicit AsyncVerdict(const at::Tensor& flag);
  State poll() override;
  State wait() override;

 private:
  State read();

  std::mutex mutex_;
  at::Tensor answer_;  ///< pinned; undefined once it was read
  c10::Event arrived_;
  State state_ = State::kPending;
};

}  // namespace noisemark::memopt::codecs
