#include "reports/render/plot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <system_error>

#include "reports/base/file.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/statistics.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

class [[nodiscard]] SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// Runs gnuplot in `folder` without the user's settings. Returns why it failed, empty when it did
// not.
std::string run_gnuplot(const fs::path& folder, const std::string& script) {
  SpawnActions actions;
  posix_spawn_file_actions_addchdir_np(actions.get(), folder.c_str());
  for (const int stream : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(actions.get(), stream, "/dev/null", O_RDWR, 0);
  }
  std::string program = "gnuplot";
  std::string defaults = "-d";
  std::string file = script;
  std::array<char*, 4> argv{program.data(), defaults.data(), file.data(), nullptr};
  std::string locale = "LC_ALL=C.UTF-8";  // numbers and letters must not depend on the user's
  std::array<char*, 2> environment{locale.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, program.c_str(), actions.get(), nullptr, argv.data(),
                                 environment.data());
  if (error == ENOENT) return "gnuplot is not installed";
  if (error != 0) return "gnuplot cannot be started: " + std::generic_category().message(error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return "gnuplot was lost: " + std::generic_category().message(errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return "gnuplot failed (run `gnuplot -d " + script + "` in plots/ to see why)";
}

// gnuplot ends with 0 also when the disk did not take its last bytes.
bool is_whole_picture(const fs::path& path) {
  if (!fs::is_regular_file(path)) return false;
  const std::string text = read_file(path);
  return text.substr(0, text.find_last_not_of("\r\n") + 1).ends_with("</svg>");
}

bool holds(const fs::path& path, const std::string& text) {
  return fs::is_regular_file(path) && read_file(path) == text;
}

}  // namespace

Plots write_plots(const fs::path& folder, const std::vector<PlotSource>& sources) {
  Plots plots;
  const fs::path place = folder / "plots";
  for (const PlotSource& source : sources) {
    make_folder(place);
    const fs::path data = place / (source.name + ".dat");
    const fs::path script = place / (source.name + ".gp");
    const fs::path picture = place / (source.name + ".svg");
    const bool same = holds(data, source.data) && holds(script, source.script);
    if (!same || !is_whole_picture(picture)) {
      fs::remove(picture);  // first, so that no picture ever stands beside the source of another
      write_file_atomically(data, source.data);
      write_file_atomically(script, source.script);
      std::string failure = run_gnuplot(place, script.filename().string());
      if (failure.empty() && !is_whole_picture(picture)) {
        failure = "gnuplot left no whole picture (is the disk full?)";
      }
      if (!failure.empty()) {
        fs::remove(picture);
        plots.left_out = failure;
        continue;
      }
    }
    plots.links.push_back({source.title, plot_file(source.name)});
  }
  return plots;
}

Plots write_plots(const fs::path& folder, const Result& result) {
  return write_plots(folder, plot_sources(result));
}

namespace {

constexpr double kMilli = 1e3;
constexpr double kMebi = 1024.0 * 1024.0;
constexpr size_t kMostPoints = 1000;
constexpr double kLogScaleFrom = 8;  // largest / smallest value

// Okabe and Ito's and Tol's muted colours: told apart with any common colour blindness, and by
// lightness in print. Memory owners keep theirs in every report.
constexpr std::string_view kBlue = "#0072B2";
constexpr std::string_view kOrange = "#E69F00";
constexpr std::string_view kSky = "#9CCBE8";
constexpr std::string_view kGrey = "#888888";
struct OwnerColour {
  std::string_view owner;
  std::string_view colour;
};
constexpr std::array kOwnerColours{
    OwnerColour{"weights", "#332288"},     OwnerColour{"optimizer", "#6699CC"},
    OwnerColour{"ema", "#88CCEE"},         OwnerColour{"gradients", "#117733"},
    OwnerColour{"input", "#DDCC77"},       OwnerColour{"autocast_cache", "#999933"},
    OwnerColour{"encoded", "#CC6677"},     OwnerColour{"rematerialized", "#882255"},
    OwnerColour{"activations", "#E69F00"}, OwnerColour{"communication", "#44AA99"},
    OwnerColour{"workspace", "#AA4499"},   OwnerColour{"temporary", "#BBBBBB"},
    OwnerColour{"unattributed", "#000000"}};

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / kMebi;
}

std::string_view colour_of(std::string_view owner) {
  for (const OwnerColour& known : kOwnerColours) {
    if (known.owner == owner) return known.colour;
  }
  return kGrey;
}

struct Bin {
  double centre = 0;
  double low = 0;
  double middle = 0;
  double high = 0;
};

// Returns at most kMostPoints bins of equal width: the range and the median of each that has a
// number.
std::vector<Bin> binned(const std::vector<double>& values) {
  const size_t width = (values.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Bin> bins;
  for (size_t at = 0; at < values.size(); at += width) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t count = std::min(width, values.size() - at);
    std::vector<double> part(begin, begin + static_cast<std::ptrdiff_t>(count));
    std::erase_if(part, [](double value) { return std::isnan(value); });
    if (part.empty()) continue;
    const auto [low, high] = std::minmax_element(part.begin(), part.end());
    bins.push_back(
        {static_cast<double>(at) + static_cast<double>(count - 1) / 2, *low, median(part), *high});
  }
  return bins;
}

std::string bins_text(const std::vector<Bin>& bins, double scale) {
  std::string text;
  for (const Bin& bin : bins) {
    fmt::format_to(std::back_inserter(text), "{:.6g} {:.6g} {:.6g} {:.6g}\n", bin.centre,
                   bin.low * scale, bin.middle * scale, bin.high * scale);
  }
  return text;
}

// Every step, or the range and the median of bins when there are too many to draw.
std::vector<std::string> step_curves(size_t steps) {
  if (steps <= kMostPoints) {
    return {fmt::format(
        "'step_time.dat' using 1:3 with linespoints linewidth 1 pointtype 7 pointsize 0.35 "
        "linecolor rgb '{}' title 'each step'",
        kBlue)};
  }
  const size_t width = (steps + kMostPoints - 1) / kMostPoints;
  return {fmt::format("'step_time.dat' using 1:2:4 with filledcurves fillcolor rgb '{}' "
                      "fillstyle solid noborder title 'range of {} steps'",
                      kSky, width),
          fmt::format("'step_time.dat' using 1:3 with lines linewidth 1.5 linecolor rgb '{}' "
                      "title 'their median'",
                      kBlue)};
}

PlotSource step_time(const Result& result) {
  const auto& steps = result.samples.step_s;
  const size_t dropped =
      std::min(static_cast<size_t>(result.protocol.warmup_steps), steps.size() - 1);
  const std::vector<double> steady(steps.begin() + static_cast<std::ptrdiff_t>(dropped),
                                   steps.end());
  const double begin = static_cast<double>(dropped) - 0.5;
  const double end = static_cast<double>(steps.size()) - 0.5;
  const double middle_ms = kMilli * median(steady);
  PlotSource plot{kStepTimePlot, "Step time", "# step low_ms median_ms high_ms\n",
                  plot_head(kStepTimePlot)};
  plot.data += bins_text(binned(steps), kMilli);
  plot.script += fmt::format(
      "set xlabel 'optimizer step'\nset ylabel 'step time (ms)'\n"
      "set xrange [-0.5:{}]\nset yrange [0:*]\n",
      end);
  std::vector<std::string> curves = step_curves(steps.size());
  if (dropped > 0) {
    plot.script += fmt::format(
        "set object 1 rectangle from first -0.5, graph 0 to first {}, graph 1 "
        "fillcolor rgb '#e8e8e8' fillstyle solid noborder behind\n",
        begin);
    curves.emplace_back(
        "NaN with filledcurves fillcolor rgb '#e8e8e8' fillstyle solid noborder "
        "title 'warm-up, left out'");
  }
  curves.push_back(
      fmt::format("[{}:{}] {:.6g} with lines linewidth 2 dashtype 2 linecolor rgb '{}' title "
                  "'median {:.2f} ms'",
                  begin, end, middle_ms, kOrange, middle_ms));
  plot.script += fmt::format("plot {}\n", fmt::join(curves, ", \\\n     "));
  return plot;
}

// A logarithmic axis when the values span enough of it to carry labelled ticks.
std::string loss_axis(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low <= 0 || *high / *low <= kLogScaleFrom) return "set yrange [0:*]\n";
  constexpr double kMargin = 1.25;
  return fmt::format("set logscale y\nset yrange [{:.6g}:{:.6g}]\n{}", *low / kMargin,
                     *high * kMargin, log_ticks('y', *low / kMargin, *high * kMargin));
}

