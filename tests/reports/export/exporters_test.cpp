#include "reports/export/exporters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/sha256.h"
#include "reports/compare/compare.h"
#include "reports/compare/comparison.h"
#include "reports/export/junit.h"
#include "reports/result/json_io.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/free_text.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

/// The comparison in every format, by name.
std::map<std::string, std::string> texts_of(const Comparison& comparison) {
  std::map<std::string, std::string> texts;
  for (const ExportFormat& format : export_formats()) {
    texts[std::string(format.name)] = format.of_comparison(comparison);
  }
  return texts;
}

TEST(ExportFormats, are_of_results_but_for_the_whole_comparison_and_of_comparisons) {
  const CollectedResults results{"smoke", {{"a", test::full_result()}}, {}};
  for (const ExportFormat& format : export_formats()) {
    EXPECT_EQ(&export_format(format.name), &format);
    EXPECT_NE(format.of_comparison, nullptr) << format.name;
    EXPECT_EQ(format.of_results == nullptr, format.name == "json");
    if (format.of_results == nullptr) continue;
    EXPECT_FALSE(format.of_results(results).empty()) << format.name;
  }
  EXPECT_THROW((void)export_format("xml"), std::logic_error);
}

struct Extreme {
  const char* metric;
  std::optional<double> base;
  std::optional<double> candidate;
  bool may_pass;
};

/// Comparisons of `pairs` runs in turns whose metric is that on either side.
Comparison comparison_of(const Extreme& one, size_t pairs) {
  const auto set_to = [&](const std::optional<double>& value) {
    return [metric = one.metric, value](Result& result, size_t) {
      Metric& changed = test::metric(result, metric);
      changed.value = value;
      changed.ci95.reset();
      if (!value) changed.missing_reason = "lost";
    };
  };
  const std::vector<double> rates = test::rates_around(16, pairs);
  StochasticOptions options;
  options.gates = pairs > 1;
  return compare(test::side("old", rates, set_to(one.base)),
                 test::side("new", rates, set_to(one.candidate)), options);
}

TEST(Exporters, write_numbers_alone_and_pass_nothing_that_is_worse_whatever_the_figures) {
  const Extreme extremes[] = {
      {"val_loss", 0.0, 0.0, true},          {"val_loss", 0.0, 0.2, false},
      {"val_loss", 0.2, 0.0, true},          {"val_loss", -0.2, 0.2, false},
      {"val_loss", 0.2, {}, false},          {"images_per_s", 0.0, 50.0, true},
      {"images_per_s", 50.0, 0.0, false},    {"images_per_s", 50.0, {}, false},
      {"images_per_s", 0.0, 0.0, true},      {"images_per_s", 1e308, 1e-308, false},
      {"images_per_s", 1e-308, 1e308, true}, {"val_loss", 1e-308, 1e308, false}};
  const std::regex no_number("(^|[^a-z])(nan|inf)([^a-z]|$)", std::regex::icase);
  for (const Extreme& one : extremes) {
    for (const size_t pairs : {1U, 8U}) {
      const Comparison comparison = comparison_of(one, pairs);
      SCOPED_TRACE(fmt::format("{} {} -> {}, {} pairs", one.metric, one.base.value_or(-1),
                               one.candidate.value_or(-1), pairs));
      EXPECT_TRUE(pairs == 1 || one.may_pass || exit_code_of(comparison) != ExitCode::kPass);
      for (const auto& [format, text] : texts_of(comparison)) {
        EXPECT_FALSE(std::regex_search(text, no_number)) << format << "\n" << text;
        const bool figures = format == "bmf" || format.starts_with("gha-");
        EXPECT_TRUE(!figures || text.find("null") == std::string::npos) << format;
      }
    }
  }
}

TEST(Exporters, name_changed_definitions_in_every_format) {
  const auto customize = [](Result& result, size_t) {
    result.identity.custom = true;
    result.identity.overrides = {"train.batch=8"};
  };
  const Comparison comparison = compare(test::side("old", test::rates_around(16, 8), customize),
                                        test::side("new", test::rates_around(14, 8), customize));
  for (const auto& [format, text] : texts_of(comparison)) {
    EXPECT_NE(text.find("custom train.batch"), std::string::npos) << format;
  }
}

