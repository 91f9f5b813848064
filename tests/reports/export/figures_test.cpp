#include "reports/export/figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/compare/compare.h"
#include "reports/error.h"
#include "reports/export/bencher.h"
#include "reports/export/ctest_lines.h"
#include "reports/export/github_benchmark.h"
#include "reports/json_io.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/export/json_form.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using nlohmann::json;

const Figure& figure_of(const std::vector<Figure>& figures, const std::string& metric) {
  for (const Figure& figure : figures) {
    if (figure.metric == metric) return figure;
  }
  throw std::logic_error("no figure " + metric);
}

std::vector<NamedResult> one() {
  return {{"a", test::full_result()}};
}

Comparison slower() {
  return compare(test::side("old", test::rates_around(16, 8)),
                 test::side("new", test::rates_around(14, 8)));
}

TEST(Figures, of_one_run_are_its_metrics_with_their_intervals) {
  const Result result = test::full_result();
  const std::vector<Figure> figures = figures_of(one());
  ASSERT_EQ(figures.size(), 2U) << "energy_j has no value";
  const Figure& rate = figure_of(figures, "images_per_s");
  EXPECT_EQ(rate.value, *result.metrics[0].value);
  EXPECT_EQ(rate.interval->low, result.metrics[0].ci95->low);
  EXPECT_EQ(rate.cell, "ho-cifar10@cpu, mode none, baseline plain, fp32, cpu");
  EXPECT_EQ(rate.note, "1 run of 0123456789ab+");
  EXPECT_FALSE(figure_of(figures, "val_loss").interval);
}

TEST(Figures, of_several_runs_are_medians_between_the_least_and_the_greatest) {
  const Side runs = test::side("a", {3, 1, 2});
  const std::vector<Figure> figures = figures_of(runs.runs);
  const Figure& rate = figure_of(figures, "images_per_s");
  EXPECT_EQ(rate.value, 2);
  EXPECT_EQ(rate.interval->low, 1);
  EXPECT_EQ(rate.interval->high, 3);
  EXPECT_EQ(std::count_if(figures.begin(), figures.end(),
                          [](const Figure& f) { return f.metric == "images_per_s"; }),
            1);
}

TEST(Figures, of_changed_definitions_are_no_points_of_the_same_curve) {
  std::vector<NamedResult> runs = one();
  runs.push_back({"b", test::full_result()});
  runs[1].result.identity.custom = true;
  runs[1].result.identity.overrides = {"train.batch=8"};
  const std::vector<Figure> figures = figures_of(runs);
  EXPECT_EQ(figures.size(), 4U);
  EXPECT_NE(figures.back().cell.find("custom train.batch=8"), std::string::npos);
}

TEST(Figures, refuse_two_units_of_one_metric) {
  Side runs = test::side("a", {1, 2});
  runs.runs[1].result.metrics[0].unit = "images/min";
  EXPECT_THROW((void)figures_of(runs.runs), Error);
}

TEST(Figures, of_a_comparison_are_those_of_the_new_side_and_their_ratios) {
  const Comparison comparison = slower();
  const std::vector<Figure> figures = figures_of(comparison);
  EXPECT_NEAR(figure_of(figures, "images_per_s").value, 14, 0.1);
  const Figure& ratio = figure_of(figures, "images_per_s_ratio");
  EXPECT_EQ(ratio.value, *comparison.stochastic[0].ratio);
  EXPECT_EQ(ratio.direction, Direction::kHigher);
  EXPECT_NE(ratio.note.find("REGRESSION"), std::string::npos);
  EXPECT_EQ(figure_of(figures, "peak_bytes").direction, Direction::kLower);
  for (const Figure& figure : figures) EXPECT_EQ(figure.metric.find(": "), std::string::npos);
}

/// NEW no longer measures the validation loss, nor one of the cells.
Comparison less_measured() {
  const std::vector<double> rates = test::rates_around(16, 8);
  std::vector<double> more = rates;
  more.push_back(16);
  return compare(test::side("old", more,
                            [](Result& r, size_t i) {
                              if (i == 8) r.identity.mode = "echo";
                            }),
                 test::side("new", rates,
                            [](Result& r, size_t) { test::metric(r, "val_loss").value.reset(); }));
}

TEST(Figures, count_what_the_new_side_no_longer_measures) {
  const std::vector<Figure> all = figures_of(slower());
  EXPECT_EQ(figure_of(all, "figures_lost").value, 0);
  EXPECT_GT(figure_of(all, "figures_measured").value, 5);
  std::vector<Figure> lost = figures_of(less_measured());
  std::erase_if(lost, [](const Figure& figure) { return figure.metric != "figures_lost"; });
  ASSERT_EQ(lost.size(), 2U);
  EXPECT_EQ(lost[0].value, 1);
  EXPECT_EQ(lost[0].note, "no longer measured: the whole cell");
  EXPECT_EQ(lost[1].note, "no longer measured: val_loss");
}