double optimal_loss(const Evaluation& evaluation) {
  return evaluation.optimal_per_timestep.empty() ? 0 : mean(evaluation.optimal_per_timestep);
}

PlotSource loss(const Result& result) {
  const std::vector<Bin> training = binned(result.samples.loss);
  const auto& evaluations = result.quality.evaluations;
  std::vector<double> all = result.samples.loss;
  std::erase_if(all, [](double value) { return std::isnan(value); });
  PlotSource plot{kLossPlot, "Training and validation loss", "", plot_head(kLossPlot)};
  std::vector<std::string> curves;
  if (!training.empty()) {
    plot.data += "# training: step low median high\n" + bins_text(training, 1);
    curves.push_back(fmt::format(
        "'loss.dat' index 0 using ($1+1):3 with lines linewidth 1 linecolor rgb '{}' title "
        "'training'",
        kSky));
  }
  if (!evaluations.empty()) {
    plot.data +=
        (training.empty() ? "" : "\n\n") + std::string("# validation: step loss optimal\n");
    for (const Evaluation& one : evaluations) {
      all.push_back(one.loss);
      plot.data += fmt::format("{} {:.6g} {:.6g}\n", one.step, one.loss, optimal_loss(one));
    }
    const int index = training.empty() ? 0 : 1;
    curves.push_back(fmt::format(
        "'loss.dat' index {} using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.6 "
        "linecolor rgb '{}' title 'validation'",
        index, kBlue));
    if (optimal_loss(evaluations.back()) > 0) {
      all.push_back(optimal_loss(evaluations.back()));
      curves.push_back(fmt::format(
          "'loss.dat' index {} using 1:3 with lines linewidth 1.5 dashtype 2 linecolor rgb "
          "'#009E73' title 'Bayes-optimal'",
          index));
    }
  }
  if (result.quality.target_loss) {
    all.push_back(*result.quality.target_loss);
    curves.push_back(
        fmt::format("{:.6g} with lines linewidth 1.5 dashtype 3 linecolor rgb '{}' title 'target'",
                    *result.quality.target_loss, kOrange));
  }
  plot.script +=
      fmt::format("set xlabel 'optimizer steps done'\nset ylabel 'loss'\nset xrange [0:{}]\n{}",
                  std::max<int64_t>(1, result.protocol.steps), loss_axis(all));
  plot.script += fmt::format("plot {}\n", fmt::join(curves, ", \\\n     "));
  return plot;
}