using nlohmann::json;

/// Returns whether `text` follows the JSON Schema in the file schema/NAME.schema.json beside these
/// tests.
bool follows(const std::string& name, const std::string& text) {
  using valijson::adapters::NlohmannJsonAdapter;
  const auto rules = nlohmann::json::parse(
      read_file(std::string(NOISEMARK_TEST_FOLDER "/schema/") + name + ".schema.json"));
  const auto json = nlohmann::json::parse(text);
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(rules), schema);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  return validator.validate(schema, NlohmannJsonAdapter(json), nullptr);
}

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
  for (const std::string file : {"a", "b"}) {
    runs.push_back({file, test::full_result()});
    runs.back().result.identity.custom = true;
    runs.back().result.identity.definition_sha256 = sha256_of(file);
  }
  std::set<std::string> endings;
  for (const Figure& figure : figures_of(runs)) {
    endings.insert(figure.cell.substr(figure.cell.rfind(", ") + 2));
  }
  EXPECT_EQ(endings, (std::set<std::string>{"cpu", "custom train.batch=8",
                                            "custom " + sha256_of("a").substr(0, 12),
                                            "custom " + sha256_of("b").substr(0, 12)}));
}

TEST(Figures, of_a_comparison_of_changed_definitions_are_on_no_official_curve) {
  const auto customize = [](Result& result, size_t) {
    result.identity.custom = true;
    result.identity.overrides = {"train.batch=8"};
  };
  const Comparison comparison = compare(test::side("old", test::rates_around(16, 8), customize),
                                        test::side("new", test::rates_around(14, 8), customize));
  for (const Figure& figure : figures_of(comparison)) {
    EXPECT_TRUE(figure.cell.ends_with(", custom train.batch=8")) << figure.cell;
  }
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
  EXPECT_TRUE(follows("bencher", bencher_json(figures)));
  EXPECT_NE(ctest_lines(figures).find("figures_lost\">1<"), std::string::npos);
}

TEST(GithubBenchmark, follows_the_published_form_and_keeps_directions_apart) {
  for (const std::vector<Figure>& figures : {figures_of(one()), figures_of(slower())}) {
    const std::string smaller = github_benchmark_json(figures, Direction::kLower);
    const std::string bigger = github_benchmark_json(figures, Direction::kHigher);
    EXPECT_TRUE(follows("github_benchmark", smaller)) << smaller;
    EXPECT_TRUE(follows("github_benchmark", bigger)) << bigger;
    EXPECT_EQ(smaller.find("images_per_s"), std::string::npos) << smaller;
    EXPECT_EQ(bigger.find("val_loss"), std::string::npos) << bigger;
  }
  EXPECT_FALSE(follows("github_benchmark", R"([{"name": "a", "value": 1}])"));
  EXPECT_FALSE(follows("github_benchmark", R"([{"name": "a", "unit": "s", "value": "1"}])"));
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
    EXPECT_TRUE(follows("bencher", text)) << text;
    size_t measures = 0;
    for (const auto& benchmark : json::parse(text)) measures += benchmark.size();
    EXPECT_EQ(measures, figures.size());
  }
  EXPECT_FALSE(follows("bencher", R"({"a": {"b": {"lower_value": 1}}})"));
  EXPECT_FALSE(follows("bencher", R"({"a": {"b": 1}})"));
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

CollectedResults two() {
  return {"smoke", {{"a", test::full_result()}, {"b", test::result_under_echo()}}, {}};
}

bool shows(const std::string& text, const std::string& part) {
  return text.find(finished_page(part)) != std::string::npos;
}

