#include "memopt/plan/plan_walk.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace noisemark::memopt {
namespace {

struct Piece {
  bool is_there = false;
};

/// Makes nothing, and counts.
class CountingStore {
 public:
  static bool is_there(Piece memory) { return memory.is_there; }
  static void look_at(SlotId /*slot*/, Piece /*saved*/) {}
  static void hold_slice(const Slice& /*slice*/, Piece /*saved*/) {}
  static void hold(ValueId /*id*/, Piece /*saved*/) {}
  static Piece from_elsewhere(ValueId /*id*/) { return {true}; }
  static Piece held(ValueId /*id*/) { return {true}; }
  static bool decodes_for_reader(ValueId /*id*/) { return false; }
  void begin(RecipeId recipe, bool /*aside*/) { ++runs[recipe]; }
  static std::vector<Piece> run(const Recipe& recipe, const std::vector<Piece>& /*inputs*/) {
    return std::vector<Piece>(recipe.results.size(), Piece{true});
  }
  static void require_made(const Recipe& /*recipe*/, ValueId /*id*/, Piece /*made*/) {}
  static void let_go(ValueId /*id*/) {}
  static void let_go_decoded(ValueId /*id*/) {}

  std::map<RecipeId, int> runs;
};

constexpr int32_t kCommon = 0;  ///< the value that both operators read; also its recipe
constexpr SlotId kFirst = 0;    ///< saves the first result of an operator with two
constexpr SlotId kSecond = 1;   ///< saves the second
constexpr SlotId kOther = 2;    ///< saves what another operator makes

/// A value is made from nothing, two values from it by one recipe, and a fourth by another.
TreatmentPlan plan_of_two_results() {
  TreatmentPlan plan;
  const auto add_recipe = [&](std::vector<ValueId> inputs, std::vector<ValueId> results) {
    const auto number = static_cast<int32_t>(plan.recipes.size());
    for (size_t r = 0; r < results.size(); ++r) {
      ValueTreatment value;
      value.source = Source::kMadeAgain;
      value.recipe = number;
      value.reads = 1;
      plan.values.push_back(value);
    }
    Recipe recipe;
    recipe.inputs = std::move(inputs);
    recipe.results = std::move(results);
    plan.recipes.push_back(std::make_shared<const Recipe>(std::move(recipe)));
  };
  add_recipe({}, {kCommon});
  add_recipe({kCommon}, {1, 2});
  add_recipe({kCommon}, {3});
  plan.values[kCommon].reads = 2;
  for (const int32_t value : {1, 2, 3}) {
    SlotTreatment slot;
    slot.value = value;
    slot.drops = true;
    plan.slots.push_back(slot);
  }
  return plan;
}

class WalkPastResults : public testing::Test {
 protected:
  /// The other operator is the last to read the common value, which is made once for all.
  void expect_the_other_to_be_the_last_reader() {
    walk_.ask(kOther);
    EXPECT_EQ(store_.runs[kCommon], 1);
    EXPECT_FALSE(walk_.is_cached(kCommon));
  }

  const TreatmentPlan plan_ = plan_of_two_results();
  CountingStore store_;
  PlanWalk<Piece, CountingStore> walk_{plan_, store_};
};

TEST_F(WalkPastResults, gives_a_read_of_the_input_back_when_nobody_waits_for_either) {
  walk_.pass_over(kFirst);
  walk_.pass_over(kSecond);
  expect_the_other_to_be_the_last_reader();
  EXPECT_EQ(store_.runs.count(1), 0);
}

TEST_F(WalkPastResults, gives_nothing_back_while_somebody_waits_for_one) {
  walk_.pass_over(kFirst);
  walk_.ask(kSecond);
  EXPECT_TRUE(walk_.is_cached(kCommon));
  expect_the_other_to_be_the_last_reader();
}

TEST_F(WalkPastResults, gives_nothing_back_when_the_recipe_has_run_for_the_other) {
  walk_.ask(kFirst);
  walk_.pass_over(kSecond);
  EXPECT_TRUE(walk_.is_cached(kCommon));
  expect_the_other_to_be_the_last_reader();
}

TEST_F(WalkPastResults, begins_anew_when_backward_runs_again) {
  walk_.pass_over(kFirst);
  walk_.pass_over(kSecond);
  walk_.ask(kOther);
  walk_.ask(kOther);  // another round
  EXPECT_TRUE(walk_.is_cached(kCommon));
  walk_.pass_over(kFirst);
  EXPECT_TRUE(walk_.is_cached(kCommon));
  walk_.pass_over(kSecond);
  EXPECT_FALSE(walk_.is_cached(kCommon));
}

}  // namespace
}  // namespace noisemark::memopt
