#include "memopt/record/lifetimes.h"

namespace noisemark::memopt {

void Lifetimes::follow(StorageId storage, const at::Tensor& tensor) {
  followed_.push_back({storage, WeakTensor(tensor.getIntrusivePtr())});
  ++tensors_of_[storage];
}

std::vector<StorageId> Lifetimes::take_gone() {
  std::vector<StorageId> gone;
  std::erase_if(followed_, [&](const Followed& followed) {
    if (!followed.tensor.expired()) return false;
    if (--tensors_of_[followed.storage] == 0) gone.push_back(followed.storage);
    return true;
  });
  return gone;
}

}  // namespace noisemark::memopt
