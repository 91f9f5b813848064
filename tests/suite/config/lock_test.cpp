#include "suite/config/lock.h"

#include <gtest/gtest.h>

#include "reports/error.h"
#include "suite/config/canonical.h"
#include "suite/config/catalogue.h"

namespace noisemark::suite {
namespace {

LockEntry entry() {
  return {std::string(64, '1'), std::string(64, '2'),  std::string(64, '3'),
          std::string(64, '4'), std::string(64, '5'),  std::string(64, '6'),
          std::string(64, '7'), {1.0, 0.5, 1.0 / 3.0}, {2.5, 1.5, 7.0 / 3.0}};
}

std::string difference(const LockEntry& found) {
  const auto words = lock_differences(entry(), found);
  EXPECT_EQ(words.size(), 1U);
  return words.empty() ? "" : words.front();
}

std::string parse_error(const std::string& text) {
  try {
    (void)parse_lock(text, "LOCK");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Lock, reads_back_what_it_writes_exactly) {
  const Lock lock{{"a@cpu", entry()}, {"b@gpu", entry()}};
  const Lock read = parse_lock(lock_json(lock), "LOCK");
  EXPECT_EQ(lock_json(read), lock_json(lock));
  EXPECT_EQ(read.at("b@gpu").losses, entry().losses);
  EXPECT_EQ(read.at("b@gpu").evaluation, entry().evaluation);
}

TEST(Lock, an_equal_entry_has_no_differences) {
  EXPECT_TRUE(lock_differences(entry(), entry()).empty());
}

TEST(Lock, every_hash_turns_red_in_words) {
  LockEntry found = entry();
  found.definition_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the definition changed"), std::string::npos);
  found = entry();
  found.data_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the data changed"), std::string::npos);
  found = entry();
  found.test_data_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the data of the evaluation changed"), std::string::npos);
  found = entry();
  found.parameters_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("parameter names or shapes"), std::string::npos);
  found = entry();
  found.schedule_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the noise schedule"), std::string::npos);
  found = entry();
  found.order_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the order of the data"), std::string::npos);
  found = entry();
  found.judging_sha256[0] = 'f';
  EXPECT_NE(difference(found).find("the warm-up rule or a margin changed"), std::string::npos);
}

TEST(Lock, losses_may_differ_by_rounding_and_by_no_more) {
  LockEntry found = entry();
  found.losses[1] *= 1.0 + 0.9e-9;
  EXPECT_TRUE(lock_differences(entry(), found).empty());
  found.losses[1] = entry().losses[1] * (1.0 + 1.1e-9);
  EXPECT_NE(difference(found).find("loss of step 1"), std::string::npos);
  found.losses.pop_back();
  EXPECT_EQ(difference(found), "the loss trace changed: 2 steps, locked are 3");
}

TEST(Lock, an_evaluation_may_differ_by_rounding_and_by_no_more) {
  LockEntry found = entry();
  for (size_t i = 0; i < kEvaluated.size(); ++i) {
    found.evaluation[i] = entry().evaluation[i] * (1.0 + 0.9e-9);
    EXPECT_TRUE(lock_differences(entry(), found).empty());
    found.evaluation[i] = entry().evaluation[i] * (1.0 + 1.1e-9);
    EXPECT_NE(difference(found).find(std::string(kEvaluated[i]) + " is "), std::string::npos);
    found = entry();
  }
  found.evaluation.pop_back();
  EXPECT_EQ(difference(found), "the evaluation changed: 2 figures, locked are 3");
}

TEST(Lock, a_loss_that_is_not_a_number_is_a_difference) {
  LockEntry found = entry();
  found.losses[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(difference(found).find("loss of step 2"), std::string::npos);
}

TEST(Lock, refuses_a_malformed_file) {
  const std::string text = lock_json({{"a@cpu", entry()}});
  EXPECT_EQ(parse_error("[1"), "LOCK: not a JSON object (entries by benchmark)");
  std::string shorter = text;
  shorter.replace(shorter.find(std::string(64, '2')), 64, std::string(63, '2'));
  EXPECT_EQ(parse_error(shorter),
            "LOCK: a@cpu.data_sha256: \"" + std::string(63, '2') + "\" (a SHA-256)");
  std::string renamed = text;
  renamed.replace(renamed.find("losses"), 6, "loses!");
  EXPECT_EQ(parse_error(renamed), "LOCK: a@cpu.losses: missing (a list of numbers)");
  std::string no_number = text;
  no_number.replace(no_number.find("[2.5"), 4, "[true");
  EXPECT_NE(parse_error(no_number).find("LOCK: a@cpu.evaluation: [true"), std::string::npos);
}

TEST(Lock, shipped_definitions_are_the_locked_ones) {
  for (const BenchmarkFile& file : benchmark_files()) {
    for (const std::string scale : {"cpu", "gpu"}) {
      const std::string name = std::string(file.id) + "@" + scale;
      const auto locked = shipped_lock().find(name);
      ASSERT_NE(locked, shipped_lock().end()) << name << " is not in LOCK";
      EXPECT_EQ(locked->second.definition_sha256,
                definition_sha256(load_definition(file.id, scale)))
          << name << ": a change of a locked key needs a new version of the benchmark";
    }
  }
  EXPECT_EQ(shipped_lock().size(), 2 * benchmark_files().size()) << "an entry of no benchmark";
}

TEST(Lock, makes_a_shipped_definition_custom_that_it_does_not_hold) {
  const Definition shipped = load_definition("gmm16", "cpu");
  EXPECT_TRUE(is_locked(shipped_lock(), shipped));
  EXPECT_FALSE(shipped.custom);
  EXPECT_FALSE(shipped.unlocked);

  const auto held_to = [](const Lock& lock, Definition definition) {
    hold_to_lock(lock, definition);
    EXPECT_EQ(definition.custom, definition.unlocked);
    return !definition.unlocked;
  };
  Definition edited = shipped;
  edited.title = "other words for the same work";
  EXPECT_TRUE(held_to(shipped_lock(), edited));
  edited.optimizer.lr *= 2;
  EXPECT_FALSE(held_to(shipped_lock(), edited));
  EXPECT_EQ(unlocked_words(edited), "not the locked definition of gmm16@cpu");

  Lock other = shipped_lock();
  other.at("gmm16@cpu").definition_sha256 = std::string(64, '0');
  EXPECT_FALSE(held_to(other, shipped));
  EXPECT_TRUE(held_to(other, load_definition("gmm16", "gpu")));
  other.erase("gmm16@cpu");
  EXPECT_FALSE(held_to(other, shipped));
}

}  // namespace
}  // namespace noisemark::suite
