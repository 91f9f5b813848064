// reports/example, which the README shows. It is the folder of a run without its weights, with
// its profile and a BASE:
//   noisemark run gmm16-ho@cpu --out earlier
//   noisemark run gmm16-ho@cpu --out reports/example && rm reports/example/*.safetensors
//   noisemark profile gmm16-ho@cpu --steps 1 --out reports/example/profile
//   noisemark report reports/example --base earlier
// After a change of the report's text, `noisemark report reports/example` is enough.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "reports/base/file.h"
#include "reports/render/check.h"
#include "reports/render/run_folder.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

const fs::path kExample = NOISEMARK_EXAMPLE;

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(folder));
  }
  return names;
}

// "Produced by GNUPLOT 5.4 patchlevel 4": another version draws the same plot with other bytes.
std::string drawn_by(const std::string& svg) {
  const size_t begin = svg.find("Produced by GNUPLOT");
  return begin == std::string::npos ? "" : svg.substr(begin, svg.find('\n', begin) - begin);
}

class Example : public testing::Test {
 protected:
  Example() : copy_(fs::path(testing::TempDir()) / ("example_" + std::to_string(getpid()))) {
    fs::copy(kExample, copy_, fs::copy_options::recursive);
  }
  ~Example() override { fs::remove_all(copy_); }

  fs::path copy_;
};

TEST_F(Example, is_consistent_with_itself) {
  for (const Finding& finding : check(kExample)) {
    ADD_FAILURE() << finding.file << ": " << finding.rule << ": " << finding.words;
  }
}

TEST_F(Example, leaves_out_nothing_but_its_weights_and_their_average) {
  EXPECT_EQ(absent_weights(kExample), (std::vector<fs::path>{kExample / "weights.safetensors",
                                                             kExample / "ema.safetensors"}));
}

TEST_F(Example, is_rendered_again_to_the_same_bytes) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  fs::remove_all(copy_ / "plots");
  fs::remove(copy_ / "report.md");
  rewrite_report(copy_);
  ASSERT_EQ(files_below(copy_), files_below(kExample));
  for (const std::string& name : files_below(copy_)) {
    const std::string text = read_file(copy_ / name);
    const std::string shown = read_file(kExample / name);
    if (name.ends_with(".svg") && drawn_by(text) != drawn_by(shown)) continue;
    EXPECT_TRUE(text == shown) << name;
  }
}

}  // namespace
}  // namespace noisemark::reports
