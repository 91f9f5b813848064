#include "suite/environment/machine_figures.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "suite/environment/graphics.h"
#include "suite/environment/system_file.h"

namespace noisemark::suite {
namespace {

using reports::EventMetadata;
using reports::EventValue;

constexpr const char* kCpuClock = "cpu_clock_mhz";
constexpr const char* kGpuNumbers[] = {"gpu_sm_clock_mhz", "gpu_memory_clock_mhz", "gpu_power_mw",
                                       "gpu_temperature_c"};
constexpr const char* kGpuReasons = "gpu_clock_reasons";

std::optional<double> number_of(const std::optional<std::string>& text) {
  double number = 0;
  if (!text) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = error == std::errc{} && stop == text->data() + text->size();
  return whole ? std::optional(number) : std::nullopt;
}

void put_missing(EventMetadata& figures, const std::string& key, const std::string& why) {
  figures[key] = EventValue{};
  figures[key + "_missing"] = why;
}

/// Of the lines "cpu MHz : 2499.998".
std::optional<double> mean_clock(std::string_view processors) {
  double sum = 0;
  int count = 0;
  for (const std::string& line : split_at(processors, '\n')) {
    if (const auto clock = number_of(field_of(line, "cpu MHz", ':'))) {
      sum += *clock;
      ++count;
    }
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

bool is_virtual(std::string_view processors) {
  const auto flags = split_words(field_of(processors, "flags", ':').value_or(""));
  return std::find(flags.begin(), flags.end(), "hypervisor") != flags.end();
}

void put_processor(EventMetadata& figures, const std::filesystem::path& root) {
  const std::string processors = read_system_file((root / "proc/cpuinfo").string()).value_or("");
  if (is_virtual(processors)) {
    return put_missing(figures, kCpuClock, "a virtual machine: its host does not show it");
  }
  const auto clock = mean_clock(processors);
  if (!clock) return put_missing(figures, kCpuClock, "Linux does not show it");
  figures[kCpuClock] = *clock;
}

void put_gpu(EventMetadata& figures, int ordinal) {
  constexpr const char* kSilent = "the driver does not say it for this GPU";
  const reports::Strings found = describe_gpu(ordinal).environment;
  for (const char* key : kGpuNumbers) {
    const auto text = found.find(key);
    const auto number = text == found.end() ? std::nullopt : number_of(text->second);
    if (number) {
      figures[key] = *number;
    } else {
      put_missing(figures, key, kSilent);
    }
  }
  const auto reasons = found.find(kGpuReasons);
  if (reasons == found.end()) return put_missing(figures, kGpuReasons, kSilent);
  figures[kGpuReasons] = reasons->second;
}

}  // namespace

EventMetadata machine_figures(const c10::Device& device, const std::filesystem::path& root) {
  EventMetadata figures;
  put_processor(figures, root);
  if (device.is_cuda()) put_gpu(figures, device.has_index() ? device.index() : 0);
  return figures;
}

}  // namespace noisemark::suite
