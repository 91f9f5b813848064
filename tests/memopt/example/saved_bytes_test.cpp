/// The bytes that modes hold for backward, of the models of the example's table.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "memopt/example/models.h"
#include "memopt/example/training.h"

namespace example {
namespace {

/// The last of them follows a plan, also where a mode that rounds takes four passes to find what it
/// must leave. A model learns in more.
constexpr int64_t kSteps = 9;

Outcome trained(const TaskEntry& task, const std::string& mode) {
  TrainingOptions options;
  options.steps = kSteps;
  return train(task, mode, options);
}

/// Layers with attention are made again one at a time, and not all at once.
TEST(SavedBytes, fall_to_two_fifths_at_the_peak_of_transformers_whose_attention_is_made_again) {
  int transformers = 0;
  for (const TaskEntry& task : tasks()) {
    if (task.name != "gpt" && task.name != "dit") continue;
    ++transformers;
    const Outcome none = trained(task, "none");
    const Outcome outcome = trained(task, "echo+attn");
    EXPECT_TRUE(same_bits_as(outcome, none)) << task.name;
    EXPECT_GE(static_cast<double>(none.peak_saved_bytes),
              2.5 * static_cast<double>(outcome.peak_saved_bytes))
        << task.name;
  }
  EXPECT_EQ(transformers, 2);
}

/// No plan compares the peak of a mode that encodes with that of "none".
TEST(SavedBytes, under_modes_that_encode_or_move_are_no_more_than_promised) {
  for (const TaskEntry& task : tasks()) {
    Outcome none = trained(task, "none");
    // A few steps teach nothing.
    const auto learned = [](Outcome outcome) {
      outcome.losses.back() = outcome.losses.front() * 0.5;
      return outcome;
    };
    none = learned(none);
    for (const char* mode : {"gist", "dpr16", "dpr8", "q4", "offload", "offload:all"}) {
      EXPECT_EQ(broken_promise(mode, learned(trained(task, mode)), none), "")
          << task.name << " under " << mode;
    }
  }
}

}  // namespace
}  // namespace example
