#include "memopt/record/operator_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace noisemark::memopt {
namespace {

/// A device that works beside the host, by a clock of its own: what the host issues takes the host
/// some time and the device another.
class StandInDevice {
 public:
  static constexpr double kIssue_s = 20e-6;
  static constexpr double kWork_s = 2e-6;

  void issue_work() { add({Item::Kind::kWork}); }
  size_t issue_mark() {
    add({Item::Kind::kMark});
    return marks_++;
  }
  void issue_hold(double longest_s) {
    add({Item::Kind::kHold, longest_s});
    end_holds_before(items_.size() - 1);
  }
  void release() { end_holds_before(items_.size()); }

  /// Returns the times at which the device passed each mark, once all of it has been released.
  [[nodiscard]] std::vector<double> passed() const {
    std::vector<double> marks;
    double now_s = 0;
    for (const Item& item : items_) {
      now_s = std::max(now_s, item.issued_s);
      if (item.kind == Item::Kind::kWork) now_s += kWork_s;
      if (item.kind == Item::Kind::kMark) marks.push_back(now_s);
      if (item.kind != Item::Kind::kHold) continue;
      const double expired_s = now_s + item.longest_s;
      now_s = std::max(now_s, std::min(item.released_s.value_or(expired_s), expired_s));
    }
    return marks;
  }

  /// Work and marks from one hold to the next, the most of them.
  [[nodiscard]] int longest_stretch() const {
    int longest = 0;
    int length = 0;
    for (const Item& item : items_) {
      length = item.kind == Item::Kind::kHold ? 0 : length + 1;
      longest = std::max(longest, length);
    }
    return longest;
  }
  [[nodiscard]] bool holds_now() const {
    return std::any_of(items_.begin(), items_.end(), [](const Item& item) {
      return item.kind == Item::Kind::kHold && !item.released_s;
    });
  }
  [[nodiscard]] size_t holds() const {
    return static_cast<size_t>(std::count_if(items_.begin(), items_.end(), [](const Item& item) {
      return item.kind == Item::Kind::kHold;
    }));
  }

 private:
  struct Item {
    enum class Kind { kWork, kMark, kHold } kind;
    double longest_s = 0;
    double issued_s = 0;
    std::optional<double> released_s{};
  };

  void add(Item item) {
    now_s_ += kIssue_s;
    item.issued_s = now_s_;
    items_.push_back(item);
  }
  void end_holds_before(size_t end) {
    for (size_t i = 0; i < end; ++i) {
      const bool open = items_[i].kind == Item::Kind::kHold && !items_[i].released_s;
      if (open) items_[i].released_s = now_s_;
    }
  }

  double now_s_ = 0;
  std::vector<Item> items_;
  size_t marks_ = 0;
};

class StandInClock final : public DeviceClock {
 public:
  explicit StandInClock(StandInDevice& device) : device_(device) {}
  Mark mark() override { return device_.issue_mark(); }
  void synchronize() override {
    EXPECT_FALSE(device_.holds_now()) << "the host waits for a device that waits for it";
    passed_ = device_.passed();
  }
  double seconds_between(Mark begin, Mark end) const override {
    return passed_.at(end) - passed_.at(begin);
  }
  void clear() override {}
  void hold(double longest_s) override { device_.issue_hold(longest_s); }
  void release() override { device_.release(); }

 private:
  StandInDevice& device_;
  std::vector<double> passed_;
};

constexpr int kOperators = 500;

/// Times a pass of operators that launch one kernel each, some inside of others.
std::vector<int64_t> costs_of_a_pass(StandInDevice& device, OperatorTimes::Queue queue) {
  OperatorTimes times(std::make_unique<StandInClock>(device), queue);
  for (int i = 0; i < kOperators; i += 2) {
    times.between_operators();
    const auto outer = times.mark();
    const auto inner = times.mark();
    device.issue_work();
    times.note(inner, times.mark());
    times.note(outer, times.mark());
  }
  std::vector<RecordedOperator> operators;
  for (int i = 0; i < kOperators; ++i) {
    operators.push_back(
        RecordedOperator{c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul", "Tensor"),
                         {},
                         {},
                         {},
                         0,
                         0,
                         0,
                         false});
  }
  times.read_into(operators);
  std::vector<int64_t> costs;
  for (const RecordedOperator& one : operators) costs.push_back(one.cost_ns);
  return costs;
}

constexpr int64_t kWork_ns = 2000;
constexpr int64_t kIssue_ns = 20000;

TEST(OperatorTimes, of_a_device_that_waits_for_the_host_are_those_of_the_launch) {
  StandInDevice device;
  for (const int64_t cost : costs_of_a_pass(device, OperatorTimes::Queue::kAsItComes)) {
    EXPECT_GE(cost, kIssue_ns);
  }
  EXPECT_EQ(device.holds(), 0U);
}

TEST(OperatorTimes, of_a_device_that_is_held_are_its_own) {
  StandInDevice device;
  for (const int64_t cost : costs_of_a_pass(device, OperatorTimes::Queue::kHeld)) {
    EXPECT_NEAR(static_cast<double>(cost), kWork_ns, 1) << "to a nanosecond, as they are rounded";
  }
  EXPECT_FALSE(device.holds_now());
}

TEST(OperatorTimes, hold_a_device_for_no_more_than_its_queue_takes) {
  StandInDevice device;
  (void)costs_of_a_pass(device, OperatorTimes::Queue::kHeld);
  // The last operator of a stretch is still in it, and one kernel for two marks here.
  EXPECT_LE(device.longest_stretch(), OperatorTimes::kMarksHeld * 3 / 2);
  // Two marks to an operator.
  EXPECT_EQ(device.holds(), static_cast<size_t>((2 * kOperators + OperatorTimes::kMarksHeld - 1) /
                                                OperatorTimes::kMarksHeld));
}

TEST(OperatorTimes, end_the_last_hold_with_the_pass) {
  StandInDevice device;
  OperatorTimes times(std::make_unique<StandInClock>(device), OperatorTimes::Queue::kHeld);
  times.between_operators();
  EXPECT_TRUE(device.holds_now());
  times.end();
  EXPECT_FALSE(device.holds_now());
}

/// An operator that is as long in issuing as a hold may last is timed as without one, and the next
/// stretch is as ever.
TEST(OperatorTimes, of_a_hold_that_expires_are_those_of_the_launch_again) {
  StandInDevice device;
  OperatorTimes times(std::make_unique<StandInClock>(device), OperatorTimes::Queue::kHeld);
  const auto slow_to_issue = static_cast<int>(OperatorTimes::kLongestHold_s * 2 / 20e-6);
  std::vector<RecordedOperator> operators;
  times.between_operators();
  for (int i = 0; i < slow_to_issue; ++i) device.issue_work();
  for (int i = 0; i < 2; ++i) {
    if (i == 1) {
      for (int m = 0; m < OperatorTimes::kMarksHeld; ++m) (void)times.mark();
    }
    times.between_operators();
    const auto begin = times.mark();
    device.issue_work();
    times.note(begin, times.mark());
    operators.push_back(
        RecordedOperator{c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul", "Tensor"),
                         {},
                         {},
                         {},
                         0,
                         0,
                         0,
                         false});
  }
  times.read_into(operators);
  EXPECT_GE(operators[0].cost_ns, kIssue_ns);
  EXPECT_NEAR(static_cast<double>(operators[1].cost_ns), kWork_ns, 1);
}

}  // namespace
}  // namespace noisemark::memopt
