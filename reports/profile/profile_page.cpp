#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/profile/limit.h"
#include "reports/profile/profile.h"

namespace noisemark::reports {
namespace {

constexpr size_t kShown = 20;
constexpr size_t kWidestName = 36;  // leaves room for eight other columns

/// The columns that a page has: those of a device only where one was profiled.
class Page {
 public:
  Page(const Profile& profile, const Plots& plots) : profile_(profile), plots_(plots) {
    for (const LayerTimes& row : profile.layers) {
      host_ns_ += row.host_ns();
      device_ns_ += row.device_ns();
    }
  }

  [[nodiscard]] std::string text() const {
    return finished_page(fmt::format("# Profile of {}\n\n{}{}{}{}\n{}{}{}{}{}{}",
                                     plain(profile_.benchmark), headline(),
                                     roofline_section(profile_.roofline, profile_.cost.plain_s,
                                                      plot_line(plots_, "roofline")) +
                                         proposals_section(profile_),
                                     step_model_section(profile_.roofline),
                                     characterization_section(profile_.characterization), memory(),
                                     operators(), joined(), layers("Blocks", profile_.blocks),
                                     layers("Layers", profile_.layers), kDefinitions) +
                         std::string(kGlossaryLine));
  }

 private:
  static constexpr std::string_view kDefinitions =
      "\nTimes are of one step: means of the profiled ones. The time of an operator is that from "
      "its begin to its end; self time leaves out the events within it. Time on the device is that "
      "of kernels, copies and fills, and belongs to the operator around their launch. Memory is "
      "what was taken less what was given back. The table of operators is that of PyTorch's "
      "key_averages(). An operator of the forward pass and its gradient are joined by the number "
      "that autograd gives both. A layer has what its forward pass did and what its gradients "
      "took; rows in parentheses have what no layer did in that phase. Their time stands under "
      "forward, except that of the phase backward.\n";

  [[nodiscard]] bool has_device() const { return device_ns_ > 0; }
  [[nodiscard]] std::string ms(int64_t ns) const {
    return format_ms(static_cast<double>(ns) / kNsPerS / static_cast<double>(profile_.steps));
  }
  [[nodiscard]] std::string mib(int64_t bytes) const { return format_mib(bytes / profile_.steps); }
  [[nodiscard]] std::string calls(int64_t calls) const {
    return format_count(calls / profile_.steps);
  }
  [[nodiscard]] std::string share(int64_t host_ns, int64_t device_ns) const {
    const int64_t whole = has_device() ? device_ns_ : host_ns_;
    const int64_t part = has_device() ? device_ns : host_ns;
    return whole == 0 ? "" : format_percent(static_cast<double>(part) / static_cast<double>(whole));
  }

  /// Says what is asked of the profiler, and what it means where it costs more.
  static std::string asked(const ProfilerCost& cost) {
    constexpr double kMostRatio = 1.10;
    return cost.ratio > kMostRatio
               ? fmt::format(
                     ", more than the {:.2f} that is asked of the profiler: small operators "
                     "look slower than they are",
                     kMostRatio)
               : fmt::format(" (at most {:.2f} is asked of the profiler)", kMostRatio);
  }

  [[nodiscard]] std::string headline() const {
    const ProfilerCost& cost = profile_.cost;
    const std::string limit = limit_words(profile_);
    std::string text = limit.empty() ? "" : fmt::format("**What limits it:** {}.\n\n", limit);
    text += fmt::format(
        "A median step takes {} without the profiler and {} with it. In {} of steps in turns the "
        "median ratio is **{:.3f}**{}. The profile is of {} of batch {} under mode `{}`, baseline "
        "`{}` and {} on {} with {}{}{}.\n",
        format_seconds(cost.plain_s), format_seconds(cost.profiled_s),
        format_counted(cost.pairs, "pair"), cost.ratio, asked(cost),
        format_counted(profile_.steps, "step"), format_count(profile_.batch), profile_.mode,
        profile_.baseline, profile_.precision, profile_.device,
        format_counted(profile_.threads, "thread"),
        profile_.shapes ? ", with the shapes of inputs" : "",
        profile_.custom ? "; the definition was changed" : "");
    text += fmt::format(
        "\nThe trace is {}, {} and {} unpacked. Perfetto (ui.perfetto.dev) opens "
        "it, and so does `noisemark trace`. ",
        link(profile_.trace, profile_.trace), format_bytes(profile_.trace_bytes),
        format_bytes(profile_.trace_plain_bytes));
    text +=
        profile_.counters_missing.empty()
            ? fmt::format("Memory by owner is a counter in it, at {} instants.\n",
                          format_count(profile_.counters))
            : fmt::format("Memory by owner is not in it: {}.\n", plain(profile_.counters_missing));
    return text + left_out_line(plots_);
  }

