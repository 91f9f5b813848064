#include "reports/result/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "reports/base/file.h"
#include "reports/base/json.h"

namespace noisemark::reports {

template <>
inline constexpr std::array json::kNames<EventType>{
    std::pair{EventType::kIntervalStart, std::string_view{"INTERVAL_START"}},
    std::pair{EventType::kIntervalEnd, std::string_view{"INTERVAL_END"}},
    std::pair{EventType::kPointInTime, std::string_view{"POINT_IN_TIME"}}};

namespace {

constexpr const auto& kTypes = json::kNames<EventType>;

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> kKeys{"namespace", "time_ms", "event_type",
                                                "key",       "value",   "metadata"};

/// The system's clock as it was first asked, and what has passed since by one that nobody sets: the
/// system's may be set back, or ahead, while a run lasts.
int64_t system_ms() {
  static const auto began = std::chrono::system_clock::now().time_since_epoch();
  static const auto began_steady = std::chrono::steady_clock::now();
  const auto now = began + (std::chrono::steady_clock::now() - began_steady);
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

/// The time of the last event, below which none that follows may be; 0 where there is none that
/// can be read, which is not for a writer to judge.
int64_t last_ms(const std::string& text, const std::filesystem::path& path) {
  try {
    const std::vector<Event> events = read_events(text, path.string());
    return events.empty() ? 0 : events.back().time_ms;
  } catch (const Error&) {
    return 0;
  }
}

OrderedJson to_json_value(const EventValue& value) {
  return std::visit(
      [](const auto& held) -> OrderedJson {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value);
}

EventValue from_json_value(const OrderedJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? EventValue{} : EventValue{value.dump()};
}

// NaN and infinity have no JSON form: null, and the text is kept in the metadata.
void replace_not_finite(EventValue& value, const std::string& name, EventMetadata& noted) {
  const double* number = std::get_if<double>(&value);
  if (number == nullptr || std::isfinite(*number)) return;
  noted[name] =
      std::isnan(*number) ? std::string("nan") : std::string(*number > 0 ? "inf" : "-inf");
  value = std::monostate{};
}

Event parse_event(std::string_view json, const std::string& where) {
  require_shallow(json, where);
  OrderedJson line;
  try {
    line = OrderedJson::parse(json, RefuseDoubles<OrderedJson>(where));
  } catch (const OrderedJson::exception&) {
    throw bad_input(where, "not valid JSON", json_fault(json), "");
  }
  std::vector<std::string> keys;
  if (line.is_object()) {
    for (const auto& [key, value] : line.items()) keys.push_back(key);
  }
  if (!std::equal(keys.begin(), keys.end(), kKeys.begin(), kKeys.end())) {
    throw bad_input(where, "keys", line.dump(),
                    fmt::format("{} in this order", fmt::join(kKeys, ", ")));
  }
  Event event;
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& known) {
    return line["event_type"] == known.second;
  });
  if (type == kTypes.end()) throw bad_input(where, "event_type", line["event_type"].dump(), "");
  if (!line["time_ms"].is_number_integer()) {
    throw bad_input(where, "time_ms", line["time_ms"].dump(), "an integer");
  }
  if (!line["key"].is_string() || line["key"].get<std::string>().empty()) {
    throw bad_input(where, "key", line["key"].dump(), "a name");
  }
  if (!line["metadata"].is_object()) {
    throw bad_input(where, "metadata", line["metadata"].dump(), "an object");
  }
  event.type = type->first;
  event.time_ms = line["time_ms"].get<int64_t>();
  event.key = line["key"].get<std::string>();
  event.value = from_json_value(line["value"]);
  for (const auto& [key, value] : line["metadata"].items()) {
    event.metadata[key] = from_json_value(value);
  }
  return event;
}

// One process's events: everything from one init_start to the next.
class ProcessEvents {
 public:
  void add(const Event& event, std::vector<std::string>& problems) {
    if (event.type == EventType::kIntervalStart) start(event.key, problems);
    if (event.type == EventType::kIntervalEnd) stop(event, problems);
  }

  void close(std::vector<std::string>& problems) const {
    for (const std::string& name : open_) problems.push_back(name + "_start has no stop");
    if (runs_ == 0 && init_aborted_) return;
    if (runs_ != 1) problems.push_back(std::to_string(runs_) + " run_start events (one)");
  }

