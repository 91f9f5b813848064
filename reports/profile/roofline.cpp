#include "reports/profile/roofline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "reports/base/error.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/profile/characterization.h"
#include "reports/profile/profile.h"

namespace noisemark::reports {
namespace {

constexpr size_t kRowsToWin = 10;

using Calls = std::vector<const ProfiledEvent*>;

/// The operators' calls of a step, by thread as in StepWork.
std::vector<Calls> calls_within(const Recording& recording, const ProfiledEvent& step) {
  Calls all;
  for (const ProfiledEvent& event : recording.events) {
    if (event.is_operator_within(step)) all.push_back(&event);
  }
  std::stable_sort(all.begin(), all.end(), [](const ProfiledEvent* a, const ProfiledEvent* b) {
    return std::tie(a->start_ns, a->id) < std::tie(b->start_ns, b->id);
  });
  std::vector<Calls> threads;
  std::unordered_map<uint64_t, size_t> place;
  for (const ProfiledEvent* event : all) {
    const auto [found, is_new] = place.try_emplace(event->thread, threads.size());
    if (is_new) threads.emplace_back();
    threads[found->second].push_back(event);
  }
  return threads;
}

/// Returns the time of kernels, copies and fills by the operator around their launch.
std::unordered_map<uint64_t, int64_t> device_times(const Recording& recording) {
  std::unordered_map<uint64_t, int64_t> times;
  for (const ProfiledEvent& event : recording.events) {
    if (event.kind == ProfiledKind::kWork) times[event.launched_by] += event.duration_ns();
  }
  return times;
}

/// The time of the call at `first` and of all within it.
int64_t device_ns(const Calls& calls, size_t first,
                  const std::unordered_map<uint64_t, int64_t>& times) {
  int64_t sum_ns = 0;
  for (size_t i = first; i < calls.size(); ++i) {
    if (i > first && calls[i]->start_ns >= calls[first]->end_ns) break;
    const auto found = times.find(calls[i]->id);
    if (found != times.end()) sum_ns += found->second;
  }
  return sum_ns;
}

void require_same_threads(const ProfiledEvent& step, size_t found, size_t known) {
  if (found == known) return;
  throw Error(ExitCode::kInternal,
              fmt::format("{} calls operators on {} threads and the step whose work is known on {}",
                          step.name, found, known));
}

using WorkByName = std::map<std::string_view, std::vector<const OperatorWork*>>;

/// The work of a thread's operators by name, of those that are called as often in this step: a
/// step may differ in a few calls, such as those that scale a gradient only where it is large.
WorkByName comparable(const Calls& calls, const std::vector<OperatorWork>& work,
                      std::set<std::string>& left_out) {
  WorkByName by_name;
  for (const OperatorWork& one : work) by_name[one.name].push_back(&one);
  std::map<std::string_view, size_t> called;
  for (const ProfiledEvent* call : calls) called[call->name] += 1;
  for (const auto& [name, count] : called) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second.size() != count) left_out.emplace(name);
  }
  std::erase_if(by_name, [&](const auto& entry) {
    const auto found = called.find(entry.first);
    const bool alike = found != called.end() && found->second == entry.second.size();
    const auto has_work = [](const OperatorWork* one) { return one->any(); };
    if (!alike && std::any_of(entry.second.begin(), entry.second.end(), has_work)) {
      left_out.emplace(entry.first);
    }
    return !alike;
  });
  return by_name;
}

class Roofs {
 public:
  Roofs(const std::vector<ProductPeak>& products, const std::vector<MemoryPeak>& memory)
      : memory_(memory) {
    for (const ProductPeak& peak : products) {
      double& best = by_type_[peak.type];
      best = std::max(best, peak.flop_per_s);
    }
    for (const MemoryPeak& peak : memory) {
      largest_footprint_ = std::max(largest_footprint_, 2 * peak.working_set_bytes);
    }
  }

  [[nodiscard]] double flop_per_s(const std::string& type) const {
    const auto found = by_type_.find(type);
    if (found != by_type_.end()) return found->second;
    const auto usual = by_type_.find("float32");
    return usual == by_type_.end() ? 0 : usual->second;
  }

