#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/render/report_sections.h"

namespace noisemark::reports::sections {
namespace {

constexpr std::string_view kSampled = "_sampled";  // ends the names of CUPTI's columns

std::string words_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string cell(const std::optional<double>& value, const std::string& unit) {
  return value ? format_quantity(*value, unit) : "";
}

void add_column(const DeviceColumn& column, MarkdownTable& table) {
  const std::string how = column.readings > 0
                              ? fmt::format("{}, {} readings", column.source, column.readings)
                              : column.source;
  table.add_row({words_of(column.name),
                 column.value ? cell(column.value, column.unit) : std::string(kMissing),
                 cell(column.over_kernels, column.unit), cell(column.lowest, column.unit),
                 cell(column.highest, column.unit),
                 column.window_s > 0 ? format_seconds(column.window_s) : "", how});
}

/// A sentence on the meaning of the table's columns.
std::string explained(const DeviceUse& use) {
  std::string text = fmt::format(
      "\nThe figures were read beside {} training steps ({} images, {}) in a window of its own, "
      "without a profiler. Shares are of the whole GPU unless the source names a part of it.\n",
      format_count(use.steps), format_count(use.images), format_seconds(use.window_s));
  const auto has = [&](bool (*test)(const DeviceColumn&)) {
    return std::any_of(use.columns.begin(), use.columns.end(), test);
  };
  if (has([](const DeviceColumn& one) { return one.over_kernels.has_value(); })) {
    text +=
        "A share while kernels ran is that over wall time by the kernels' share of it, which a "
        "profile of other steps of the same training gave (CUPTI by kineto); empty where they do "
        "not agree.\n";
  }
  if (has([](const DeviceColumn& one) { return one.value && one.name.ends_with(kSampled); })) {
    text +=
        "Sampled figures come from windows of their own, of steps that followed; lowest and "
        "highest are those of a sample.\n";
  }
  return text;
}

/// A line for each reason, with all that are missing for it.
std::string missing_columns(const DeviceUse& use) {
  std::vector<std::pair<std::string, std::string>> names_by_reason;
  for (const DeviceColumn& column : use.columns) {
    if (column.value) continue;
    const auto same =
        std::find_if(names_by_reason.begin(), names_by_reason.end(),
                     [&](const auto& one) { return one.first == column.missing_reason; });
    if (same == names_by_reason.end()) {
      names_by_reason.emplace_back(column.missing_reason, words_of(column.name));
    } else {
      same->second += ", " + words_of(column.name);
    }
  }
  std::string text;
  for (const auto& [reason, names] : names_by_reason) {
    text += fmt::format("No {}: {}.\n", plain(names), plain(reason));
  }
  return text;
}

}  // namespace

std::string device_use(const Result& result) {
  const DeviceUse& use = result.utilization.device_use;
  // A CPU has no such section.
  if (!use.measured && use.missing_reason.empty()) return "";
  std::string text = "## GPU\n\n";
  if (!use.measured) return text + not_measured(use.missing_reason);
  MarkdownTable table({{"figure"},
                       {"over wall time", Align::kRight},
                       {"while kernels ran", Align::kRight},
                       {"lowest", Align::kRight},
                       {"highest", Align::kRight},
                       {"window", Align::kRight},
                       {"source"}});
  for (const DeviceColumn& column : use.columns) add_column(column, table);
  text += table.text();
  text += explained(use);
  text += use.clock_reasons.empty()
              ? "It is not known what held clocks down.\n"
              : fmt::format("**Clocks were held down by:** {}.\n", plain(use.clock_reasons));
  if (!use.trace.empty()) {
    text += "Every reading is in `result.json`, under `utilization.device_use.trace`.\n";
  }
  return text + missing_columns(use);
}

std::string device_memory(const MemorySection& memory) {
  const DeviceMemory& held = memory.device_memory;
  if (!held.reserved_bytes) {
    return held.missing_reason.empty()
               ? ""
               : fmt::format("\n**The GPU's allocator:** {}", not_measured(held.missing_reason));
  }
  MarkdownTable table({{"the GPU's allocator"}, {"MiB", Align::kRight}, {"what"}});
  const auto add = [&](const std::string& name, const std::optional<int64_t>& bytes,
                       const std::string& what) {
    table.add_row({name, bytes ? format_mib(*bytes) : std::string(kMissing), what});
  };
  add("allocated at most", held.peak_allocated_bytes, "in the step, as the allocator rounds");
  add("reserved at most", held.peak_reserved_bytes, "in the step: taken from the device");
  add("fragmentation", held.fragmentation_bytes, "reserved at most less allocated at most");
  add("allocated", held.allocated_bytes, "when the step ended");
  add("rounding", held.rounding_bytes, "part of allocated that nobody asked for");
  add("reserved", held.reserved_bytes, "when the step ended");
  add("unusable", held.unusable_bytes, "part of reserved: rests of blocks that were split");
  add("process", held.process_bytes, "when the step ended, by the driver's count");
  add("outside", memory.outside_allocator_bytes,
      "process less reserved: CUDA's context, code, libraries");
  std::string text = fmt::format("\n{}", table.text());
  text += fmt::format(
      "\nBefore {} of the step the allocator had to give memory back to the device, "
      "and {} failed.\n",
      format_counted(held.retries, "allocation"), format_count(held.failures));
  if (!held.missing_reason.empty())
    text += fmt::format("Missing: {}.\n", plain(held.missing_reason));
  return text;
}

std::string training_memory(const Result& result) {
  const TrainingMemory& memory = result.memory.training;
  std::string text;
  if (memory.repeated_steps > 0) {
    text += fmt::format(
        "\nBytes by owner are of steps that the host issued. {} of the {} steps of the training "
        "pass were repeated by the device from a recording, which has memory of its own: {}.\n",
        format_count(memory.repeated_steps), format_count(result.protocol.steps),
        memory.recording_bytes ? format_bytes(*memory.recording_bytes) : "not known");
  }
  if (memory.peak_allocated_bytes && memory.peak_reserved_bytes) {
    text += fmt::format(
        "\nIn the training pass, evaluations included, the GPU's allocator had at most {} "
        "allocated and {} reserved.\n",
        format_bytes(*memory.peak_allocated_bytes), format_bytes(*memory.peak_reserved_bytes));
  }
  return text;
}

namespace {

constexpr size_t kMostCharacters = 56;
constexpr size_t kKeptOfTheEnd = 17;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Returns the name up to the parenthesis of the parameters: the last one that opens outside of
/// angle brackets. One of "(anonymous namespace)" or of a cast opens no parameters.
std::string_view without_parameters(std::string_view name) {
  int angles = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++angles;
    if (name[i] == '>') --angles;
    const bool after_a_name = i > 0 && (is_word(name[i - 1]) || name[i - 1] == '>');
    if (name[i] == '(' && angles == 0 && after_a_name) return name.substr(0, i);
  }
  return name;
}

/// "cutlass::Kernel<a::b>" -> "Kernel<b>"
std::string without_namespaces(std::string_view name) {
  std::string text;
  size_t word = 0;  // the beginning of the last word of `text`
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with("::")) {
      text.resize(word);
      ++i;
      continue;
    }
    text += name[i];
    if (!is_word(name[i])) word = text.size();
  }
  return text;
}

