#pragma once

#include "memopt/owner.h"

namespace noisemark::suite {

/// Told, while a trainer is made, whose tensors are made next.
class BuildObserver {
 public:
  virtual ~BuildObserver() = default;
  virtual void on_part(memopt::Owner owner) = 0;
};

}  // namespace noisemark::suite
