#include "suite/run/folder/event_log.h"

#include <gtest/gtest.h>

#include "tests/suite/scratch.h"

namespace noisemark::suite {
namespace {

/// The line of a key, from its value on.
std::string logged(const std::string& events, const std::string& key) {
  const size_t found = events.find("\"" + key + "\",");
  return found == std::string::npos ? "" : events.substr(found, events.find('\n', found) - found);
}

TEST(EventLog, has_the_learning_rate_and_the_warmup_that_a_larger_batch_is_trained_with) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "events.mlog").string();
  Definition definition;
  definition.train.batch = 64;
  definition.optimizer.lr = 0.25;
  definition.optimizer.warmup_steps = 3;
  definition.scaling = {.rule = "linear", .base_batch = 16, .warmup_steps = 5};
  EventLog(path, /*resume=*/false).init_start(definition, 1);
  const std::string events = test::file_bytes(path);
  EXPECT_NE(logged(events, "opt_base_learning_rate").find("\"value\":1.0,"), std::string::npos)
      << events;
  EXPECT_NE(logged(events, "opt_learning_rate_warmup_steps").find("\"value\":5,"),
            std::string::npos)
      << events;
}

}  // namespace
}  // namespace noisemark::suite
