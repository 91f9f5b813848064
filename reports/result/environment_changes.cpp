#include "reports/result/environment_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace noisemark::reports {
namespace {

// These are the words of suite/environment/graphics.cpp for NVML's reasons.
constexpr std::array<std::string_view, 4> kOfLoad{"none", "idle", "power cap",
                                                  "clocks set for applications"};
constexpr std::array<std::string_view, 3> kSlowDowns{"hardware slow-down", "thermal slow-down",
                                                     "power brake"};
// Counted since the machine was started, or of what happens to run beside.
constexpr std::array<std::string_view, 4> kEvents{"cpu_quota_throttles", "cpu_thermal_throttles",
                                                  kClockReasons, "gpu_other_processes"};
constexpr std::string_view kBetween = ", ";

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const size_t end = std::min(list.find(kBetween), list.size());
    words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + kBetween.size(), list.size()));
  }
  return words;
}

template <size_t n>
bool is_one_of(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::set<std::string> lasting(const std::string& reasons) {
  std::set<std::string> words;
  for (const std::string& word : words_of(reasons)) {
    if (!is_one_of(kOfLoad, word)) words.insert(word);
  }
  return words;
}

std::string at_the_end(const Strings& environment, const std::string& key) {
  return text_of(environment, fmt::format("{}{}", kAtTheEnd, key),
                 text_of(environment, key).c_str());
}

}  // namespace

Strings settings_of(const Strings& environment) {
  Strings settings = environment;
  std::erase_if(settings, [](const auto& item) {
    const std::string& key = item.first;
    return key.starts_with(kAtTheEnd) || key == kChangedWhileItRan || is_one_of(kReadings, key) ||
           is_one_of(kEvents, key);
  });
  return settings;
}

bool same_clock_reasons(const std::string& before, const std::string& after) {
  return lasting(before) == lasting(after);
}

std::vector<std::string> changes_while_it_ran(const Strings& environment) {
  const std::string key(kClockReasons);
  const std::string list = text_of(environment, std::string(kChangedWhileItRan));
  std::vector<std::string> names = list == "nothing" ? std::vector<std::string>{} : words_of(list);
  const bool both = environment.contains(fmt::format("{}{}", kAtTheEnd, key));
  std::erase_if(names, [&](const std::string& name) {
    return name == key && both &&
           same_clock_reasons(text_of(environment, key), at_the_end(environment, key));
  });
  return names;
}

std::string slow_downs(const std::string& reasons) {
  std::vector<std::string> named;
  for (const std::string& word : words_of(reasons)) {
    const bool slow = std::any_of(
        kSlowDowns.begin(), kSlowDowns.end(),
        [&](std::string_view slow_down) { return word.find(slow_down) != std::string::npos; });
    const bool known = std::find(named.begin(), named.end(), word) != named.end();
    if (slow && !known) named.push_back(word);
  }
  return fmt::format("{}", fmt::join(named, kBetween));
}

std::string slow_downs(const Strings& environment) {
  const std::string key(kClockReasons);
  return slow_downs(
      fmt::format("{}{}{}", text_of(environment, key), kBetween, at_the_end(environment, key)));
}

}  // namespace noisemark::reports