// The rows of the stack that are never empty: the categories, then the unattributed bytes.
std::vector<size_t> drawn_owners(const MemorySection& memory) {
  std::vector<size_t> drawn;
  for (size_t owner = 0; owner <= memory.categories.size(); ++owner) {
    const bool any =
        std::any_of(memory.timeline.begin(), memory.timeline.end(), [&](const MemoryPoint& point) {
          return owner < point.by_category.size() && point.by_category[owner] != 0;
        });
    if (any) drawn.push_back(owner);
  }
  return drawn;
}

}  // namespace

std::string log_ticks(char axis, double low, double high) {
  constexpr double kManyDecades = 3;
  constexpr double kMostTicks = 8;
  const double decades = std::log10(high / low);
  const int every = std::max(1, static_cast<int>(std::ceil(decades / kMostTicks)));
  const std::vector<double> leads =
      decades < kManyDecades ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  std::vector<std::string> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(low))); std::pow(10, power) <= high;
       power += every) {
    for (const double lead : leads) {
      const double tick = lead * std::pow(10, power);
      if (low <= tick && tick <= high) ticks.push_back(fmt::format("{:.6g}", tick));
    }
  }
  return fmt::format("set {}tics ({})\n", axis, fmt::join(ticks, ", "));
}

std::string plot_file(const std::string& name) {
  return "plots/" + name + ".svg";
}

std::string plot_line(const Plots& plots, const std::string& name) {
  const std::string file = plot_file(name);
  for (const PlotLink& link : plots.links) {
    if (link.file == file) return fmt::format("\n{}\n", picture(link.title, link.file));
  }
  return "";
}

std::string left_out_line(const Plots& plots) {
  return plots.left_out.empty() ? "" : fmt::format("{}{}.\n", kPlotsLeftOut, plain(plots.left_out));
}

