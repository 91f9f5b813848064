#include "memopt/backward_watch.h"

#include <utility>

namespace noisemark::memopt {
namespace {

/// Autograd passes nothing along from forward to backward but the graph, so the thread is where the
/// two find each other.
thread_local std::weak_ptr<BackwardWatcher> current_watcher;
thread_local bool telling = false;

class TellingScope {
 public:
  TellingScope() { telling = true; }
  ~TellingScope() { telling = false; }
  TellingScope(const TellingScope&) = delete;
  TellingScope& operator=(const TellingScope&) = delete;
};

}  // namespace

void watch_backward(std::weak_ptr<BackwardWatcher> watcher) {
  current_watcher = std::move(watcher);
}

void tell_backward_watcher(const BackwardAgain& again) {
  if (telling) return;
  const std::shared_ptr<BackwardWatcher> watcher = current_watcher.lock();
  if (watcher == nullptr) return;
  const TellingScope scope;
  watcher->before_backward(again);
}

}  // namespace noisemark::memopt
