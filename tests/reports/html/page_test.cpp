#include "reports/html/page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/profile/profile.h"
#include "reports/render/run_folder.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using test::has;

namespace fs = std::filesystem;

class Page : public testing::Test {
 protected:
  Page() : folder_(fs::path(testing::TempDir()) / ("page_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Page() override { fs::remove_all(folder_); }

  fs::path example_with_profile() const {
    fs::copy(NOISEMARK_EXAMPLE, folder_ / "run", fs::copy_options::recursive);
    return folder_ / "run";
  }
  fs::path example() const {
    const fs::path run = example_with_profile();
    fs::remove_all(run / "profile");
    return run;
  }

  fs::path folder_;
};

/// The data of a page, as a script reads them.
nlohmann::json data_of(const std::string& page) {
  const std::string begin = "id=\"noisemark-data\">";
  const size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST_F(Page, is_one_file_with_the_report_its_pictures_and_its_data) {
  const fs::path run = example();
  EXPECT_EQ(write_html_beside(run / "report.md"), run / "report.html");
  const std::string page = read_file(run / "report.html");
  EXPECT_LT(page.find("<h1 id=\"pass-gmm16-hocpu\">"), page.find("<nav"));
  EXPECT_FALSE(has(page, "src=\"plots/"));
  EXPECT_FALSE(has(page, "http-equiv=\"refresh\""));
  const nlohmann::json data = data_of(page);
  EXPECT_EQ(data["result"], nlohmann::json::parse(read_file(run / "result.json")));
  ASSERT_EQ(data["plots"].size(), 3U);
  EXPECT_EQ(data["plots"][1]["data"], read_file(run / "plots" / "memory.dat"));
  EXPECT_EQ(data["plots"][1]["script"], read_file(run / "plots" / "memory.gp"));
}

TEST_F(Page, of_a_run_takes_in_its_profile_and_its_prediction) {
  const fs::path run = example();
  make_folder(run / "profile" / "plots");
  fs::copy_file(run / "plots" / "memory.svg", run / "profile" / "plots" / "memory.svg");
  write_file_atomically(run / "profile" / "plots" / "memory.dat", "1 2\n");
  write_file_atomically(run / "profile" / "plots" / "memory.gp", "plot\n");
  write_file_atomically(run / "profile" / "profile.md",
                        "# Profile of a step\n\n## Memory\n\n![m](plots/memory.svg) "
                        "[t](trace.json.gz) [up](#memory) [far](https://a.org/b)\n");
  write_file_atomically(run / "profile" / "memory_timeline.json", R"({"points": []})");
  make_folder(run / "predict");
  write_file_atomically(run / "predict" / "predict.md", "# Prediction\n");
  write_file_atomically(run / "predict" / "predict.json", R"({"variants": []})");
  const std::string page =
      read_file(write_html_beside(run / "report.md", {"profile", "predict", "absent"}));
  EXPECT_TRUE(has(page, "<li><a href=\"#part-profile\">Profile of a step</a></li>"));
  EXPECT_TRUE(has(page, "<h2 id=\"profile-memory\">"));
  EXPECT_TRUE(has(page, "<a href=\"profile/trace.json.gz\">t</a>"));
  EXPECT_TRUE(has(page, "<a href=\"#profile-memory\">up</a>"));
  EXPECT_TRUE(has(page, "<a href=\"https://a.org/b\">far</a>"));
  const nlohmann::json data = data_of(page);
  ASSERT_EQ(data["plots"].size(), 4U) << "the report's and that of the profile";
  EXPECT_EQ(data["plots"][1]["part"], "");
  EXPECT_EQ(data["plots"][3]["part"], "profile");
  EXPECT_TRUE(data.contains("timeline"));
  EXPECT_TRUE(data.contains("prediction"));
}

/// Makes a profile's timeline and its plot as long as any is, by what is there again and again.
void make_longest(const fs::path& profile) {
  nlohmann::json timeline = nlohmann::json::parse(read_file(profile / "memory_timeline.json"));
  nlohmann::json& points = timeline["points"];
  const size_t before = points.size();
  ASSERT_LT(before, kMostInstants);
  for (size_t i = 0; points.size() < kMostInstants; ++i)
    points.push_back(nlohmann::json(points[i]));
  write_file_atomically(profile / "memory_timeline.json", timeline.dump(1));
  for (const char* name : {"memory.dat", "memory.svg"}) {
    std::string text = read_file(profile / "plots" / name);
    const size_t size = text.size() * kMostInstants / before;
    while (text.size() < size) text += text.substr(0, size - text.size());
    write_file_atomically(profile / "plots" / name, text);
  }
}

TEST_F(Page, of_ho_cifar10_has_less_than_five_megabytes_with_the_longest_profile) {
  const fs::path run = folder_ / "run";
  fs::copy(NOISEMARK_HO_CIFAR10, run, fs::copy_options::recursive);
  fs::copy(fs::path(NOISEMARK_EXAMPLE) / "profile", run / "profile", fs::copy_options::recursive);
  make_longest(run / "profile");
  const fs::path page = write_html_beside(run / "report.md", {"profile"});
  const std::string text = read_file(page);
  const nlohmann::json data = data_of(text);
  EXPECT_EQ(data["result"]["identity"]["benchmark"], "ho-cifar10");
  EXPECT_EQ(data["timeline"]["points"].size(), kMostInstants) << "it is not left out";
  EXPECT_EQ(data["plots"].size(), 5U) << "and neither is a plot";
  EXPECT_LT(text.size(), 5'000'000U);
  RecordProperty("bytes", static_cast<int>(text.size()));
}

TEST_F(Page, carries_the_library_with_its_licence_or_says_that_it_has_none) {
  const std::string page = read_file(write_html_beside(example() / "report.md"));
  const bool library = !page_assets().plotly.empty();
  EXPECT_EQ(has(page, "id=\"plotly\""), library);
  EXPECT_EQ(has(page, "MIT License"), library);
  EXPECT_EQ(why_pictures().empty(), library);
  EXPECT_EQ(has(page, "built without plotly.js: install"), !library);
}

TEST_F(Page, is_short_where_it_has_no_plot) {
  EXPECT_LT(html_page({"# a\n"}).size(), 50'000U);
}

TEST_F(Page, has_a_script_that_cannot_end_early) {
  EXPECT_FALSE(has(std::string(page_assets().script), "</script"));
  EXPECT_FALSE(has(std::string(page_assets().style), "</style"));
  HtmlPage page{"# a\n"};
  page.data.emplace_back("result", R"({"title": "</script><!--"})");
  const std::string html = html_page(page);
  EXPECT_FALSE(has(html, "</script><!--"));
  EXPECT_EQ(data_of(html)["result"]["title"], "</script><!--");
}

TEST_F(Page, takes_in_no_file_from_elsewhere) {
  write_file_atomically(folder_ / "secret.svg", "secret");
  make_folder(folder_ / "run");
  write_file_atomically(folder_ / "run" / "notes.txt", "secret");
  const std::vector<std::string> paths{"../secret.svg", "%2e%2e/secret.svg", "notes.txt",
                                       "absent.svg", folder_ / "secret.svg"};
  for (const std::string& path : paths) {
    const std::string page = html_page({"![a](" + path + ")\n", folder_ / "run"});
    EXPECT_FALSE(has(page, "<img")) << path;
    EXPECT_TRUE(has(page, "<em>a (")) << path;
  }
}

TEST_F(Page, leads_to_the_pages_of_other_reports_where_they_were_made) {
  make_folder(folder_ / "a b");
  write_file_atomically(folder_ / "a b" / "report.html", "");
  const std::string page = html_page({"[x](a%20b/report.md) [y](c/report.md)\n", folder_});
  EXPECT_TRUE(has(page, "<a href=\"a%20b/report.html\">x</a>"));
  EXPECT_TRUE(has(page, "<a href=\"c/report.md\">y</a>"));
}

TEST_F(Page, leaves_out_data_that_are_no_json) {
  write_file_atomically(folder_ / "report.md", "# a\n");
  write_file_atomically(folder_ / "result.json", "{\"cut off\": ");
  EXPECT_FALSE(data_of(read_file(write_html_beside(folder_ / "report.md"))).contains("result"));
}

TEST_F(Page, refuses_a_report_that_is_not_there) {
  EXPECT_THROW((void)write_html_beside(folder_ / "report.md"), Error);
}

// The time is for people, because the machine may be busy; 2 s are allowed.
TEST_F(Page, prints_how_long_the_reports_and_pages_of_twenty_results_take) {
  const fs::path run = example_with_profile();
  make_folder(folder_ / "suite");
  for (int i = 0; i < 20; ++i) {
    fs::copy(run, folder_ / "suite" / std::to_string(i), fs::copy_options::recursive);
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<fs::path> reports = rewrite_report(folder_ / "suite");
  const auto rendered = std::chrono::steady_clock::now();
  for (const fs::path& report : reports) (void)write_html_beside(report, {"profile"});
  const std::chrono::duration<double> reports_s = rendered - begin;
  const std::chrono::duration<double> pages_s = std::chrono::steady_clock::now() - rendered;
  std::printf("20 results: reports and plots %.2f s, pages %.2f s\n", reports_s.count(),
              pages_s.count());
  EXPECT_EQ(reports.size(), 20U);
}

}  // namespace
}  // namespace noisemark::reports
