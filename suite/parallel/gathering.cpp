#include "suite/parallel/gathering.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "memopt/accounting/tracking_allocator.h"
#include "suite/parallel/backend.h"

namespace noisemark::suite {

struct Gathering::State {
  std::shared_ptr<Group> group;
  std::vector<at::Tensor> given;
  std::vector<std::vector<at::Tensor>> taken;
  c10::intrusive_ptr<c10d::Work> work;  ///< empty once it was waited for
};

Gathering::Gathering(std::shared_ptr<Group> group, const at::Tensor& own)
    : state_(std::make_shared<State>()) {
  // Gloo's thread, which is in no inference mode, writes into what is taken.
  const c10::InferenceMode none(false);
  const memopt::OwnerScope owner(memopt::Owner::kCommunication);
  state_->group = std::move(group);
  state_->given = {own.detach().contiguous()};
  std::vector<at::Tensor>& all = state_->taken.emplace_back();
  for (int64_t rank = 0; rank < state_->group->rank().ranks; ++rank) {
    all.push_back(at::empty(own.sizes(), own.options()));
  }
  try {
    state_->work = process_group_of(*state_->group)->allgather(state_->taken, state_->given);
  } catch (const std::exception& error) {
    throw state_->group->lost(error);
  }
}

const std::vector<at::Tensor>& Gathering::wait() {
  if (state_->work) {
    const auto work = std::exchange(state_->work, {});
    const Seen::Mark begin = seen_by(*state_->group).mark();
    try {
      work->wait();
    } catch (const std::exception& error) {
      throw state_->group->lost(error);
    }
    seen_by(*state_->group).waited_since(begin);
  }
  return state_->taken.front();
}

}  // namespace noisemark::suite
