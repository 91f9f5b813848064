#include "suite/run/child_run.h"

#include <gtest/gtest.h>

#include <fstream>

#include "suite/config/catalogue.h"
#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

std::string given_to_child(const RunOptions& options) {
  return child_arguments(options, plan_runs(options).back(), "out").at(1);
}

TEST(ChildRun, is_given_the_benchmark_of_a_suite_at_its_scale) {
  RunOptions options;
  options.device = "cpu";
  options.id = "smoke";
  EXPECT_EQ(given_to_child(options), "gmm16-ho-relu@cpu");
}

TEST(ChildRun, is_given_the_definition_file_as_it_was_typed) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "mine.toml";
  std::ofstream(file) << benchmark_files().front().text;
  RunOptions options;
  options.device = "cpu";
  options.id = file.string();
  EXPECT_EQ(given_to_child(options), file.string());
  options.id += "@gpu";
  EXPECT_EQ(given_to_child(options), file.string() + "@gpu");
}

}  // namespace
}  // namespace noisemark::suite
