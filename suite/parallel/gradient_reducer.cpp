#include "suite/parallel/gradient_reducer.h"

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

struct GradientReducer::State {
  std::shared_ptr<Group> group;
  std::unique_ptr<c10d::Reducer> reducer;
  Traffic reduced;

  void prepare() const {
    const memopt::OwnerScope owner(memopt::Owner::kGradients);
    reducer->rebuild_buckets();
    reducer->prepare_for_forward();
    reducer->prepare_for_backward({});
  }
};

GradientReducer::GradientReducer(std::shared_ptr<Group> group,
                                 const std::vector<at::Tensor>& parameters)
    : state_(std::make_unique<State>()) {
  state_->reducer = make_reducer(*group, parameters);
  state_->group = std::move(group);
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::backward(const at::Tensor& root, bool reduce) {
  if (!reduce) return root.backward();
  Group& group = *state_->group;
  try {
    state_->prepare();
  } catch (const std::exception& error) {
    throw group.lost(error);
  }
  const Traffic before = group.traffic();
  try {
    root.backward();
  } catch (const std::exception& error) {
    if (group.failed()) throw group.lost(error);
    throw;
  }
  const Traffic after = group.traffic();
  state_->reduced = {after.operations - before.operations, after.bytes - before.bytes};
}

Traffic GradientReducer::reduced() const {
  return state_->reduced;
}

}  // namespace noisemark::suite
