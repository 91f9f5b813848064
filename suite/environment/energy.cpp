#include "suite/environment/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "reports/result/metrics.h"
#include "suite/environment/graphics.h"
#include "suite/environment/system.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPowercap = "sys/class/powercap";
constexpr std::string_view kDomain = "intel-rapl:";
constexpr std::string_view kPackage = "package-";
constexpr double kPerMicro = 1e-6;
constexpr double kPerMilli = 1e-3;
constexpr double kMostWatts = 1000;

std::optional<double> count_of(const std::optional<std::string>& text) {
  int64_t number = 0;
  if (!text) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = error == std::errc{} && stop == text->data() + text->size();
  return whole && number >= 0 ? std::optional(static_cast<double>(number)) : std::nullopt;
}

std::optional<double> number_in(const fs::path& file) {
  return count_of(read_system_file(file.string()));
}

/// Folders of whole packages, in the order of their names; the part 1 of package 0 is
/// "intel-rapl:0:1".
std::vector<fs::path> packages(const fs::path& root) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(root / kPowercap, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kDomain) || name.find(':', kDomain.size()) != std::string::npos) continue;
    const std::string what = read_system_file((at->path() / "name").string()).value_or("");
    if (what.starts_with(kPackage)) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

EnergyReading nothing(const std::string& reason) {
  return {{}, reason};
}

EnergyReading gpu_energy(int ordinal) {
  const reports::Strings environment = describe_gpu(ordinal).environment;
  const auto found = environment.find("gpu_energy_mj");
  const auto millijoules = found == environment.end() ? std::nullopt : count_of(found->second);
  if (!millijoules) return nothing("the driver does not say it for this GPU");
  return {{{"GPU", *millijoules * kPerMilli, std::nullopt}}, ""};
}

EnergyUsed unknown(const std::string& reason) {
  return {std::nullopt, reason, ""};
}

/// The energy from one reading of a counter to the next; nothing where it fell and does not come
/// round.
std::optional<double> difference(const EnergyCounter& before, const EnergyCounter& after) {
  const double grown = after.joules - before.joules;
  if (grown >= 0) return grown;
  return before.range_j ? std::optional(grown + *before.range_j) : std::nullopt;
}

}  // namespace

EnergyReading processor_energy(const fs::path& root) {
  EnergyReading reading;
  const std::vector<fs::path> folders = packages(root);
  if (folders.empty()) return nothing("Linux counts no energy of this processor");
  for (const fs::path& folder : folders) {
    const auto microjoules = number_in(folder / "energy_uj");
    if (!microjoules) return nothing("Linux shows the energy of this processor to root alone");
    EnergyCounter counter;
    counter.name = read_system_file((folder / "name").string()).value_or("");
    counter.joules = *microjoules * kPerMicro;
    if (const auto range = number_in(folder / "max_energy_range_uj")) {
      counter.range_j = *range * kPerMicro;
    }
    reading.counters.push_back(counter);
  }
  return reading;
}

EnergyReading energy_of(const c10::Device& device) {
  if (!device.is_cuda()) return processor_energy();
  return gpu_energy(device.has_index() ? device.index() : 0);
}

EnergyUsed energy_used(const EnergyReading& before, const EnergyReading& after, double seconds) {
  for (const EnergyReading* reading : {&before, &after}) {
    if (reading->counters.empty()) return unknown(reading->missing_reason);
  }
  if (before.counters.size() != after.counters.size()) return unknown("the counters changed");
  EnergyUsed used;
  double sum = 0;
  for (size_t i = 0; i < before.counters.size(); ++i) {
    const EnergyCounter& counter = before.counters[i];
    if (counter.name != after.counters[i].name) return unknown("the counters changed");
    if (counter.range_j && seconds * kMostWatts >= *counter.range_j) {
      return unknown(fmt::format("in {:.0f} s the counter of {} may come round more than once",
                                 seconds, counter.name));
    }
    const auto joules = difference(counter, after.counters[i]);
    if (!joules) return unknown("the counter of " + counter.name + " went backwards");
    sum += *joules;
    used.method += (i == 0 ? "" : ", ") + counter.name;
  }
  used.joules = sum;
  return used;
}

reports::Metric energy_metric(const EnergyUsed& used) {
  return reports::metric_named(
      "energy_j",
      {.value = used.joules,
       .missing_reason = used.missing_reason,
       .method = used.method + ": training with its evaluations, and whatever else ran meanwhile"});
}

}  // namespace noisemark::suite
