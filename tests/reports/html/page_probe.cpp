// Writes pages for browser_test.py: page_probe EXAMPLE OUT. EXAMPLE is reports/example.
#include <cstdio>
#include <filesystem>
#include <string>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/compare/compare.h"
#include "reports/history/history.h"
#include "reports/html/page.h"
#include "reports/predict/prediction.h"
#include "reports/profile/profile.h"
#include "reports/render/plot.h"
#include "tests/reports/compare/runs.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

/// A step of 8 ms and 2 ms (or, under another mode, 3 ms) per image.
PredictedVariant variant(const std::string& name, double per_image_s, int64_t bytes) {
  PredictedVariant made{name, {}, {}};
  for (const int64_t batch : {8, 16, 32, 64}) {
    const double step_s = 0.008 + per_image_s * static_cast<double>(batch);
    BatchPoint point{batch,
                     step_s,
                     {0.99 * step_s, 1.01 * step_s},
                     (int64_t{50} << 20) + bytes * batch,
                     "forward, aten::mul",
                     {}};
    (batch == 64 ? made.held_out : made.points).push_back(point);
  }
  return made;
}

void write_prediction(const fs::path& folder) {
  make_folder(folder);
  const PredictionPage page =
      predict("gmm16@cpu", {variant("none", 0.002, 4 << 20), variant("echo", 0.003, 1 << 20)}, {});
  write_file_atomically(folder / "predict.md", page.text);
  write_file_atomically(folder / "predict.json", page.json);
  (void)write_html_beside(folder / "predict.md");
}

/// Draws nothing: a page needs the data and the script, and the picture itself is empty.
void write_plot(const fs::path& folder, const PlotSource& source) {
  make_folder(folder / "plots");
  const std::string file = folder / "plots" / source.name;
  write_file_atomically(file + ".dat", source.data);
  write_file_atomically(file + ".gp", source.script);
  write_file_atomically(file + ".svg",
                        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 960 400'/>");
}

/// A product and an addition under peaks of 100 GFLOP/s and of 10 and 100 GB/s.
Roofline roofline() {
  Roofline made;
  made.products = {{"float32", 2, 100e9, ""}};
  made.memory = {{2, 1'000'000, 100e9}, {2, 256'000'000, 10e9}};
  made.operators = {{"aten::addmm", "[8, 8]", "float32", 1, 0.06, 3e9, 1e7, 0.03, true},
                    {"aten::add", "[9] <b>", "float32", 1, 0.02, 2.5e7, 1e8, 0.01, false}};
  return made;
}

/// Two instants of a step, and a third between them, at which nothing ran.
void write_profile(const fs::path& folder) {
  MemoryTimeline timeline;
  timeline.owners = {"weights", "activations"};
  timeline.points = {
      {{0, {100 << 20, 0}}, {"", "", "between phases"}},
      {{0.001, {100 << 20, 50 << 20}}, {"aten::conv2d > aten::empty", "mid.conv", "forward"}},
      {{0.002, {100 << 20, 0}}, {"MulBackward0 > aten::mul", "up.0", "backward"}}};
  make_folder(folder);
  write_file_atomically(folder / "memory_timeline.json", memory_timeline_json(timeline));
  write_plot(folder, memory_plot(section_of(timeline)));
  write_plot(folder, roofline_plot(roofline()).value());
  write_file_atomically(folder / "profile.md",
                        "# Profile\n\n![Memory](plots/memory.svg)\n\n"
                        "![Roofline](plots/roofline.svg)\n");
  (void)write_html_beside(folder / "profile.md");
}

/// A page with every kind of plot that this project draws; the pictures themselves are empty.
void write_plots_of_all_kinds(const fs::path& folder) {
  Result result = test::full_result();
  std::vector<PlotSource> plots = plot_sources(result);
  result.samples.step_s.assign(3000, 0.1);  // too many to draw each
  result.samples.loss.assign(3000, 0.5);
  for (PlotSource& plot : plot_sources(result)) {
    plot.name += "_of_many";
    plots.push_back(plot);
  }
  plots.push_back(pareto_plot({{100 << 20, 0, false}, {50 << 20, 0.01, true}}, 60 << 20, "peak"));
  std::vector<double> rates = test::rates_around(16, 12);
  for (const double rate : test::rates_around(14, 12)) rates.push_back(rate);
  for (PlotSource& plot : history_plots(history_of(test::side("a", rates).runs))) {
    plots.push_back(plot);
  }
  std::string text = "# Plots\n";
  for (const PlotSource& plot : plots) {
    write_plot(folder, plot);
    text += "\n" + picture(plot.name, "plots/" + plot.name + ".svg") + "\n";
  }
  write_file_atomically(folder / "plots.md", text);
  (void)write_html_beside(folder / "plots.md");
}

void write_comparison(const fs::path& file) {
  Side base{"base", {{"base/run", test::full_result()}}};
  Side candidate{"new", {{"new/run", test::full_result()}}};
  Result& changed = candidate.runs.front().result;
  changed.run_id = "fedcba9876543210";
  for (double& step_s : changed.samples.step_s) step_s *= 1.5;
  changed.memory.peak_bytes += 12345;
  changed.memory.peak_operator = "</td><script>hacked = 1</script>";
  write_file_atomically(file,
                        html_page(page_of_sides(compare(base, candidate, {}), base, candidate)));
}

/// Texts of others in every place where a page has texts.
void write_hostile(const fs::path& file) {
  const std::string script = "</script><script>hacked = 1</script><img src=x onerror='hacked = 1'>";
  HtmlPage page{"# " + plain(script) + "\n\n" + script + "\n\n" + code_block(script, "sh") +
                "\n<script>hacked = 1</script>\n\n[a](javascript:hacked=1) " +
                link(script, script) + picture(script, script) + "\n"};
  page.data.emplace_back("result", "{\"title\": \"" + script + "\"}");
  write_file_atomically(file, html_page(page));
}

int run(const fs::path& example, const fs::path& out) {
  fs::copy(example, out / "run", fs::copy_options::recursive);
  fs::remove_all(out / "run" / "profile");
  (void)write_html_beside(out / "run" / "report.md");
  write_prediction(out / "prediction");
  write_profile(out / "profile");
  const fs::path whole = out / "whole";
  fs::copy(out / "run", whole, fs::copy_options::recursive);
  write_profile(whole / "profile");
  write_prediction(whole / "predict");
  (void)write_html_beside(whole / "report.md", {"profile", "predict"});
  write_plots_of_all_kinds(out / "plots");
  write_comparison(out / "compare.html");
  write_hostile(out / "hostile.html");
  return 0;
}

}  // namespace
}  // namespace noisemark::reports

int main(int argc, char** argv) {
  try {
    return argc == 3 ? noisemark::reports::run(argv[1], argv[2]) : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "page_probe: %s\n", error.what());
    return 1;
  }
}
