#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"

namespace noisemark::reports::sections {
namespace {

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
  table.add_row({words_of(column.name), column.value ? cell(column.value, column.unit) : "none",
                 cell(column.over_kernels, column.unit), cell(column.lowest, column.unit),
                 cell(column.highest, column.unit), format_seconds(column.window_s), how});
}

}  // namespace

std::string device_use(const Result& result) {
  const DeviceUse& use = result.utilization.device_use;
  // Results of a CPU, and those from before these figures, have no such section.
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
  text += fmt::format(
      "\nRead beside {} training steps ({} images, {}) in a window of its own, without a profiler. "
      "Shares are of the whole GPU.\n",
      format_count(use.steps), format_count(use.images), format_seconds(use.window_s));
  text += fmt::format("Clocks held down by: {}.\n",
                      use.clock_reasons.empty() ? "not known" : use.clock_reasons);
  if (!use.trace.empty()) {
    text += "Every reading is in `result.json`, under `utilization.device_use.trace`.\n";
  }
  for (const DeviceColumn& column : use.columns) {
    if (column.value) continue;
    text += fmt::format("No {}: {}.\n", words_of(column.name), column.missing_reason);
  }
  return text;
}

std::string device_memory(const MemorySection& memory) {
  const DeviceMemory& held = memory.device_memory;
  if (!held.reserved_bytes) {
    return held.missing_reason.empty()
               ? ""
               : fmt::format("\nThe GPU's allocator. {}", not_measured(held.missing_reason));
  }
  MarkdownTable table({{"the GPU's allocator"}, {"MiB", Align::kRight}, {"what"}});
  const auto add = [&](const std::string& name, const std::optional<int64_t>& bytes,
                       const std::string& what) {
    table.add_row({name, bytes ? format_mib(*bytes) : "none", what});
  };
  add("allocated at most", held.peak_allocated_bytes, "in the step, as the allocator rounds");
  add("reserved at most", held.peak_reserved_bytes, "in the step: taken from the device");
  add("fragmentation", held.fragmentation_bytes, "the second less the first");
  add("allocated", held.allocated_bytes, "when the step ended");
  add("rounding", held.rounding_bytes, "of what is in use then, asked for by nobody");
  add("reserved", held.reserved_bytes, "when the step ended");
  add("unusable", held.unusable_bytes, "of that, rests of blocks that were split");
  add("process", held.process_bytes, "when the step ended, by the driver's count");
  add("outside", memory.outside_allocator_bytes,
      "process less reserved: CUDA's context, code, libraries");
  std::string text = fmt::format("\n{}", table.text());
  text += fmt::format("\nIn the step {} allocations had to give memory back first, {} failed.\n",
                      format_count(held.retries), format_count(held.failures));
  if (!held.missing_reason.empty()) text += fmt::format("Missing: {}.\n", held.missing_reason);
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
        "allocated "
        "and {} reserved.\n",
        format_bytes(*memory.peak_allocated_bytes), format_bytes(*memory.peak_reserved_bytes));
  }
  return text;
}

}  // namespace noisemark::reports::sections