 private:
  std::set<std::string> open_;
  int runs_ = 0;
  bool init_aborted_ = false;

  void start(const std::string& key, std::vector<std::string>& problems) {
    const std::string name = without(key, "_start");
    if (name.empty()) problems.push_back("an interval starts with key \"" + key + "\"");
    if (!open_.insert(name).second) problems.push_back(key + " twice without a stop between");
    if (name != "run") return;
    ++runs_;
    if (open_.contains("init")) problems.emplace_back("run_start before init_stop");
  }

  void stop(const Event& event, std::vector<std::string>& problems) {
    const std::string& key = event.key;
    const std::string name = without(key, "_stop");
    if (name.empty()) problems.push_back("an interval ends with key \"" + key + "\"");
    if (open_.erase(name) == 0) problems.push_back(key + " without a start");
    const auto status = event.metadata.find("status");
    if (status == event.metadata.end() || name != "init") return;
    init_aborted_ = status->second == EventValue(std::string("aborted"));
  }

  static std::string without(const std::string& key, std::string_view ending) {
    return key.ends_with(ending) ? key.substr(0, key.size() - ending.size()) : "";
  }
};

}  // namespace

std::string event_line(const Event& event) {
  Event written = event;
  EventMetadata noted;
  replace_not_finite(written.value, "not_finite", noted);
  for (auto& [key, value] : written.metadata) replace_not_finite(value, key + "_not_finite", noted);
  written.metadata.merge(noted);
  OrderedJson line;
  line["namespace"] = "noisemark";
  line["time_ms"] = written.time_ms;
  line["event_type"] = json::name_of(written.type);
  line["key"] = written.key;
  line["value"] = to_json_value(written.value);
  line["metadata"] = OrderedJson::object();
  for (const auto& [key, value] : written.metadata) line["metadata"][key] = to_json_value(value);
  return std::string(kEventPrefix) +
         line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

EventWriter::EventWriter(const std::filesystem::path& path, bool resume, Clock clock)
    : path_(path), clock_(clock ? std::move(clock) : Clock(system_ms)) {
  std::string kept;
  if (resume && std::filesystem::exists(path)) kept = read_file(path);
  // A process that was killed while writing leaves a line without its end.
  kept.resize(kept.rfind('\n') == std::string::npos ? 0 : kept.rfind('\n') + 1);
  clock_ = [own = std::move(clock_), last = last_ms(kept, path)]() mutable {
    return last = std::max(last, own());  // no event is earlier than the one before it
  };
  write_file_atomically(path, kept);
  file_.reset(std::fopen(path.c_str(), "ae"));
  if (!file_) throw not_written(path, errno);
}

void EventWriter::start(const std::string& name, const EventMetadata& metadata) {
  write({0, EventType::kIntervalStart, name + "_start", {}, metadata});
}

void EventWriter::stop(const std::string& name, const EventMetadata& metadata) {
  write({0, EventType::kIntervalEnd, name + "_stop", {}, metadata});
}

void EventWriter::point(const std::string& key, const EventValue& value,
                        const EventMetadata& metadata) {
  write({0, EventType::kPointInTime, key, value, metadata});
}

void EventWriter::write(Event event) {
  event.time_ms = clock_();
  const std::string line = event_line(event) + "\n";
  const bool whole = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (!whole || std::fflush(file_.get()) != 0) throw not_written(path_, errno);
}

std::vector<Event> read_events(std::string_view text, const std::string& where) {
  std::vector<Event> events;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::string place = where + ":" + std::to_string(number);
    const size_t prefix = line.find(kEventPrefix);
    if (prefix != std::string_view::npos) {
      events.push_back(parse_event(line.substr(prefix + kEventPrefix.size()), place));
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return events;
}

std::vector<std::string> event_problems(const std::vector<Event>& events, bool finished) {
  std::vector<std::string> problems;
  ProcessEvents process;
  bool any = false;
  for (size_t i = 0; i < events.size(); ++i) {
    if (i > 0 && events[i].time_ms < events[i - 1].time_ms) {
      problems.push_back("time runs backwards at " + events[i].key);
    }
    if (events[i].key == "init_start") process = ProcessEvents();
    any = any || events[i].key == "init_start";
    process.add(events[i], problems);
  }
  if (!any) problems.emplace_back("no init_start");
  if (finished) process.close(problems);
  return problems;
}

}  // namespace noisemark::reports
