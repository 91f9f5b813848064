#include "memopt/device/repeated_work.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <mutex>

namespace noisemark::memopt {
namespace {

/// Autograd's threads must see it too.
std::atomic<bool> recording{false};
std::mutex mutex;
std::string refusal;  // the first of the recording; empty: none

}  // namespace

RepeatedWorkScope::RepeatedWorkScope() {
  TORCH_CHECK(!recording.exchange(true), "work is being recorded for repetition already");
  const std::lock_guard<std::mutex> lock(mutex);
  refusal.clear();
}

RepeatedWorkScope::~RepeatedWorkScope() {
  recording = false;
}

void RepeatedWorkScope::check() const {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!refusal.empty()) throw NotRepeatable(refusal);
}

bool work_is_recorded() {
  return recording.load(std::memory_order_relaxed);
}

void require_host(std::string_view why) {
  if (!work_is_recorded()) return;
  const std::lock_guard<std::mutex> lock(mutex);
  if (refusal.empty()) refusal = why;
  throw NotRepeatable(std::string(why));
}

}  // namespace noisemark::memopt
