#include "suite/parallel/messages.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <map>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "suite/parallel/backend.h"

namespace noisemark::suite {

struct Messages::State {
  struct Sent {
    std::vector<at::Tensor> tensor;
    c10::intrusive_ptr<c10d::Work> work;
  };

  std::shared_ptr<Group> group;
  std::map<std::pair<int64_t, int64_t>, Sent> sent;  ///< messages to each receiver with each tag
};

namespace {

/// The memory of a tensor without gaps, whatever its layout.
std::vector<at::Tensor> memory_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "a tensor without gaps in its memory");
  return {tensor.detach().as_strided({tensor.numel()}, {1})};
}

}  // namespace

Messages::Messages(std::shared_ptr<Group> group) : state_(std::make_unique<State>()) {
  state_->group = std::move(group);
}

Messages::~Messages() = default;

void Messages::send(const at::Tensor& tensor, int64_t to, int64_t tag) {
  Seen& seen = seen_by(*state_->group);
  seen.begin(static_cast<int64_t>(tensor.nbytes()));
  seen.end(/*failed=*/false);
  in_group(*state_->group, [&] {
    std::vector<at::Tensor> one = memory_of(tensor);
    auto work =
        process_group_of(*state_->group)->send(one, static_cast<int>(to), static_cast<int>(tag));
    state_->sent[{to, tag}] = {std::move(one), std::move(work)};
  });
}

void Messages::settle(int64_t to, int64_t tag) {
  const auto one = state_->sent.extract({to, tag});
  if (!one.empty()) wait_in_group(*state_->group, [&] { one.mapped().work->wait(); });
}

void Messages::settle_all() {
  wait_in_group(*state_->group, [&] {
    for (const auto& [key, one] : state_->sent) one.work->wait();
  });
  state_->sent.clear();
}

void Messages::receive(at::Tensor& tensor, int64_t from, int64_t tag) {
  wait_in_group(*state_->group, [&] {
    std::vector<at::Tensor> one = memory_of(tensor);
    process_group_of(*state_->group)
        ->recv(one, static_cast<int>(from), static_cast<int>(tag))
        ->wait();
  });
}

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
  in_group(*state_->group, [&] {
    state_->work = process_group_of(*state_->group)->allgather(state_->taken, state_->given);
  });
}

const std::vector<at::Tensor>& Gathering::wait() {
  if (state_->work) {
    const auto work = std::exchange(state_->work, {});
    wait_in_group(*state_->group, [&] { work->wait(); });
  }
  return state_->taken.front();
}

}  // namespace noisemark::suite
