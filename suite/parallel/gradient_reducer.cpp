#include "suite/parallel/gradient_reducer.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "memopt/accounting/tracking_allocator.h"
#include "suite/parallel/backend.h"

namespace noisemark::suite {
namespace {

/// The numbers of the parameters of each bucket. The first bucket is small, so that the first
/// reduction begins early.
std::vector<std::vector<size_t>> buckets_of(const std::vector<at::Tensor>& parameters) {
  const std::vector<bool> dense(parameters.size(), false);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      parameters, {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap}, dense));
  std::reverse(buckets.begin(), buckets.end());  // gradients come from the last layer on
  return buckets;
}

using Ranks = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Does what Python's bf16_compress_hook does, of which C++ has the one for float16 only: each rank
/// rounds its part of the mean, and the sum is rounded too. What is on its way is kept for the next
/// step: Gloo's thread holds it for a moment longer than a rank waits.
class RoundToBf16 final : public c10d::CppCommHookInterface<Ranks> {
 public:
  using CppCommHookInterface<Ranks>::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const memopt::OwnerScope owner(memopt::Owner::kCommunication);
    const at::Tensor gradients = bucket.getBuffer();
    at::Tensor& sent = sent_[bucket.getIndex()];
    if (!sent.defined() || sent.numel() != gradients.numel()) {
      sent = at::empty_like(gradients, at::kBFloat16);
    }
    sent.copy_(gradients).div_(state_->getSize());
    std::vector<at::Tensor> rounded{sent};
    const auto widen = [gradients](c10::ivalue::Future& sum) {
      gradients.copy_(sum.value().toTensorVector().front());
      return c10::IValue(gradients);
    };
    return state_->allreduce(rounded)->getFuture()->then(widen, c10::TensorType::get());
  }

 private:
  std::unordered_map<size_t, at::Tensor> sent_;  // tensor that each bucket sent
};

std::unique_ptr<c10d::Reducer> make_reducer(const Group& group,
                                            const std::vector<at::Tensor>& parameters) {
  const memopt::OwnerScope owner(memopt::Owner::kGradients);
  return std::make_unique<c10d::Reducer>(
      parameters, buckets_of(parameters), process_group_of(group),
      /*expect_sparse_gradients=*/std::vector<bool>(parameters.size(), false),
      c10d::kDefaultBucketBytesCap, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, /*param_names=*/std::unordered_map<size_t, std::string>{},
      c10d::kDefaultFirstBucketBytes, /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

}  // namespace

std::vector<std::string> reductions() {
  return {"exact", "bf16"};
}

Reduction reduction_of(const std::string& word) {
  return word == "bf16" ? Reduction::kBf16 : Reduction::kExact;
}

struct GradientReducer::State {
  std::shared_ptr<Group> group;
  std::unique_ptr<c10d::Reducer> reducer;
  Traffic reduced;
  int64_t gradient_bytes = 0;  ///< number that travels
  int64_t prepared_bytes = 0;  ///< bytes exchanged before the last backward pass began

  void prepare() const {
    const memopt::OwnerScope owner(memopt::Owner::kGradients);
    reducer->rebuild_buckets();
    reducer->prepare_for_forward();
    reducer->prepare_for_backward({});
  }
};

GradientReducer::GradientReducer(std::shared_ptr<Group> group,
                                 const std::vector<at::Tensor>& parameters, Reduction reduction)
    : state_(std::make_unique<State>()) {
  state_->reducer = make_reducer(*group, parameters);
  if (reduction == Reduction::kBf16) {
    state_->reducer->register_comm_hook(std::make_unique<RoundToBf16>(process_group_of(*group)));
  }
  for (const at::Tensor& parameter : parameters) {
    const auto element =
        reduction == Reduction::kBf16 ? c10::elementSize(at::kBFloat16) : parameter.element_size();
    state_->gradient_bytes += parameter.numel() * static_cast<int64_t>(element);
  }
  state_->group = std::move(group);
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::backward(const at::Tensor& root, bool reduce) {
  if (!reduce) return root.backward();
  Group& group = *state_->group;
  const Traffic idle = group.traffic();
  in_group(group, [this] { state_->prepare(); });
  const Traffic before = group.traffic();
  state_->prepared_bytes = (before - idle).bytes;
  try {
    root.backward();
  } catch (const std::exception& error) {
    if (group.failed()) throw group.lost(error);
    throw;
  }
  seen_by(group).waited_since(seen_by(group).last_begin());
  state_->reduced = group.traffic() - before;
}

int64_t GradientReducer::expected_bytes() const {
  return state_->gradient_bytes + state_->prepared_bytes;
}

Traffic GradientReducer::reduced() const {
  return state_->reduced;
}

}  // namespace noisemark::suite
