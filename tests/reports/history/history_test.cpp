#include "reports/history/history.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/free_text.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using test::Change;

/// Twelve runs at 16 images/s, then twelve at `later`.
std::vector<NamedResult> runs(double later, const Change& change = {}) {
  std::vector<double> rates = test::rates_around(16, 12);
  for (const double rate : test::rates_around(later, 12)) rates.push_back(rate);
  return test::side("a", rates, change).runs;
}

const HistorySeries& series_of(const HistoryGroup& group, const std::string& metric) {
  for (const HistorySeries& series : group.series) {
    if (series.metric == metric) return series;
  }
  throw std::logic_error("no series " + metric);
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(finished_page(part)) != std::string::npos;
}

TEST(History, finds_when_the_rate_fell_and_between_which_commits) {
  const History history = history_of(runs(14, [](Result& r, size_t i) {
    r.provenance.git_commit = std::string(40, i < 12 ? 'a' : 'b');
    r.provenance.git_dirty = i == 12;
  }));
  ASSERT_EQ(history.groups.size(), 1U);
  const HistorySeries& rate = series_of(history.groups[0], "images_per_s");
  ASSERT_EQ(rate.changes.size(), 1U);
  EXPECT_EQ(rate.changes[0].at, 12U);
  EXPECT_NEAR(rate.changes[0].before, 16, 0.05);
  EXPECT_NEAR(rate.changes[0].after, 14, 0.05);
  const std::string text = history_markdown(history);
  EXPECT_TRUE(text.starts_with("# History: 24 runs, 1 identity, 1 change (1 worse)\n")) << text;
  EXPECT_TRUE(holds(text, "| bbbbbbbbbbbb+ | aaaaaaaaaaaa  |")) << text;
  EXPECT_TRUE(holds(text, "**worse**")) << text;
}

TEST(History, finds_nothing_where_nothing_changed) {
  const History history = history_of(runs(16));
  for (const HistorySeries& series : history.groups.at(0).series) {
    EXPECT_TRUE(series.changes.empty()) << series.metric;
  }
  const std::string text = history_markdown(history);
  EXPECT_TRUE(holds(text, "No change was found.")) << text;
  EXPECT_TRUE(holds(text, "13 of 1,000 figures in which nothing had changed showed a change"))
      << text;
}

TEST(History, marks_one_byte_more_in_a_figure_without_noise_at_once) {
  const History history = history_of(runs(16, [](Result& r, size_t i) {
    if (i == 23) *test::metric(r, "peak_bytes").value += 1;
  }));
  const HistorySeries& bytes = series_of(history.groups.at(0), "peak_bytes");
  ASSERT_EQ(bytes.changes.size(), 1U);
  EXPECT_EQ(bytes.changes[0].at, 23U);
  EXPECT_FALSE(bytes.changes[0].p);
}

TEST(History, never_mixes_machines_or_definitions_and_says_what_tells_them_apart) {
  const History history = history_of(runs(14, [](Result& r, size_t i) {
    r.identity.software["libtorch"] = i < 12 ? "2.11.0" : "2.12.0";
  }));
  ASSERT_EQ(history.groups.size(), 2U);
  for (const HistoryGroup& group : history.groups) {
    EXPECT_EQ(group.runs.size(), 12U);
    EXPECT_TRUE(series_of(group, "images_per_s").changes.empty());
  }
  EXPECT_EQ(history.groups[0].differs, (Strings{{"identity.software.libtorch", "2.11.0"}}));
  EXPECT_NE(history.groups[0].identity, history.groups[1].identity);
}

TEST(History, keeps_runs_of_several_seeds_together) {
  const History history = history_of(runs(16, [](Result& r, size_t i) {
    r.seeds.base = i;
    r.provenance.init_weights_sha256 = std::string(64, static_cast<char>('a' + i % 6));
  }));
  EXPECT_EQ(history.groups.size(), 1U);
}

TEST(History, names_runs_that_did_not_come_to_their_end_and_keeps_failed_ones) {
  const History history = history_of(runs(16, [](Result& r, size_t i) {
    if (i == 3) r.exit = {130, "interrupted", {}};
    if (i == 4) r.exit = {1, "failed", {}};
  }));
  EXPECT_EQ(history.left_out,
            std::vector<std::string>{"a/3: did not come to its end (interrupted)"});
  EXPECT_EQ(history.groups.at(0).runs.size(), 23U);
  EXPECT_TRUE(
      holds(history_markdown(history),
            "Left out, with the reason:\n\n- a/3: did not come to its end (interrupted)\n"));
}