PlotSource memory_plot(const MemorySection& memory) {
  const std::vector<size_t> drawn = drawn_owners(memory);
  const auto name_of = [&](size_t owner) {
    return owner < memory.categories.size() ? memory.categories[owner] : "unattributed";
  };
  PlotSource plot{kMemoryPlot, "Memory by owner over one step", "# time_ms",
                  plot_head(kMemoryPlot)};
  for (const size_t owner : drawn) plot.data += fmt::format(" {}", one_line(name_of(owner)));
  plot.data += " (stacked, MiB)\n";
  for (const MemoryPoint& point : memory.timeline) {
    plot.data += fmt::format("{:.6g}", kMilli * point.time_s);
    int64_t stacked_bytes = 0;
    for (const size_t owner : drawn) {
      if (owner < point.by_category.size()) stacked_bytes += point.by_category[owner];
      plot.data += fmt::format(" {:.4f}", mib(stacked_bytes));
    }
    plot.data += '\n';
  }
  std::vector<std::string> curves;
  // The order is from the top of the stack down, so that the key reads like the picture.
  for (size_t i = drawn.size(); i-- > 0;) {
    const std::string columns = i == 0 ? "1:(0):2" : fmt::format("1:{}:{}", i + 1, i + 2);
    curves.push_back(fmt::format(
        "'memory.dat' using {} with filledcurves fillcolor rgb '{}' fillstyle solid noborder "
        "title {}",
        columns, colour_of(name_of(drawn[i])), gnuplot_text(name_of(drawn[i]))));
  }
  curves.push_back(fmt::format(
      "{:.4f} with lines linewidth 1.5 dashtype 2 linecolor rgb '#D55E00' title 'peak {}'",
      mib(memory.peak_bytes), format_bytes(memory.peak_bytes)));
  plot.script += fmt::format(
      "set xlabel 'time since the step began (ms)'\nset ylabel 'live bytes (MiB)'\n"
      "set xrange [{:.6g}:{:.6g}]\nset yrange [0:{:.6g}]\nplot {}\n",
      kMilli * memory.timeline.front().time_s, kMilli * memory.timeline.back().time_s,
      1.08 * mib(memory.peak_bytes), fmt::join(curves, ", \\\n     "));
  return plot;
}

std::string gnuplot_text(std::string_view text) {
  std::string quoted = one_line(text);
  for (size_t i = quoted.find('\''); i != std::string::npos; i = quoted.find('\'', i + 2)) {
    quoted.insert(i, 1, '\'');
  }
  return fmt::format("'{}'", quoted);
}

std::string plot_head(const std::string& name) {
  return fmt::format(
      "# Drawn by: gnuplot -d {0}.gp\n"
      "set encoding utf8\n"
      "set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' "
      "background '#ffffff' name '{0}'\n"
      "set output '{0}.svg'\n"
      "set border 3 linecolor rgb '#444444'\n"
      "set tics nomirror out textcolor rgb '#222222'\n"
      "set grid ytics linecolor rgb '#dddddd' linewidth 1\n"
      "set key outside right top Left reverse samplen 2 spacing 1.2\n",
      name);
}

std::vector<PlotSource> plot_sources(const Result& result) {
  std::vector<PlotSource> plots;
  if (!result.samples.step_s.empty()) plots.push_back(step_time(result));
  const auto& losses = result.samples.loss;
  const bool any_loss =
      std::any_of(losses.begin(), losses.end(), [](double loss) { return !std::isnan(loss); });
  if (any_loss || !result.quality.evaluations.empty()) {
    plots.push_back(loss(result));
  }
  if (result.memory.timeline.size() > 1 && result.memory.peak_bytes > 0) {
    plots.push_back(memory_plot(result.memory));
  }
  return plots;
}

PlotSource pareto_plot(const std::vector<ParetoPoint>& points, int64_t budget_bytes,
                       const std::string& bytes_label) {
  PlotSource plot{"pareto", "Bytes against time", "# MiB added_ms\n", plot_head("pareto")};
  std::string chosen;
  int64_t most_bytes = 0;
  for (const ParetoPoint& point : points) {
    const std::string row =
        fmt::format("{:.4f} {:.6g}\n", mib(point.bytes), kMilli * point.added_s);
    plot.data += row;
    if (point.chosen) chosen += row;
    most_bytes = std::max(most_bytes, point.bytes);
  }
  plot.data += "\n\n# chosen\n" + chosen;
  plot.script += fmt::format(
      "set xlabel {}\nset ylabel 'added to a step (ms)'\n"
      "set xrange [0:{:.6g}]\nset yrange [0:*]\n",
      gnuplot_text(bytes_label + " (MiB)"), 1.05 * mib(most_bytes));
  if (budget_bytes <= most_bytes) {
    plot.script += fmt::format(
        "set arrow 1 from first {0:.4f}, graph 0 to first {0:.4f}, graph 1 nohead linewidth 1.5 "
        "dashtype 2 linecolor rgb '#D55E00'\n",
        mib(budget_bytes));
  }
  plot.script +=
      "plot 'pareto.dat' index 0 using 1:2 with linespoints linewidth 1 pointtype 7 pointsize 0.5 "
      "linecolor rgb '#0072B2' title 'plans'";
  if (!chosen.empty()) {
    plot.script +=
        ", \\\n     'pareto.dat' index 1 using 1:2 with points pointtype 6 pointsize 1.2 "
        "linewidth 2 linecolor rgb '#E69F00' title 'the budget gets'";
  }
  if (budget_bytes <= most_bytes) {
    plot.script +=
        ", \\\n     NaN with lines linewidth 1.5 dashtype 2 linecolor rgb '#D55E00' title 'budget'";
  }
  plot.script += '\n';
  return plot;
}

}  // namespace noisemark::reports
