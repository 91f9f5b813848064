#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace noisemark::reports::test {

/// Makes the process one that may not read everything, while it lives, where it is root.
class [[nodiscard]] PlainUserGuard {
 public:
  PlainUserGuard() : was_root_(geteuid() == 0) {
    if (was_root_) {
      EXPECT_EQ(seteuid(65534), 0);
    }
  }
  ~PlainUserGuard() {
    if (was_root_) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }
  PlainUserGuard(const PlainUserGuard&) = delete;
  PlainUserGuard& operator=(const PlainUserGuard&) = delete;

 private:
  bool was_root_;
};

}  // namespace noisemark::reports::test
