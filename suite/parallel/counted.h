#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "suite/parallel/backend.h"

namespace noisemark::suite {

/// Counts the sums, broadcasts and gatherings of one of c10d's backends.
template <typename Backend>
class Counted final : public Backend {
 public:
  template <typename... Arguments>
  explicit Counted(std::shared_ptr<Seen> seen, Arguments&&... arguments)
      : Backend(std::forward<Arguments>(arguments)...), seen_(std::move(seen)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return counted(tensors, [&] { return Backend::allreduce(tensors, options); });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return counted(tensors, [&] { return Backend::broadcast(tensors, options); });
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& taken,
                                           std::vector<at::Tensor>& given,
                                           const c10d::AllgatherOptions& options) override {
    return counted(given, [&] { return Backend::allgather(taken, given, options); });
  }

 private:
  template <typename Begin>
  c10::intrusive_ptr<c10d::Work> counted(const std::vector<at::Tensor>& tensors,
                                         const Begin& begin) {
    int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
    seen_->begin(bytes);
    auto work = begin();
    work->getFuture()->addCallback(
        [seen = seen_](c10::ivalue::Future& future) { seen->end(future.hasError()); });
    return work;
  }

  std::shared_ptr<Seen> seen_;
};

}  // namespace noisemark::suite
