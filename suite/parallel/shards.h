#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "suite/parallel/group.h"

namespace noisemark::suite {

/// A part of one of several tensors: the elements [begin, end) in the order of its memory.
struct Piece {
  size_t tensor = 0;
  int64_t begin = 0;
  int64_t end = 0;
};
using Pieces = std::vector<Piece>;

/// Within a tensor shares end at multiples of so many elements. A kernel that takes vectors of
/// elements and the rest one by one then treats each element as it does in the whole tensor.
inline constexpr int64_t kShardBlock = 64;

/// Lays tensors of so many elements end to end and gives each rank one share of equal size, but for
/// at most a block. Every element is in one share.
[[nodiscard]] std::vector<Pieces> divide(const std::vector<int64_t>& elements, int64_t ranks);

/// The piece as a tensor of one dimension, which shares its memory with `whole`.
[[nodiscard]] at::Tensor piece_of(const at::Tensor& whole, const Piece& piece);

/// Parameters whose optimizer's state and average live on one rank each (ZeRO stage 1, Rajbhandari
/// et al. 2020): each rank updates its share of the weights, then gives it to all others.
class Shards {
 public:
  /// `parameters`: the same on all ranks. Throws Error, exit code 2, if a rank would get none.
  Shards(std::shared_ptr<Group> group, const std::vector<at::Tensor>& parameters);
  /// Makes them with a share for each rank, of which none is empty.
  Shards(std::shared_ptr<Group> group, std::vector<Pieces> shares)
      : group_(std::move(group)), shares_(std::move(shares)) {}

  [[nodiscard]] const Pieces& own() const;
  /// Every rank gives the others its pieces of `tensors`, which are laid out as the parameters are.
  /// Throws GroupLost.
  void gather(const std::vector<at::Tensor>& tensors) const;

 private:
  std::shared_ptr<Group> group_;
  std::vector<Pieces> shares_;
};

}  // namespace noisemark::suite
