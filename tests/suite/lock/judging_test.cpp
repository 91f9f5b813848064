#include "suite/lock/judging.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "reports/compare/stochastic_tier.h"
#include "reports/warmup.h"
#include "suite/config/lock.h"

namespace noisemark::suite {
namespace {

TEST(Judging, names_every_gated_metric_with_its_margin) {
  const std::string text = judging_text();
  for (const reports::GatedMetric& gated : reports::gated_metrics()) {
    std::ostringstream line;
    line << "\n" << gated.name << ": margin " << gated.margin_frac << "\n";
    EXPECT_NE(text.find(line.str()), std::string::npos) << line.str();
  }
}

TEST(Judging, asks_the_warm_up_rule_about_all_that_it_tells_apart) {
  std::map<std::string, int> answers;
  const std::string text = judging_text();
  const std::regex line("warm-up of (\\d+) steps, [^:]*: (\\d+) (stable|not stable)\n");
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    const bool short_run = std::stoul((*at)[1]) < reports::kFewestStepsToTell;
    const bool none = (*at)[2] == "0";
    ++answers[short_run ? "too few" : (*at)[3].str() + (none ? " from the start" : " later")];
  }
  EXPECT_GT(answers["too few"], 0);
  EXPECT_GT(answers["stable from the start"], 0);
  EXPECT_GT(answers["stable later"], 0);
  EXPECT_GT(answers["not stable later"], 0) << "half of the run is dropped";
}

TEST(Judging, is_what_every_benchmark_was_locked_with) {
  ASSERT_FALSE(shipped_lock().empty());
  for (const auto& [name, entry] : shipped_lock()) {
    EXPECT_EQ(entry.judging_sha256, judging_sha256())
        << name << ": the warm-up rule or a margin changed";
  }
}

}  // namespace
}  // namespace noisemark::suite
