#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/suite/process.h"

namespace noisemark::suite {
namespace {

TEST(Readme, shows_the_command_line_as_the_program_prints_it) {
  std::ostringstream readme;
  readme << std::ifstream(NOISEMARK_SOURCE "/suite/cli/README.md").rdbuf();
  const std::string text = readme.str();
  const std::string begin = "<!-- begin: noisemark help --markdown -->\n";
  const size_t from = text.find(begin);
  const size_t to = text.find("<!-- end -->");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const test::Finished help = test::run_noisemark({"help", "--markdown"});
  EXPECT_EQ(text.substr(from + begin.size(), to - from - begin.size()), help.out);
}

}  // namespace
}  // namespace noisemark::suite
