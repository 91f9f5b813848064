#include "suite/parallel/shards.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "suite/parallel/backend.h"

namespace noisemark::suite {
namespace {

/// Moves a border within a tensor to the nearest end of a block.
int64_t at_block(int64_t offset, int64_t elements) {
  return std::min((offset + kShardBlock / 2) / kShardBlock * kShardBlock, elements);
}

/// The ends of the shares, counted over all tensors.
std::vector<int64_t> borders_of(const std::vector<int64_t>& elements, int64_t ranks) {
  const int64_t all = std::accumulate(elements.begin(), elements.end(), int64_t{0});
  std::vector<int64_t> borders;
  int64_t before = 0;  // elements of the tensors before this one
  size_t tensor = 0;
  for (int64_t rank = 1; rank < ranks; ++rank) {
    const int64_t even = all / ranks * rank + all % ranks * rank / ranks;
    while (before + elements[tensor] <= even) before += elements[tensor++];
    borders.push_back(before + at_block(even - before, elements[tensor]));
  }
  borders.push_back(all);
  return borders;
}

}  // namespace

std::vector<Pieces> divide(const std::vector<int64_t>& elements, int64_t ranks) {
  std::vector<Pieces> shares;
  int64_t begin = 0;
  for (const int64_t end : borders_of(elements, ranks)) {
    Pieces& share = shares.emplace_back();
    int64_t before = 0;
    for (size_t tensor = 0; tensor < elements.size(); before += elements[tensor++]) {
      const int64_t first = std::max(begin - before, int64_t{0});
      const int64_t last = std::min(end - before, elements[tensor]);
      if (first < last) share.push_back({tensor, first, last});
    }
    begin = end;
  }
  return shares;
}

at::Tensor piece_of(const at::Tensor& whole, const Piece& piece) {
  TORCH_CHECK(whole.is_non_overlapping_and_dense(), "a tensor without gaps in its memory");
  return whole.detach().as_strided({piece.end - piece.begin}, {1},
                                   whole.storage_offset() + piece.begin);
}

Shards::Shards(std::shared_ptr<Group> group, const std::vector<at::Tensor>& parameters)
    : group_(std::move(group)) {
  std::vector<int64_t> elements;
  for (const at::Tensor& parameter : parameters) elements.push_back(parameter.numel());
  const int64_t ranks = group_->rank().ranks;
  shares_ = divide(elements, ranks);
  const auto none = [](const Pieces& share) { return share.empty(); };
  if (std::none_of(shares_.begin(), shares_.end(), none)) return;
  throw bad_input("--shard-optimizer", "", std::to_string(ranks) + " ranks",
                  "at most one for each block of " + std::to_string(kShardBlock) + " weights");
}

const Pieces& Shards::own() const {
  return shares_[static_cast<size_t>(group_->rank().rank)];
}

void Shards::gather(const std::vector<at::Tensor>& tensors) const {
  const at::NoGradGuard no_grad;
  wait_in_group(*group_, [&] {
    // Each piece travels from its own memory, so that there is no copy that lives.
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (size_t rank = 0; rank < shares_.size(); ++rank) {
      c10d::BroadcastOptions from;
      from.rootRank = static_cast<int64_t>(rank);
      for (const Piece& piece : shares_[rank]) {
        std::vector<at::Tensor> one{piece_of(tensors[piece.tensor], piece)};
        works.push_back(process_group_of(*group_)->broadcast(one, from));
      }
    }
    for (const auto& work : works) work->wait();
  });
}

}  // namespace noisemark::suite