TEST(Summary, begins_with_the_verdict_and_ends_with_the_mark_of_the_comment) {
  const std::string text = summary_markdown(two());
  EXPECT_TRUE(text.starts_with("# PASS: smoke\n\n2 of 2 runs passed.\n")) << text;
  EXPECT_TRUE(text.ends_with("<!-- noisemark results -->\n"));
  for (const char* heading : {"## Side by side", "## Memory at the peak, by owner",
                              "## Utilization", "## Quality", "<details><summary>b</summary>"}) {
    EXPECT_TRUE(shows(text, heading)) << heading;
  }
  EXPECT_FALSE(shows(text, "report.md")) << "a comment has no files beside it";
  EXPECT_FALSE(shows(text, "![")) << "nor images";
}

TEST(Summary, has_the_sum_of_the_owners_beside_the_name_where_a_narrow_page_shows_it) {
  const CollectedResults results = two();
  const std::string text = summary_markdown(results);
  const std::string sum = format_mib(results.results[0].result.memory.peak_bytes);
  const std::regex row(R"(by owner \(MiB\)\n[^|]*\| result \| +sum \|[^\n]*\n[^\n]*\n\| a +\| +)" +
                       sum + R"( \|)");
  EXPECT_TRUE(std::regex_search(text, row)) << text;
}

TEST(Summary, says_once_that_no_run_has_bytes_without_an_owner) {
  CollectedResults results = two();
  for (NamedResult& named : results.results) named.result.memory.peak.unattributed_bytes = 0;
  EXPECT_TRUE(shows(summary_markdown(results), ", bytes without an owner 0 B."));
}

TEST(Summary, says_so_when_the_owners_do_not_add_up) {
  CollectedResults results = two();
  EXPECT_FALSE(shows(summary_markdown(results), "does not close"));
  results.results[0].result.memory.peak_bytes += 1;
  EXPECT_TRUE(shows(summary_markdown(results), "does not close"));
}

TEST(Summary, leaves_details_out_rather_than_growing_beyond_the_limit) {
  const std::string whole = summary_markdown(two());
  const std::string cut = summary_markdown(two(), whole.size() - 1);
  EXPECT_LT(cut.size(), whole.size());
  EXPECT_TRUE(shows(cut, "Details left out for their length: 1.")) << cut;
  EXPECT_TRUE(cut.ends_with("<!-- noisemark results -->\n"));
}

TEST(ComparisonComment, leaves_the_long_tables_out_rather_than_growing_beyond_the_limit) {
  const Comparison comparison = compare(test::side("old", test::rates_around(16, 8)),
                                        test::side("new", test::rates_around(14, 8)));
  const std::string whole = comparison_markdown(comparison);
  EXPECT_TRUE(shows(whole, "<details>"));
  const std::string cut = comparison_markdown(comparison, whole.size() - 1);
  EXPECT_FALSE(shows(cut, "<details>"));
  EXPECT_TRUE(shows(cut, "were left out for their length")) << cut;
  EXPECT_TRUE(cut.ends_with("<!-- noisemark comparison -->\n"));
}

TEST(ComparisonComment, shows_who_owned_the_bytes_and_that_they_add_up) {
  const Side base = test::side("old", test::rates_around(16, 8));
  const Comparison more =
      compare(base, test::side("new", test::rates_around(16, 8), [](Result& r, size_t) {
                r.memory.peak.by_category["workspace"] += 4096;
                r.memory.peak_bytes += 4096;
                test::metric(r, "peak_bytes").value = static_cast<double>(r.memory.peak_bytes);
              }));
  const std::string text = comparison_markdown(more);
  EXPECT_TRUE(shows(text, "+4,096 B")) << text;
  EXPECT_FALSE(shows(text, "The sum is not peak_bytes")) << text;
  const Comparison lost = compare(
      base, test::side("new", test::rates_around(16, 8),
                       [](Result& r, size_t) { r.memory.peak.by_category["workspace"] += 4096; }));
  EXPECT_TRUE(shows(comparison_markdown(lost), "The sum is not peak_bytes"));
}

TEST(Summary, is_broken_by_no_text_of_a_result) {
  test::expect_no_text_makes_blocks(test::result_under_echo(), [](const Result& result) {
    return summary_markdown({result.title, {{result.title, result}}, {{result.title, "a reason"}}});
  });
}

}  // namespace

}  // namespace noisemark::reports
