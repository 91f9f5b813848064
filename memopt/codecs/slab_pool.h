#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace noisemark::memopt {

/// Memory that is expensive to get, got once and lent out in pieces: a few large slabs, best fit,
/// neighbouring free pieces joined. Thread-safe. Torch-free.
class SlabPool {
 public:
  using Memory = std::shared_ptr<std::byte>;
  /// Gives that many bytes, a power of two, or null where it has them not.
  using Source = std::function<Memory(int64_t bytes)>;

  struct Usage {
    int64_t capacity_bytes = 0;  ///< what the source gave
    int64_t lent_bytes = 0;      ///< with padding to kAlignment
    int64_t refusals = 0;        ///< since the beginning
  };

  /// Every piece begins at a multiple, if every slab does.
  static constexpr int64_t kAlignment = 256;
  static constexpr int64_t kSmallestSlab = 1 << 20;

  /// Takes slabs from `source`, largest first, until they hold `capacity_bytes` rounded down to
  /// kSmallestSlab. Where the source refuses a size it is asked for half.
  SlabPool(int64_t capacity_bytes, const Source& source);

  /// A piece that returns by itself; null, and counted, when no free piece is large enough. May
  /// outlive the pool.
  [[nodiscard]] Memory take(int64_t bytes);
  [[nodiscard]] Usage usage() const;

 private:
  class Slabs;
  std::shared_ptr<Slabs> slabs_;
};

}  // namespace noisemark::memopt
