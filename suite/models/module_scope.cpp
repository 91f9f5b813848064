#include "suite/models/module_scope.h"

namespace noisemark::suite {
namespace {

thread_local ModuleObserver* observer_in_force = nullptr;

}  // namespace

ModuleObserverGuard::ModuleObserverGuard(ModuleObserver& observer) : previous_(observer_in_force) {
  observer_in_force = &observer;
}

ModuleObserverGuard::~ModuleObserverGuard() {
  observer_in_force = previous_;
}

ModuleScope::ModuleScope(const torch::nn::Module& module) : observer_(observer_in_force) {
  if (observer_ != nullptr) observer_->on_module_begin(module);
}

ModuleScope::~ModuleScope() {
  if (observer_ != nullptr) observer_->on_module_end();
}

}  // namespace noisemark::suite
