#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "suite/parallel/group.h"

namespace noisemark::suite {

/// The type in which gradients travel between ranks.
enum class Reduction {
  kExact,  ///< their own
  kBf16,   ///< rounds to bfloat16, summed in it: half of the bytes, and a lossy variant
};

/// The words of --reduce.
[[nodiscard]] std::vector<std::string> reductions();
/// Returns the reduction of one of these words; exact for an empty one.
[[nodiscard]] Reduction reduction_of(const std::string& word);

/// Makes every gradient the mean over the ranks, by c10d's Reducer: gradients lie in buckets of
/// 25 MiB, each of which is reduced, while the backward pass goes on, as soon as it is full.
/// `.grad` is a view of its bucket, so that nothing is kept twice. In the second step the buckets
/// are made again in the order in which gradients came.
class GradientReducer {
 public:
  /// `parameters` in the order of the forward pass, the same on all ranks.
  GradientReducer(std::shared_ptr<Group> group, const std::vector<at::Tensor>& parameters,
                  Reduction reduction = Reduction::kExact);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Runs the backward pass of `root`. With `reduce` the gradients are reduced, and with them what
  /// passes since the last time have added up: only a step's last micro-batch asks for it. Throws
  /// GroupLost, and what the pass throws.
  void backward(const at::Tensor& root, bool reduce);

  /// Returns what was counted in the last pass that reduced. Its exposed part begins when the last
  /// bucket is full.
  [[nodiscard]] Traffic reduced() const;
  /// The bytes that the last pass exchanged, by formula: those of all gradients as they travel. The
  /// second one also agrees on new buckets, whose bytes are those that were counted.
  [[nodiscard]] int64_t expected_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace noisemark::suite