  /// A footprint that is larger than any working set is as fast as the largest.
  [[nodiscard]] double bytes_per_s(int64_t footprint) const {
    double best = 0;
    for (const MemoryPeak& peak : memory_) {
      const bool is_large = 2 * peak.working_set_bytes >= std::min(footprint, largest_footprint_);
      if (is_large) best = std::max(best, peak.bytes_per_s);
    }
    return best;
  }

 private:
  std::map<std::string, double> by_type_;
  const std::vector<MemoryPeak>& memory_;
  int64_t largest_footprint_ = 0;  ///< the most that counts as one of the largest working set's
};

double at_speed(int64_t amount, double per_s) {
  return amount == 0 || per_s <= 0 ? 0 : static_cast<double>(amount) / per_s;
}

struct Sum {
  double calls = 0;
  double time_ns = 0;
  double compute_s = 0;
  double memory_s = 0;
  double roof_s = 0;
  double flop = 0;
  double bytes = 0;

  [[nodiscard]] bool compute_bound() const { return compute_s > memory_s; }
  Sum& operator+=(const Sum& other) {
    calls += other.calls;
    time_ns += other.time_ns;
    compute_s += other.compute_s;
    memory_s += other.memory_s;
    roof_s += other.roof_s;
    flop += other.flop;
    bytes += other.bytes;
    return *this;
  }
};

using Key = std::tuple<std::string, std::string, std::string>;

Sum sum_of(const OperatorWork& work, int64_t time_ns, const Roofs& roofs) {
  Sum sum;
  sum.calls = 1;
  sum.time_ns = static_cast<double>(time_ns);
  sum.compute_s = at_speed(work.flops, roofs.flop_per_s(work.type));
  sum.memory_s = at_speed(work.bytes, roofs.bytes_per_s(work.footprint));
  sum.roof_s = std::max(sum.compute_s, sum.memory_s);
  sum.flop = static_cast<double>(work.flops);
  sum.bytes = static_cast<double>(work.bytes);
  return sum;
}

/// The parts of the recorded steps together.
class Parts {
 public:
  explicit Parts(const Recording& recording) : has_device_(recording.has_device) {
    for (const ProfiledEvent& event : recording.events) {
      if (event.on_device || event.name != std::string(kPhasePrefix) + "data") continue;
      data_spans_.push_back(&event);
      data_.time_ns += static_cast<double>(event.duration_ns());
    }
  }

  void add(const ProfiledEvent& call, Sum sum) {
    const bool of_data =
        std::any_of(data_spans_.begin(), data_spans_.end(), [&](const ProfiledEvent* span) {
          return call.start_ns >= span->start_ns && call.end_ns <= span->end_ns;
        });
    if (of_data) sum.time_ns = 0;  // the span has it
    (of_data ? data_ : sum.compute_bound() ? compute_ : memory_) += sum;
  }

  [[nodiscard]] std::vector<StepPart> of_step(double step_s, double steps) const {
    std::vector<StepPart> parts{part("data", data_, steps), part("compute", compute_, steps),
                                part("memory", memory_, steps)};
    if (has_device_) {
      parts.front().roof_s = 0;
      parts.front().missing = "the speed of the host's link to the device is not measured";
    }
    double rest_s = step_s;
    for (const StepPart& one : parts) rest_s -= one.time_s;
    parts.push_back(
        {"communication", 0, 0, 0, 0,
         "the profiled process trains alone; the report of a run by ranks says what it took"});
    parts.push_back({"rest", std::max(0.0, rest_s), 0, 0, 0, "the model knows of none"});
    return parts;
  }

 private:
  static StepPart part(const char* name, const Sum& sum, double steps) {
    return {name,
            sum.time_ns / kNsPerS / steps,
            sum.roof_s / steps,
            sum.flop / steps,
            sum.bytes / steps,
            ""};
  }

  bool has_device_;
  std::vector<const ProfiledEvent*> data_spans_;
  Sum data_;
  Sum compute_;
  Sum memory_;
};

