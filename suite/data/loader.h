#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "suite/config/definition.h"
#include "suite/data/dataset.h"
#include "suite/parallel/rank.h"

namespace noisemark::suite {

/// Everything random of one optimizer step, made ahead of time.
struct Batch {
  int64_t step = 0;
  at::Tensor images;     ///< x0 [N, C, H, W], float32, in [-1, 1], flipped
  at::Tensor timesteps;  ///< t [N], int64, in [0, T)
  at::Tensor noise;      ///< [N, C, H, W], float32 standard normal
};

struct LoaderOptions {
  int64_t threads = 1;   ///< is at least 1
  int64_t prefetch = 2;  ///< batches ready at the most
  bool pinned = false;   ///< page-locked buffers, for copies to a CUDA device
  int64_t first_step = 0;
  int64_t last_step = 0;  ///< exclusive; next() past it is a programming error
  BatchShare share = {};  ///< share of one rank: the batch holds its samples alone
  bool noise = true;      ///< off: Batch::noise stays undefined (to time the images alone)
};

/// Batches in step order, made by background threads. Same bits for every thread count and prefetch
/// depth: order from Stream::kOrder (a new permutation each epoch; global sample step*batch+i is
/// position (step*batch+i) mod n of epoch (step*batch+i)/n), flips, timesteps and noise from their
/// streams keyed by (step, i). A rank's samples have the numbers that they have in the whole batch.
/// All threads work on one batch before the next. Buffers are allocated under
/// memopt::OwnerScope(Owner::kInput). It is not thread-safe: one consumer.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const Definition& definition,
         const LoaderOptions& options);
  ~Loader();  ///< stops and joins its threads
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next step's batch. Rethrows what a thread threw while it made this step (of several, the
  /// error of the first image), and again on every later call.
  [[nodiscard]] Batch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace noisemark::suite