  [[nodiscard]] std::string memory() const {
    const std::string plot = plot_line(plots_, kMemoryPlot);
    return plot.empty() ? "" : "\n## Memory by owner\n" + plot;
  }

  /// The largest rows by share; the rest only in profile.json.
  template <class Row>
  [[nodiscard]] std::string section(std::string_view title, const std::vector<Row>& rows,
                                    MarkdownTable table) const {
    if (rows.empty()) return "";
    const std::string rest =
        rows.size() > kShown
            ? fmt::format("\n{} more rows are in profile.json.\n", rows.size() - kShown)
            : "";
    return fmt::format("\n## {}\n\n{}{}", title, table.text(), rest);
  }

  [[nodiscard]] std::string operators() const {
    MarkdownTable table({{"operator"},
                         {"shapes of inputs", Align::kLeft, Fold::kIfEmpty},
                         {"kind", Align::kLeft, Fold::kIfAlike},
                         {"calls", Align::kRight},
                         {"share of self", Align::kRight},
                         {"self, device (ms)", Align::kRight, Fold::kIfEmpty},
                         {"device (ms)", Align::kRight, Fold::kIfEmpty},
                         {"self (ms)", Align::kRight},
                         {"total (ms)", Align::kRight},
                         {"self memory (MiB)", Align::kRight},
                         {"memory (MiB)", Align::kRight}});
    for (size_t i = 0; i < std::min(kShown, profile_.operators.size()); ++i) {
      const OperatorTimes& row = profile_.operators[i];
      const bool device = has_device();
      table.add_row({shortened(row.name, kWidestName), row.shapes, row.kind, calls(row.calls),
                     share(row.self_host_ns, row.self_device_ns),
                     device ? ms(row.self_device_ns) : "", device ? ms(row.device_ns) : "",
                     ms(row.self_host_ns), ms(row.host_ns),
                     mib(device ? row.self_device_bytes : row.self_host_bytes),
                     mib(device ? row.device_bytes : row.host_bytes)});
    }
    return section("Operators", profile_.operators, table);
  }

  [[nodiscard]] std::string joined() const {
    MarkdownTable table({{"operator"},
                         {"its gradient"},
                         {"calls", Align::kRight},
                         {"forward (ms)", Align::kRight},
                         {"backward (ms)", Align::kRight},
                         {"backward to forward", Align::kRight}});
    for (size_t i = 0; i < std::min(kShown, profile_.joined.size()); ++i) {
      const JoinedTimes& row = profile_.joined[i];
      const int64_t forward = has_device() ? row.forward_device_ns : row.forward_host_ns;
      const int64_t backward = has_device() ? row.backward_device_ns : row.backward_host_ns;
      table.add_row({shortened(row.forward, kWidestName), shortened(row.backward, kWidestName),
                     calls(row.calls), ms(forward), ms(backward),
                     forward == 0 ? ""
                                  : fmt::format("{:.2f}", static_cast<double>(backward) /
                                                              static_cast<double>(forward))});
    }
    return section("Forward and backward", profile_.joined, table);
  }

  [[nodiscard]] std::string layers(std::string_view title,
                                   const std::vector<LayerTimes>& rows) const {
    MarkdownTable table({{title == "Layers" ? "layer" : "block"},
                         {"share", Align::kRight},
                         {"forward (ms)", Align::kRight},
                         {"backward (ms)", Align::kRight},
                         {"calls", Align::kRight}});
    for (size_t i = 0; i < std::min(kShown, rows.size()); ++i) {
      const LayerTimes& row = rows[i];
      const bool device = has_device();
      table.add_row({row.name, share(row.host_ns(), row.device_ns()),
                     ms(device ? row.forward_device_ns : row.forward_host_ns),
                     ms(device ? row.backward_device_ns : row.backward_host_ns), calls(row.calls)});
    }
    return section(title, rows, table);
  }

  const Profile& profile_;
  const Plots& plots_;
  int64_t host_ns_ = 0;
  int64_t device_ns_ = 0;
};

}  // namespace

std::string profile_markdown(const Profile& profile, const Plots& plots) {
  return Page(profile, plots).text();
}

}  // namespace noisemark::reports