RoofRow row_of(const Key& key, const Sum& sum, double steps) {
  return {std::get<0>(key),
          std::get<1>(key),
          std::get<2>(key),
          sum.calls / steps,
          sum.time_ns / kNsPerS / steps,
          sum.flop / steps,
          sum.bytes / steps,
          sum.roof_s / steps,
          sum.compute_bound()};
}

}  // namespace

Roofline make_roofline(const Recording& recording, const StepWork& work,
                       std::vector<ProductPeak> products, std::vector<MemoryPeak> memory) {
  const Roofs roofs(products, memory);
  const auto device = device_times(recording);
  std::map<Key, Sum> sums;
  Parts parts(recording);
  std::set<std::string> left_out;
  double steps = 0;
  double step_ns = 0;
  for (const ProfiledEvent& event : recording.events) {
    if (!event.is_step()) continue;
    const std::vector<Calls> threads = calls_within(recording, event);
    require_same_threads(event, threads.size(), work.size());
    for (size_t t = 0; t < threads.size(); ++t) {
      const WorkByName by_name = comparable(threads[t], work[t], left_out);
      std::map<std::string_view, size_t> seen;
      for (size_t i = 0; i < threads[t].size(); ++i) {
        const ProfiledEvent& call = *threads[t][i];
        const auto found = by_name.find(call.name);
        if (found == by_name.end()) continue;
        const int64_t time_ns =
            recording.has_device ? device_ns(threads[t], i, device) : call.duration_ns();
        const OperatorWork& known = *found->second[seen[call.name]++];
        if (!known.any()) continue;
        const Sum sum = sum_of(known, time_ns, roofs);
        sums[{known.name, known.shapes, known.type}] += sum;
        parts.add(call, sum);
      }
    }
    steps += 1;
    step_ns += static_cast<double>(event.duration_ns());
  }
  if (steps == 0) throw Error(ExitCode::kInternal, "no step was recorded");
  Roofline roofline;
  roofline.left_out.assign(left_out.begin(), left_out.end());
  roofline.step_s = step_ns / kNsPerS / steps;
  for (const auto& [key, sum] : sums) {
    if (sum.time_ns <= 0) continue;
    roofline.operators.push_back(row_of(key, sum, steps));
    roofline.counted_s += roofline.operators.back().time_s;
    roofline.ideal_s += roofline.operators.back().roof_s;
  }
  roofline.parts = parts.of_step(roofline.step_s, steps);
  std::stable_sort(roofline.operators.begin(), roofline.operators.end(),
                   [](const RoofRow& a, const RoofRow& b) { return a.to_win_s() > b.to_win_s(); });
  roofline.products = std::move(products);
  roofline.memory = std::move(memory);
  return roofline;
}

namespace {

/// "two operations for each multiplication with an addition": the formula that bounds the operator.
std::string_view formula_words(const RoofRow& row) {
  if (!row.compute_bound) return "each input read and each output written once";
  constexpr std::array<std::string_view, 3> kProducts{"product", "convolution", "attention"};
  const std::string_view kind = operator_class(row.name);
  return std::find(kProducts.begin(), kProducts.end(), kind) == kProducts.end()
             ? "what it does to each element"
             : "two for each multiplication with an addition";
}

bool is_above_roof(const RoofRow& row) {
  return row.of_roof() > 1 + kRoofMargin;
}

/// The name without what tells apart the forms of an operator, whose formulas are alike: that in
/// place and the one of its gradient.
std::string_view family_of(const RoofRow& row) {
  std::string_view name = row.name;
  constexpr std::string_view kGradient = "_backward";
  while (name.ends_with('_')) name.remove_suffix(1);
  if (name.ends_with(kGradient)) name.remove_suffix(kGradient.size());
  return name;
}

bool have_same_peak(const RoofRow& a, const RoofRow& b) {
  constexpr double kSame = 1e-3;  // their times were rounded
  return a.compute_bound == b.compute_bound && (!a.compute_bound || a.type == b.type) &&
         std::abs(a.peak_per_s() / b.peak_per_s() - 1) < kSame;
}

/// The other families of operators that the row's peak bounds, and whether one of each is above it.
std::map<std::string_view, bool> others_of_peak(const Roofline& roofline, const RoofRow& row) {
  std::map<std::string_view, bool> others;
  for (const RoofRow& other : roofline.operators) {
    if (!have_same_peak(other, row) || family_of(other) == family_of(row)) continue;
    others[family_of(other)] |= is_above_roof(other);
  }
  return others;
}

/// "the formula of its bytes is wrong: each input read ...".
std::string wrong_words(const Roofline& roofline, const RoofRow& row) {
  const std::string peak = fmt::format("the peak of {} is too low",
                                       row.compute_bound ? row.type + " products" : "memory");
  if (has_low_peak(roofline, row)) return peak + ", for others that it bounds are above it too";
  return fmt::format("the formula of its {} is wrong: {}{}",
                     row.compute_bound ? "operations" : "bytes", formula_words(row),
                     others_of_peak(roofline, row).empty()
                         ? fmt::format("; or {}, which bounds no other operator", peak)
                         : "");
}

}  // namespace

