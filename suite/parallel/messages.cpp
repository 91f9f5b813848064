#include "suite/parallel/messages.h"

#include <c10/util/Exception.h>

#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "suite/parallel/backend.h"

namespace noisemark::suite {

struct Messages::State {
  struct Sent {
    std::vector<at::Tensor> tensor;
    c10::intrusive_ptr<c10d::Work> work;
  };

  template <typename Action>
  void waiting(const Action& action) const {
    Seen& seen = seen_by(*group);
    const Seen::Mark begin = seen.mark();
    try {
      action();
    } catch (const std::exception& error) {
      throw group->lost(error);
    }
    seen.waited_since(begin);
  }

  std::shared_ptr<Group> group;
  std::map<std::pair<int64_t, int64_t>, Sent> sent;  ///< by receiver and tag
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
  try {
    std::vector<at::Tensor> one = memory_of(tensor);
    auto work =
        process_group_of(*state_->group)->send(one, static_cast<int>(to), static_cast<int>(tag));
    state_->sent[{to, tag}] = {std::move(one), std::move(work)};
  } catch (const std::exception& error) {
    throw state_->group->lost(error);
  }
}

void Messages::settle(int64_t to, int64_t tag) {
  const auto one = state_->sent.extract({to, tag});
  if (!one.empty()) state_->waiting([&] { one.mapped().work->wait(); });
}

void Messages::settle_all() {
  state_->waiting([&] {
    for (const auto& [key, one] : state_->sent) one.work->wait();
  });
  state_->sent.clear();
}

void Messages::receive(at::Tensor& tensor, int64_t from, int64_t tag) {
  state_->waiting([&] {
    std::vector<at::Tensor> one = memory_of(tensor);
    process_group_of(*state_->group)
        ->recv(one, static_cast<int>(from), static_cast<int>(tag))
        ->wait();
  });
}

}  // namespace noisemark::suite
