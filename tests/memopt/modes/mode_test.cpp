#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <utility>

#include "memopt/modes/mode.h"
#include "memopt/modes/mode_grammar.h"

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

TEST(Modes, that_round_finer_have_no_looser_bound_of_the_gradient) {
  std::vector<double> bounds;
  for (const ModeWord& word : mode_words()) {
    EXPECT_EQ(word.gradient_bound > 0, word.place == ModeWord::Place::kRounding) << word.word;
    if (word.gradient_bound > 0) bounds.push_back(word.gradient_bound);
  }
  ASSERT_GE(bounds.size(), 5U);
  EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end(), std::less_equal<>{}));
  EXPECT_EQ(bounds.back(), kLoosestGradientBound);
}

TEST(Modes, that_round_fail_a_codec_that_rounds_as_the_next_coarser_one) {
  // The errors of the first seed of gmm16-ho under the coarser one, on a CPU.
  for (const auto& [mode, error] : {std::pair{"dpr16", 0.0163}, std::pair{"dpr10", 0.0895},
                                    std::pair{"dpr8", 0.475}, std::pair{"q4", 0.475}}) {
    EXPECT_LT(parse_mode(mode).rounding()->gradient_bound, error) << mode;
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
    EXPECT_EQ(
        std::string(error.what()).find("\"nome\" (nearest: \"none\"; accepted: none, or some of "),
        0U)
        << error.what();
  }
}

std::string nearest_to(std::string_view spelling) {
  try {
    static_cast<void>(parse_mode(spelling));
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    const size_t begin = text.rfind(": \"") + 3;
    return text.substr(begin, text.rfind('"') - begin);
  }
  return "(accepted)";
}

TEST(ModeGrammar, reads_every_canonical_spelling_as_what_it_was_written_from) {
  std::set<std::string> spellings;
  for (const ModeComposition& parts : all_compositions()) {
    const std::string spelling = spelling_of(parts);
    EXPECT_EQ(parse_mode(spelling), parts) << spelling;
    EXPECT_TRUE(spellings.insert(spelling).second) << spelling;
  }
  for (const char* spelling :
       {"none", "echo", "echo+attn", "mirror+echo", "mirror:sqrt", "gist", "gist+dpr8", "echo+dpr8",
        "echo+attn+q4", "echo+attn+gist+q2+offload:all", "offload"}) {
    EXPECT_EQ(spellings.count(spelling), 1U) << spelling;
  }
}

TEST(ModeGrammar, tells_alternatives_that_make_every_spelling_and_no_other) {
  std::set<std::string> joined{""};
  for (const auto& words : mode_alternatives()) {
    const std::set<std::string> before = joined;
    for (const std::string& spelling : before) {
      for (const std::string_view word : words) {
        joined.insert(spelling + (spelling.empty() ? "" : "+") + std::string(word));
      }
    }
  }
  joined.erase("");
  joined.insert("none");
  std::set<std::string> canonical;
  for (const ModeComposition& parts : all_compositions()) canonical.insert(spelling_of(parts));
  EXPECT_EQ(joined, canonical);
}

TEST(ModeGrammar, makes_a_mode_of_every_canonical_spelling) {
  for (const ModeComposition& parts : all_compositions()) {
    const std::string spelling = spelling_of(parts);
    const std::unique_ptr<Mode> mode = make_mode(spelling);
    EXPECT_EQ(mode->name(), spelling);
    EXPECT_EQ(mode->lossless(), parts.lossless());
  }
}

TEST(ModeGrammar, reads_a_limit_of_host_memory_behind_what_offloads) {
  const ModeComposition parts = parse_mode("echo+offload:all,host=64KiB");
  EXPECT_EQ(parts.host_bytes, 65536);
  EXPECT_EQ(parts.offload()->word, "offload:all");
  EXPECT_EQ(spelling_of(parts), "echo+offload:all,host=64KiB");
  EXPECT_EQ(make_mode("offload,host=1024KiB")->name(), "offload,host=1MiB");
  EXPECT_EQ(make_mode("offload,host=1.5MiB")->name(), "offload,host=1536KiB");
  EXPECT_TRUE(parts.lossless());
  EXPECT_FALSE(parse_mode("dpr8+offload,host=1GiB").lossless());
}

TEST(ModeGrammar, refuses_a_limit_of_host_memory_anywhere_else_and_other_sizes) {
  EXPECT_EQ(nearest_to("ofload,host=1MiB"), "offload");
  for (const char* spelling :
       {"echo,host=1MiB", "none,host=1MiB", ",host=1MiB", "offload,host=1MiB+dpr8",
        "offload,host=", "offload,host=0", "offload,host=-1", "offload,host=1 MiB",
        "offload,host=1MB", "offload,host=1MiB,host=1MiB", "offload,1MiB"}) {
    EXPECT_THROW(static_cast<void>(parse_mode(spelling)), std::invalid_argument) << spelling;
  }
}

TEST(ModeGrammar, calls_lossless_what_rounds_nothing) {
  for (const char* spelling : {"none", "mirror:sqrt+echo", "gist", "echo+gist+offload:all"}) {
    EXPECT_TRUE(parse_mode(spelling).lossless()) << spelling;
  }
  for (const char* spelling : {"dpr16", "q2", "gist+dpr8", "echo+attn+q4+offload"}) {
    EXPECT_FALSE(parse_mode(spelling).lossless()) << spelling;
  }
}

TEST(ModeGrammar, has_words_that_stand_for_all_modes_those_that_round_and_those_that_do_not) {
  const std::vector<std::string> every = modes_meant_by({"every"});
  ASSERT_EQ(every.size(), mode_words().size());
  for (const std::string kind : {"lossless", "lossy"}) {
    const std::vector<std::string> meant = modes_meant_by({kind});
    ASSERT_FALSE(meant.empty());
    for (const std::string& word : every) {
      const bool listed = std::count(meant.begin(), meant.end(), word) == 1;
      EXPECT_EQ(listed, parse_mode(word).lossless() == (kind == "lossless")) << word;
    }
  }
  const std::vector<std::string> others = {"none", "echo+dpr8", "ecko"};
  EXPECT_EQ(modes_meant_by(others), others);
}

TEST(ModeGrammar, refuses_another_order_and_names_the_right_one) {
  EXPECT_EQ(nearest_to("dpr8+gist"), "gist+dpr8");
  EXPECT_EQ(nearest_to("offload+q4+echo"), "echo+q4+offload");
  EXPECT_EQ(nearest_to("attn+echo"), "echo+attn");
  EXPECT_EQ(nearest_to("echo+mirror"), "mirror+echo");
}

TEST(ModeGrammar, refuses_a_part_twice_and_names_the_spelling_with_one) {
  EXPECT_EQ(nearest_to("gist+gist"), "gist");
  EXPECT_EQ(nearest_to("echo+dpr8+dpr8"), "echo+dpr8");
  EXPECT_EQ(nearest_to("none+echo"), "echo");
}

TEST(ModeGrammar, refuses_two_of_a_kind_and_other_words) {
  EXPECT_EQ(nearest_to("dpr"), "dpr8");
  EXPECT_EQ(nearest_to("ecko+dpr16"), "echo+dpr16");
  for (const char* spelling : {"", "+", "echo+", "+echo", "echo++gist", "dpr8+q4", "Echo", "attn",
                               "mirror+echo+attn", "offload+offload:all", "echo dpr8"}) {
    EXPECT_THROW(static_cast<void>(parse_mode(spelling)), std::invalid_argument) << spelling;
  }
}

}  // namespace
}  // namespace noisemark::memopt