bool has_low_peak(const Roofline& roofline, const RoofRow& row) {
  constexpr double kMany = 0.25;
  const auto others = others_of_peak(roofline, row);
  const auto above =
      std::count_if(others.begin(), others.end(), [](const auto& other) { return other.second; });
  return !others.empty() &&
         static_cast<double>(above) >= kMany * static_cast<double>(others.size());
}

std::vector<std::string> above_roof(const Roofline& roofline) {
  std::vector<std::string> all;
  for (const RoofRow& row : roofline.operators) {
    if (!is_above_roof(row)) continue;
    all.push_back(fmt::format("{} {} ({} of its roof, whose peak was measured {} times: {})",
                              row.name, row.shapes, format_percent(row.of_roof()), kMostPeakRounds,
                              wrong_words(roofline, row)));
  }
  return all;
}

namespace {

std::string peaks_table(const Roofline& roofline) {
  MarkdownTable table(
      {{"peak"}, {"threads", Align::kRight}, {"speed", Align::kRight}, {"measured by"}});
  for (const ProductPeak& peak : roofline.products) {
    table.add_row({peak.type + " products", format_count(peak.threads),
                   format_flop_per_s(peak.flop_per_s), peak.method});
  }
  for (const MemoryPeak& peak : roofline.memory) {
    table.add_row({"memory, " + format_bytes(peak.working_set_bytes), format_count(peak.threads),
                   format_bytes(static_cast<int64_t>(peak.bytes_per_s)) + "/s",
                   "best of a fill, a sum, a copy and an addition in place"});
  }
  return table.text();
}

std::string operators_table(const Roofline& roofline) {
  constexpr size_t kWidestName = 36;  // leaves room for eight other columns
  MarkdownTable table({{"operator"},
                       {"to win (ms)", Align::kRight},
                       {"time (ms)", Align::kRight},
                       {"roof (ms)", Align::kRight},
                       {"of its roof", Align::kRight},
                       {"bound by"},
                       {"calls", Align::kRight},
                       {"FLOP per byte", Align::kRight},
                       {"shapes"}});
  for (size_t i = 0; i < std::min(kRowsToWin, roofline.operators.size()); ++i) {
    const RoofRow& row = roofline.operators[i];
    table.add_row({shortened(row.name, kWidestName), format_ms(row.to_win_s()),
                   format_ms(row.time_s), format_ms(row.roof_s), format_percent(row.of_roof()),
                   row.compute_bound ? "compute" : "memory", fmt::format("{:.6g}", row.calls),
                   row.bytes == 0 ? "" : fmt::format("{:.3g}", row.flop / row.bytes), row.shapes});
  }
  return table.text();
}

}  // namespace

