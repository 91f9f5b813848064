#include "reports/profile/characterization.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/profile/profile.h"

namespace noisemark::reports {
namespace {

constexpr std::string_view kFramework = "framework";
constexpr std::string_view kOther = "other";
constexpr double kMostOther = 0.01;

/// Operators that move no element, and those that hand all of their work to another one.
constexpr std::string_view kWorkless =
    "alias as_strided contiguous chunk detach expand expand_as flatten item lift_fresh "
    "movedim narrow new_empty new_empty_strided empty empty_like empty_strided "
    "local_scalar_dense permute reshape reshape_alias reshape_as resize resize_as "
    "resolve_conj resolve_neg result_type select set slice split squeeze t to transpose "
    "type_as unbind unflatten unsafe_view unsqueeze view view_as nnpack_available "
    "is_nonzero split_with_sizes";

/// A class of operators: words that their names begin with, or hold `anywhere`. The first rule that
/// fits counts.
struct ClassRule {
  std::string_view name;
  std::string_view words;
  bool anywhere = false;
};

constexpr ClassRule kClassRules[] = {
    {"convolution", "conv", true},
    {"attention", "attention softmax", true},
    {"normalization", "group_norm layer_norm batch_norm rms_norm", true},
    {"product", "mm addmm addmv bmm baddbmm dot einsum linear matmul mv"},
    {"activation function", "silu relu gelu sigmoid tanh threshold softplus mish"},
    {"optimizer", "fused_adam amp_"},
    {"random numbers", "bernoulli dropout native_dropout exponential normal rand uniform"},
    {"resampling", "pool", true},
    {"resampling", "upsample pixel_ interpolate"},
    {"movement",
     "copy to_copy cat clone stack fill full zero ones arange scalar_tensor "
     "gather scatter index embedding repeat roll flip pad constant_pad "
     "slice_backward select_backward im2col col2im"},
    {"element by element", "maximum minimum"},
    {"sums",
     "foreach_norm sum mean var std norm linalg_vector_norm mse_loss prod cumsum "
     "cumprod amax amin max min all any logsumexp"},
    {"element by element",
     "foreach_ abs add bitwise_ clamp cos div eq erf exp floor ge gt "
     "is le log lt masked_ mul ne pow reciprocal remainder round rsqrt "
     "rsub sign sin sqrt square sub where"}};

constexpr std::string_view kClasses[] = {
    "convolution",        "product",  "attention", "normalization", "activation function",
    "element by element", "sums",     "movement",  "resampling",    "random numbers",
    "optimizer",          kFramework, kOther};

constexpr const char* kCharacterizationWords =
    "\nThe figures are those of a study of inference at Facebook (Park et al., 2018, arXiv "
    "1811.09886), which tells the demands of a network by its parameters, its live activations, "
    "and its operations for each byte. Operations and bytes are those of the roofline. For the "
    "weights' bytes every weight is read once; for both, operators read and write what they need, "
    "weights and activations alike. Live activations are the most bytes at once: of sampling "
    "those that an evaluation has taken whenever an operator ends, so that its scratch memory "
    "does not count; of training what is kept for backward. Where the operations for a byte are "
    "fewer than the machine makes while it moves one, memory bounds.\n";

constexpr const char* kClassWords =
    "\nShares are of the self time of all operators, on the device where there is one. Framework "
    "is what computes nothing: views, allocations, autograd, and the host between operators.\n";

/// Returns whether one of the words, which blanks separate, is so.
template <class IsSo>
bool any_word(std::string_view words, const IsSo& is_so) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (is_so(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::string per_byte(double flop, double bytes) {
  return bytes > 0 ? fmt::format("{:.3g}", flop / bytes) : std::string(kMissing);
}

std::string workload_name(const Workload& workload) {
  return fmt::format("{} {}", workload.name, workload.batch);
}

double share_of(const Workload& workload, std::string_view name) {
  for (const ClassShare& one : workload.classes) {
    if (one.name == name) return one.share_frac;
  }
  return 0;
}

std::string demands_table(const Characterization& network) {
  MarkdownTable table({{"use"},
                       {"batch", Align::kRight},
                       {"time (ms)", Align::kRight},
                       {"live activations (MiB)", Align::kRight},
                       {"GFLOP", Align::kRight},
                       {"FLOP per byte of weights", Align::kRight},
                       {"of both", Align::kRight}});
  constexpr double kPerGiga = 1e-9;
  std::string missing;
  for (const Workload& one : network.workloads) {
    const auto weights = static_cast<double>(network.weight_bytes);
    table.add_row({one.name, format_count(one.batch), format_ms(one.time_s),
                   one.activation_bytes ? format_mib(*one.activation_bytes) : std::string(kMissing),
                   fmt::format("{:.3f}", one.flop * kPerGiga), per_byte(one.flop, weights),
                   per_byte(one.flop, one.bytes)});
    if (one.activation_missing.empty()) continue;
    missing += fmt::format("- Live activations of {}: {}\n", workload_name(one),
                           plain(one.activation_missing));
  }
  return table.text() + (missing.empty() ? "" : "\nThese figures were not measured:\n\n") + missing;
}

std::string classes_table(const Characterization& network) {
  std::vector<MarkdownTable::Column> columns{{"class of operators"}};
  for (const Workload& one : network.workloads) {
    columns.push_back({workload_name(one), Align::kRight});
  }
  MarkdownTable table(columns);
  for (const std::string_view name : kClasses) {
    std::vector<std::string> row{std::string(name)};
    double most = 0;
    for (const Workload& one : network.workloads) {
      row.push_back(format_percent(share_of(one, name)));
      most = std::max(most, share_of(one, name));
    }
    if (most > 0 || name == kOther) table.add_row(row);
  }
  std::string unknown;
  for (const Workload& one : network.workloads) {
    if (share_of(one, kOther) <= kMostOther) continue;
    unknown +=
        fmt::format("- {}: more than 1 % of the time is in no class: {}\n", workload_name(one),
                    plain(fmt::format("{}", fmt::join(one.unclassified, ", "))));
  }
  return table.text() + (unknown.empty() ? "" : "\n") + unknown;
}

}  // namespace

std::string_view operator_class(std::string_view name) {
  const size_t prefix = name.find("::");
  const std::string_view library = name.substr(0, prefix);
  if (prefix == std::string_view::npos || (library != "aten" && library != "noisemark")) {
    return kFramework;
  }
  name.remove_prefix(prefix + 2);
  while (name.starts_with('_')) name.remove_prefix(1);
  while (name.ends_with('_')) name.remove_suffix(1);
  if (any_word(kWorkless, [&](std::string_view word) { return name == word; })) return kFramework;
  for (const ClassRule& rule : kClassRules) {
    const bool fits = any_word(rule.words, [&](std::string_view word) {
      return name.starts_with(word) || (rule.anywhere && name.find(word) != std::string_view::npos);
    });
    if (fits) return rule.name;
  }
  return kOther;
}

void add_classes(const std::vector<OperatorTimes>& operators, Workload& workload) {
  int64_t device_ns = 0;
  for (const OperatorTimes& row : operators) device_ns += row.self_device_ns;
  std::map<std::string_view, int64_t> by_class;
  int64_t all_ns = 0;
  std::vector<std::pair<int64_t, std::string>> unknown;
  for (const OperatorTimes& row : operators) {
    if (row.kind != "operator" && row.kind != "span") continue;
    const int64_t self_ns = device_ns > 0 ? row.self_device_ns : row.self_host_ns;
    const std::string_view name = operator_class(row.name);
    by_class[name] += self_ns;
    all_ns += self_ns;
    if (name == kOther && self_ns > 0) unknown.emplace_back(self_ns, row.name);
  }
  if (all_ns <= 0) return;
  for (const std::string_view name : kClasses) {
    workload.classes.push_back(
        {std::string(name), static_cast<double>(by_class[name]) / static_cast<double>(all_ns)});
  }
  std::sort(unknown.rbegin(), unknown.rend());
  for (auto& [self_ns, name] : unknown) {
    const auto& known = workload.unclassified;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      workload.unclassified.push_back(std::move(name));
    }
  }
}

void add_work(const StepWork& work, Workload& workload) {
  for (const std::vector<OperatorWork>& thread : work) {
    for (const OperatorWork& call : thread) {
      workload.flop += static_cast<double>(call.flops);
      workload.bytes += static_cast<double>(call.bytes);
    }
  }
}

double mean_step_s(const Recording& recording) {
  int64_t sum_ns = 0;
  for (const ProfiledEvent& event : recording.events) {
    if (event.is_step()) sum_ns += event.duration_ns();
  }
  return recording.steps > 0
             ? static_cast<double>(sum_ns) / kNsPerS / static_cast<double>(recording.steps)
             : 0;
}

namespace {

/// The instants within a step at which an operator ended that no other one had called.
std::vector<int64_t> ends_of_operators(const Recording& recording, const ProfiledEvent& step) {
  std::vector<const ProfiledEvent*> all;
  for (const ProfiledEvent& event : recording.events) {
    if (event.is_operator_within(step)) all.push_back(&event);
  }
  std::stable_sort(all.begin(), all.end(), [](const ProfiledEvent* a, const ProfiledEvent* b) {
    return std::pair(a->start_ns, -a->end_ns) < std::pair(b->start_ns, -b->end_ns);
  });
  std::vector<int64_t> ends_ns;
  for (const ProfiledEvent* event : all) {
    if (ends_ns.empty() || event->start_ns >= ends_ns.back()) ends_ns.push_back(event->end_ns);
  }
  return ends_ns;
}

}  // namespace

int64_t most_live_bytes(const Recording& recording) {
  std::vector<ProfiledMemory> memory = recording.memory;
  std::erase_if(memory, [&](const auto& one) { return one.on_device != recording.has_device; });
  std::stable_sort(memory.begin(), memory.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  int64_t most = 0;
  for (const ProfiledEvent& step : recording.events) {
    if (!step.is_step()) continue;
    int64_t live = 0;
    size_t next = 0;
    while (next < memory.size() && memory[next].time_ns < step.start_ns) ++next;
    for (const int64_t end_ns : ends_of_operators(recording, step)) {
      for (; next < memory.size() && memory[next].time_ns <= end_ns; ++next) {
        live += memory[next].bytes;
      }
      most = std::max(most, live);
    }
  }
  return most;
}

std::optional<int64_t> most_bytes_of(const std::vector<MemoryCounter>& counters,
                                     std::string_view owner) {
  std::optional<int64_t> most;
  for (const MemoryCounter& counter : counters) {
    for (const auto& [name, bytes] : counter.bytes) {
      if (name == owner) most = std::max(most.value_or(0), bytes);
    }
  }
  return most;
}

std::string characterization_section(const Characterization& network) {
  if (network.workloads.empty()) return "";
  return fmt::format(
      "\n## Characterization\n\nThe network has {} parameters, which take {} MiB.\n\n{}{}\n{}{}",
      format_count(network.parameters), format_mib(network.weight_bytes), demands_table(network),
      kCharacterizationWords, classes_table(network), kClassWords);
}

}  // namespace noisemark::reports