std::string without(std::string text, std::string_view part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part)) {
    text.erase(at, part.size());
  }
  return text;
}

std::string_view without_ending(std::string_view name) {
  constexpr std::array<std::string_view, 3> kEndings{"__5x_cudnn", "_cudnn", "_kernel"};
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return name;
}

/// CUTLASS's kernels have their names in the argument of a template that all of them share.
std::string_view inside_cutlass(std::string_view name) {
  for (const std::string_view shell : {"Kernel<", "Kernel2<"}) {
    if (!name.starts_with(shell) || !name.ends_with('>')) continue;
    return name.substr(shell.size(), name.size() - shell.size() - 1);
  }
  return name;
}

}  // namespace

std::string short_kernel_name(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  std::string text(without_parameters(name));
  for (const std::string_view part : {"(anonymous namespace)::", "(int)", "(bool)"}) {
    text = without(text, part);
  }
  text = without_namespaces(text);
  text = without_ending(inside_cutlass(text));
  if (text.size() <= kMostCharacters) return text;
  constexpr std::string_view kCut = " ... ";
  const size_t begin = kMostCharacters - kKeptOfTheEnd - kCut.size();
  return text.substr(0, begin) + std::string(kCut) + text.substr(text.size() - kKeptOfTheEnd);
}

namespace {

constexpr size_t kMostRows = 15;

/// "128x3x32x32"
std::string sizes(const std::vector<int64_t>& all) {
  return fmt::format("{}", fmt::join(all, "x"));
}

}  // namespace

std::string convolutions(const Result& result) {
  const ConvolutionKernels& run = result.utilization.convolutions;
  // A CPU has no such kernels.
  if (!run.measured && run.missing_reason.empty()) return "";
  if (!run.measured) return "\n**Kernels of convolutions:** " + not_measured(run.missing_reason);
  MarkdownTable table({{"convolution"},
                       {"calls", Align::kRight},
                       {"time (ms)", Align::kRight},
                       {"input"},
                       {"weight"},
                       {"stride", Align::kLeft, Fold::kIfAlike},
                       {"kernel"}});
  const size_t shown = std::min(kMostRows, run.kernels.size());
  for (size_t i = 0; i < shown; ++i) {
    const ConvolutionKernel& one = run.kernels[i];
    table.add_row({one.direction, format_number(one.calls), format_ms(one.time_s), sizes(one.input),
                   sizes(one.weight), sizes(one.stride), code(short_kernel_name(one.kernel))});
  }
  return fmt::format(
      "\n{}\nThe table lists kernels by which cuDNN computed convolutions, per step and by falling "
      "time, {} of {}. `result.json` has all of them with their whole names, under "
      "`utilization.convolutions`. In the first column `forward` is the convolution, `data` the "
      "gradient of its input, `weight` the gradient of its weight; `gradient` is one of these two, "
      "where the kernel's name does not say which.\n",
      table.text(), shown, run.kernels.size());
}

}  // namespace noisemark::reports::sections