std::string roofline_section(const Roofline& roofline, double plain_step_s,
                             const std::string& plot) {
  if (!roofline.missing.empty()) {
    return fmt::format("\n## Roofline\n\nThere is no roofline: {}.\n", plain(roofline.missing));
  }
  if (roofline.operators.empty()) return "";
  const RoofRow& first = roofline.operators.front();
  std::string text = fmt::format(
      "\n## Roofline\n\nWith every operator at its roof a step would take {}, **{}** of the {} "
      "that it takes without the profiler. Of single shapes the most is to be won at the first "
      "row, {}, which {} bounds: {} of a step. Operators that have work take {} of a profiled "
      "step.\n{}\n{}",
      format_seconds(roofline.ideal_s), format_percent(roofline.ideal_s / plain_step_s),
      format_seconds(plain_step_s), first.name, first.compute_bound ? "compute" : "memory",
      format_seconds(first.to_win_s()), format_percent(roofline.counted_s / roofline.step_s), plot,
      operators_table(roofline));
  const std::vector<std::string> above = above_roof(roofline);
  constexpr size_t kMostNamed = 6;
  for (const std::string& one : std::span(above).first(std::min(kMostNamed, above.size()))) {
    text += fmt::format("{}- Above its roof: {}.\n", &one == &above.front() ? "\n" : "", one);
  }
  if (above.size() > kMostNamed) {
    text += fmt::format(
        "- Above their roofs besides: {}.\n",
        format_counted(std::ssize(above) - static_cast<int64_t>(kMostNamed), "operator"));
  }
  if (!roofline.left_out.empty()) {
    text +=
        fmt::format("\nOperators that are not called as often in every step are left out: {}.\n",
                    plain(fmt::format("{}", fmt::join(roofline.left_out, ", "))));
  }
  return text + "\n" + peaks_table(roofline) +
         "\nThe roof of an operator is the longer of two times: its operations at the speed of the "
         "fastest matrix product, and its bytes, each input read and each output written once, at "
         "the speed of the fastest working set at least half as large as its tensors. Products, "
         "convolutions and attention count two operations for a multiplication with an addition; "
         "others count what they do to each element.\n";
}

namespace {

constexpr double kGiga = 1e9;

/// «aten::mm [64, 64] [64, 64]: 1.250 ms of a step, 40.0 % of its roof, bound by compute».
std::string words_of(const RoofRow& row) {
  return fmt::format("{} {}: {} ms of a step, {} of its roof, bound by {}", one_line(row.name),
                     one_line(row.shapes), format_ms(row.time_s), format_percent(row.of_roof()),
                     row.compute_bound ? "compute" : "memory");
}

/// A roof by its three corners between two intensities, as a block of the data.
std::string roof_block(double low, double high, double bytes_per_s, double flop_per_s) {
  const auto corner = [&](double intensity) {
    return fmt::format("{:.6g} {:.6g}\n", intensity, std::min(intensity * bytes_per_s, flop_per_s));
  };
  return "\n\n" + corner(low) + corner(std::clamp(flop_per_s / bytes_per_s, low, high)) +
         corner(high);
}

}  // namespace

std::optional<PlotSource> roofline_plot(const Roofline& roofline) {
  double flop_per_s = 0;
  for (const ProductPeak& peak : roofline.products) {
    flop_per_s = std::max(flop_per_s, peak.flop_per_s / kGiga);
  }
  double fastest = 0;
  double slowest = 0;
  for (const MemoryPeak& peak : roofline.memory) {
    fastest = std::max(fastest, peak.bytes_per_s / kGiga);
    slowest = slowest == 0 ? peak.bytes_per_s / kGiga : std::min(slowest, peak.bytes_per_s / kGiga);
  }
  PlotSource plot{"roofline", "Roofline", "# FLOP_per_byte GFLOP_per_s operator\n",
                  plot_head("roofline")};
  double low = 0.1;
  double high = 10;
  double least = flop_per_s;
  double most = flop_per_s;
  bool any = false;
  for (const RoofRow& row : roofline.operators) {
    if (row.flop <= 0 || row.bytes <= 0) continue;
    const double intensity = row.flop / row.bytes;
    low = std::min(low, intensity / 2);
    high = std::max(high, intensity * 2);
    const double speed = row.flop / row.time_s / kGiga;
    least = std::min(least, speed);
    most = std::max(most, speed);
    plot.data += fmt::format("{:.6g} {:.6g} \"{}\"\n", intensity, speed, words_of(row));
    any = true;
  }
  if (!any || flop_per_s == 0 || slowest == 0) return {};
  plot.data +=
      roof_block(low, high, fastest, flop_per_s) + roof_block(low, high, slowest, flop_per_s);
  // Two decades at least, so that some ticks are labelled.
  constexpr double kMargin = 1.25;
  most *= kMargin;
  least = std::min({least, low * slowest, most / 100}) / kMargin;
  plot.script += fmt::format(
      "set xlabel 'FLOP per byte'\nset ylabel 'GFLOP/s'\nset logscale xy\nset xrange "
      "[{:.6g}:{:.6g}]\nset yrange [{:.6g}:{:.6g}]\n{}{}set key bottom right\n"
      "plot 'roofline.dat' index 0 using 1:2 with points pointtype 7 pointsize 0.6 linecolor rgb "
      "'#0072B2' title 'operators', \\\n     'roofline.dat' index 1 using 1:2 with lines linewidth "
      "2 linecolor rgb '#E69F00' title 'roof, from the fastest cache', \\\n     'roofline.dat' "
      "index 2 using 1:2 with lines linewidth 2 dashtype 2 linecolor rgb '#D55E00' title 'roof, "
      "from the slowest working set'\n",
      low, high, least, most, log_ticks('x', low, high), log_ticks('y', least, most));
  return plot;
}

