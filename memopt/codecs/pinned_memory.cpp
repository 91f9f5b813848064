#include "memopt/codecs/pinned_memory.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace noisemark::memopt {

class SlabPool::Slabs {
 public:
  struct Piece {
    size_t slab = 0;
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  void add(Memory memory, int64_t bytes) {
    slabs_.push_back({std::move(memory), {{0, bytes}}});
    usage_.capacity_bytes += bytes;
  }

  /// `bytes` 0: there is none.
  Piece take(int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Piece best;
    int64_t best_room = 0;
    for (size_t i = 0; i < slabs_.size(); ++i) {
      for (const auto& [offset, room] : slabs_[i].free) {
        if (room >= bytes && (best.bytes == 0 || room < best_room)) {
          best = {i, offset, bytes};
          best_room = room;
        }
      }
    }
    if (best.bytes == 0) {
      ++usage_.refusals;
      return best;
    }
    auto& free = slabs_[best.slab].free;
    free.erase(best.offset);
    if (best_room > bytes) free[best.offset + bytes] = best_room - bytes;
    usage_.lent_bytes += bytes;
    return best;
  }

  void give_back(const Piece& piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& free = slabs_[piece.slab].free;
    auto here = free.emplace(piece.offset, piece.bytes).first;
    const auto next = std::next(here);
    if (next != free.end() && here->first + here->second == next->first) {
      here->second += next->second;
      free.erase(next);
    }
    if (here != free.begin()) {
      const auto before = std::prev(here);
      if (before->first + before->second == here->first) {
        before->second += here->second;
        free.erase(here);
      }
    }
    usage_.lent_bytes -= piece.bytes;
  }

  std::byte* address(const Piece& piece) const {
    return slabs_[piece.slab].memory.get() + piece.offset;
  }

  Usage usage() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return usage_;
  }

 private:
  struct Slab {
    Memory memory;
    std::map<int64_t, int64_t> free;  ///< offset to bytes
  };

  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
  Usage usage_;
};

SlabPool::SlabPool(int64_t capacity_bytes, const Source& source)
    : slabs_(std::make_shared<Slabs>()) {
  int64_t missing = std::max<int64_t>(capacity_bytes, 0);
  auto bytes = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(missing)));
  while (bytes >= kSmallestSlab) {
    Memory memory = source(bytes);
    if (memory == nullptr) {
      bytes /= 2;
      continue;
    }
    slabs_->add(std::move(memory), bytes);
    missing -= bytes;
    bytes = std::min(bytes, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(missing))));
  }
}

SlabPool::Memory SlabPool::take(int64_t bytes) {
  const int64_t padded = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const Slabs::Piece piece = slabs_->take(padded);
  if (piece.bytes == 0) return nullptr;
  return {slabs_->address(piece), [slabs = slabs_, piece](std::byte*) { slabs->give_back(piece); }};
}

SlabPool::Usage SlabPool::usage() const {
  return slabs_->usage();
}

}  // namespace noisemark::memopt

namespace noisemark::memopt::codecs {

SlabPool::Memory pinned_memory(int64_t bytes) {
  try {
    const at::Tensor slab =
        at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    return {static_cast<std::byte*>(slab.mutable_data_ptr()), [slab](std::byte*) {}};
  } catch (const c10::Error&) {
    return nullptr;  // the pool asks for less, and usage() tells
  }
}

c10::Event EventPool::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) {
    ++made_;
    return c10::Event(type_);
  }
  c10::Event event = std::move(idle_.back());
  idle_.pop_back();
  return event;
}

void EventPool::give_back(c10::Event event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(event));
}

int64_t EventPool::made() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return made_;
}

}  // namespace noisemark::memopt::codecs
