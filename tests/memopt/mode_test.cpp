#include "memopt/mode.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <stdexcept>

namespace noisemark::memopt {
namespace {

TEST(Modes, begin_with_none) {
  EXPECT_EQ(modes().front().name, "none");
}

TEST(Modes, are_made_as_their_table_says) {
  for (const ModeEntry& entry : modes()) {
    const std::unique_ptr<Mode> mode = make_mode(entry.name);
    EXPECT_EQ(mode->name(), entry.name);
    EXPECT_EQ(mode->lossless(), entry.lossless);
    EXPECT_FALSE(entry.summary.empty());
  }
}

TEST(Modes, none_leaves_every_tensor_to_autograd) {
  EXPECT_EQ(make_mode("none")->make_hooks(), nullptr);
}

TEST(Modes, an_unknown_spelling_names_the_nearest_valid_one) {
  try {
    static_cast<void>(make_mode("nome"));
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "\"nome\" (nearest valid: \"none\")");
  }
}

}  // namespace
}  // namespace noisemark::memopt