namespace {

constexpr double kAssumedShare = 0.7;  ///< share of every peak that the study assumes

constexpr const char* kStepModelWords =
    "\nThe model is that of a study of Alibaba's cluster (Wang et al., Characterizing Deep "
    "Learning Training Workloads on Alibaba-PAI, IISWC 2019, arXiv 1910.05930). A step is the sum "
    "of its parts, and none overlaps another: data at the speed of their way to the device, "
    "operations at that of the fastest product, bytes at that of memory, and gradients at that of "
    "the network. Here data is the phase of the step that waits for the batch and prepares it. "
    "Compute and memory are all other operators, by what bounds them on the roofline. The rest is "
    "the host between operators, and operators without work.\n";

/// Returns the name of the part for which `time` is the longest; the rest is none of the model's.
template <class Time>
std::string longest_part(const Roofline& roofline, const Time& time) {
  return std::max_element(roofline.parts.begin(), roofline.parts.end(),
                          [&](const StepPart& a, const StepPart& b) { return time(a) < time(b); })
      ->name;
}

}  // namespace

std::string step_model_section(const Roofline& roofline) {
  if (roofline.parts.empty() || !(roofline.step_s > 0)) return "";
  double model_s = 0;
  for (const StepPart& part : roofline.parts) model_s += part.roof_s;
  if (!(model_s > 0)) return "";
  MarkdownTable table({{"part"},
                       {"by the model (ms)", Align::kRight},
                       {"share", Align::kRight},
                       {"measured (ms)", Align::kRight},
                       {"share", Align::kRight},
                       {"GFLOP", Align::kRight},
                       {"MiB", Align::kRight}});
  std::string missing;
  for (const StepPart& part : roofline.parts) {
    const bool known = part.missing.empty();
    table.add_row({part.name, known ? format_ms(part.roof_s) : std::string(kMissing),
                   known ? format_percent(part.roof_s / model_s) : "", format_ms(part.time_s),
                   format_percent(part.time_s / roofline.step_s),
                   known ? fmt::format("{:.3f}", part.flop / kGiga) : "",
                   known ? format_mib(static_cast<int64_t>(part.bytes)) : ""});
    if (!known) missing += fmt::format("- {}: {}\n", part.name, plain(part.missing));
  }
  return fmt::format(
      "\n## The step by a model\n\nAt the peaks of this machine a step would take {}, **{}** of "
      "the {} that a profiled one takes; at {} of them, as the study assumes, {}. Its longest "
      "part is {} by the model, and {} as it was measured.\n\n{}{}{}{}",
      format_seconds(model_s), format_percent(model_s / roofline.step_s),
      format_seconds(roofline.step_s), format_percent(kAssumedShare),
      format_seconds(model_s / kAssumedShare),
      longest_part(roofline, [](const StepPart& part) { return part.roof_s; }),
      longest_part(roofline, [](const StepPart& part) { return part.time_s; }), table.text(),
      missing.empty() ? "" : "\nParts that the model has no time for:\n\n", missing,
      kStepModelWords);
}

}  // namespace noisemark::reports
