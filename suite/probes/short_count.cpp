#include "suite/probes/short_count.h"

namespace noisemark::suite {

ShortCount::ShortCount(memopt::AllocationSource& source, const at::Tensor& tensor,
                       int64_t lost_bytes)
    : source_(source), tensor_(tensor), lost_bytes_(lost_bytes) {}

memopt::AllocationBaseline ShortCount::attach(memopt::AllocationListener& listener) {
  return source_.attach(listener);
}

std::optional<memopt::Block> ShortCount::find(const c10::StorageImpl& storage) const {
  std::optional<memopt::Block> block = source_.find(storage);
  if (block && &storage == tensor_.storage().unsafeGetStorageImpl()) block->bytes -= lost_bytes_;
  return block;
}

}  // namespace noisemark::suite