TEST(Figures, of_what_is_no_longer_measured_are_in_every_export) {
  const std::vector<Figure> figures = figures_of(less_measured());
  const auto smaller = json::parse(github_benchmark_json(figures, Direction::kLower));
  const auto bigger = json::parse(github_benchmark_json(figures, Direction::kHigher));
  const auto holds = [](const json& entries, const std::string& words) {
    return std::any_of(entries.begin(), entries.end(), [&](const json& entry) {
      return entry["name"].get<std::string>().ends_with(words) ||
             entry["extra"].get<std::string>().ends_with(words);
    });
  };
  EXPECT_TRUE(holds(smaller, "no longer measured: val_loss"));
  EXPECT_TRUE(holds(bigger, "figures_measured"));
  const auto cells = json::parse(bencher_json(figures));
  EXPECT_EQ(cells.size(), 2U) << "the lost cell too";
  for (const auto& cell : cells) EXPECT_EQ(cell.at("figures_lost").at("value"), 1);
  EXPECT_TRUE(test::follows("bencher", bencher_json(figures)));
  EXPECT_NE(ctest_lines(figures).find("figures_lost\">1<"), std::string::npos);
}

TEST(GithubBenchmark, follows_the_published_form_and_keeps_directions_apart) {
  for (const std::vector<Figure>& figures : {figures_of(one()), figures_of(slower())}) {
    const std::string smaller = github_benchmark_json(figures, Direction::kLower);
    const std::string bigger = github_benchmark_json(figures, Direction::kHigher);
    EXPECT_TRUE(test::follows("github_benchmark", smaller)) << smaller;
    EXPECT_TRUE(test::follows("github_benchmark", bigger)) << bigger;
    EXPECT_EQ(smaller.find("images_per_s"), std::string::npos) << smaller;
    EXPECT_EQ(bigger.find("val_loss"), std::string::npos) << bigger;
  }
  EXPECT_FALSE(test::follows("github_benchmark", R"([{"name": "a", "value": 1}])"));
  EXPECT_FALSE(test::follows("github_benchmark", R"([{"name": "a", "unit": "s", "value": "1"}])"));
  EXPECT_THROW((void)github_benchmark_json({}, Direction::kNeutral), std::logic_error);
}

TEST(GithubBenchmark, says_the_interval_as_a_range) {
  const auto entries = json::parse(github_benchmark_json(figures_of(one()), Direction::kHigher));
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0]["unit"], "images/s");
  EXPECT_EQ(entries[0]["value"], *test::full_result().metrics[0].value);
  EXPECT_NE(entries[0]["range"].get<std::string>().find(" to "), std::string::npos);
}

TEST(Bencher, follows_the_published_form_with_every_figure) {
  for (const std::vector<Figure>& figures : {figures_of(one()), figures_of(slower())}) {
    const std::string text = bencher_json(figures);
    EXPECT_TRUE(test::follows("bencher", text)) << text;
    size_t measures = 0;
    for (const auto& benchmark : json::parse(text)) measures += benchmark.size();
    EXPECT_EQ(measures, figures.size());
  }
  EXPECT_FALSE(test::follows("bencher", R"({"a": {"b": {"lower_value": 1}}})"));
  EXPECT_FALSE(test::follows("bencher", R"({"a": {"b": 1}})"));
}

TEST(Bencher, holds_the_bounds_of_the_interval) {
  const auto all = json::parse(bencher_json(figures_of(one())));
  const auto& rate = all.begin().value().at("images_per_s");
  const Metric metric = test::full_result().metrics[0];
  EXPECT_EQ(rate.at("lower_value"), metric.ci95->low);
  EXPECT_EQ(rate.at("upper_value"), metric.ci95->high);
  EXPECT_FALSE(all.begin().value().at("val_loss").contains("lower_value"));
}

TEST(CtestLines, are_a_line_per_figure_with_a_name_that_ctest_can_find_the_end_of) {
  EXPECT_EQ(ctest_lines({{"a <b> \"c\"&d", "m", "s", Direction::kLower, 0.25, {}, ""}}),
            "<CTestMeasurement type=\"numeric/double\" name=\"a _b_ _c__d: m\">0.25"
            "</CTestMeasurement>\n");
  const std::string text = ctest_lines(figures_of(one()));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

}  // namespace
}  // namespace noisemark::reports