TEST(History, skips_runs_without_a_value_and_says_none) {
  const History history = history_of(runs(14, [](Result& r, size_t i) {
    if (i % 2 == 0) test::metric(r, "val_loss").value.reset();
  }));
  const HistorySeries& loss = series_of(history.groups.at(0), "val_loss");
  EXPECT_EQ(loss.values.size(), 12U);
  EXPECT_EQ(loss.runs.front(), 1U);
  EXPECT_TRUE(holds(history_markdown(history), " \u2013 |"));
}

TEST(History, says_when_there_are_too_few_runs) {
  const std::vector<NamedResult> few = test::side("a", {16, 15, 16, 15}).runs;
  const History history = history_of(few);
  EXPECT_TRUE(series_of(history.groups.at(0), "images_per_s").too_few);
  const std::string text = history_markdown(history);
  EXPECT_TRUE(
      text.starts_with("# History: 4 runs, 1 identity, 0 changes, 2 figures not searched\n"));
  EXPECT_TRUE(holds(text, "No change was found in the figures that were searched.")) << text;
  EXPECT_TRUE(holds(text, "Not searched: `images_per_s`, `val_loss`.")) << text;
  EXPECT_TRUE(holds(text, "at least 10 runs")) << text;
}

TEST(History, does_not_depend_on_the_order_of_the_results) {
  std::vector<NamedResult> results = runs(14);
  const std::string text = history_markdown(history_of(results));
  std::reverse(results.begin(), results.end());
  EXPECT_EQ(history_markdown(history_of(results)), text);
}

TEST(History, follows_the_metrics_asked_for_and_refuses_unknown_ones) {
  const History history = history_of(runs(14), {"val_loss"});
  ASSERT_EQ(history.groups.at(0).series.size(), 1U);
  EXPECT_EQ(history.groups[0].series[0].metric, "val_loss");
  EXPECT_THROW((void)history_of(runs(14), {"val_los"}), Error);
}

TEST(History, refuses_two_units_of_one_metric) {
  EXPECT_THROW((void)history_of(runs(16,
                                     [](Result& r, size_t i) {
                                       if (i == 5)
                                         test::metric(r, "images_per_s").unit = "images/min";
                                     })),
               Error);
}

TEST(HistoryPlots, draw_the_gated_figures_the_peak_and_what_changed) {
  const History history = history_of(runs(14));
  const std::vector<PlotSource> plots = history_plots(history);
  std::vector<std::string> names;
  for (const PlotSource& plot : plots) names.push_back(plot.name);
  EXPECT_EQ(names, (std::vector<std::string>{"history_1_images_per_s", "history_1_val_loss",
                                             "history_1_peak_bytes"}));
  const std::string& rates = plots[0].data;
  EXPECT_EQ(std::count(rates.begin(), rates.end(), '#'), 2);
  EXPECT_TRUE(holds(plots[0].script, "set arrow 1 from first 12.5")) << plots[0].script;
  EXPECT_FALSE(holds(plots[1].script, "set arrow")) << plots[1].script;
  Plots links;
  for (const PlotSource& plot : plots) {
    links.links.push_back({plot.title, "plots/" + plot.name + ".svg"});
  }
  const std::string text = history_markdown(history, links);
  EXPECT_TRUE(holds(text, "![images_per_s](plots/history_1_images_per_s.svg)")) << text;
}

TEST(History, is_broken_by_no_text_of_a_result) {
  test::expect_no_text_makes_blocks(test::full_result(), [](const Result& result) {
    std::vector<NamedResult> all;
    for (const char* time : {"2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"}) {
      all.push_back({result.title, result});
      all.back().result.created_utc = time;
    }
    all.push_back(all.front());
    all.back().result.exit = {71, "out of memory", {result.title}};
    const History history = history_of(all);
    for (const PlotSource& plot : history_plots(history)) {
      EXPECT_EQ(plot.script.find("\n\n"), std::string::npos) << plot.script;
    }
    return history_markdown(history);
  });
}

}  // namespace
}  // namespace noisemark::reports
