#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// events.mlog: what happened when, one line per event, in the form of MLPerf logging
/// (`:::MLLOG {"namespace": .., "time_ms": .., "event_type": .., "key": .., "value": ..,
/// "metadata": ..}`), prefix included, so that its parsers read our files as they are.
namespace noisemark::reports {

/// Begins every line.
inline constexpr std::string_view kEventPrefix = ":::MLLOG ";

enum class EventType { kIntervalStart, kIntervalEnd, kPointInTime };

using EventValue = std::variant<std::monostate, bool, int64_t, double, std::string>;
using EventMetadata = std::map<std::string, EventValue>;

struct Event {
  int64_t time_ms = 0;  ///< time from 1970 on, UTC
  EventType type = EventType::kPointInTime;
  std::string key;
  EventValue value;
  EventMetadata metadata;
};

/// One line without its end. A double that is not finite becomes null, and metadata `not_finite`
/// says what it was.
[[nodiscard]] std::string event_line(const Event& event);

/// Appends events to a file and flushes each, so that a killed run keeps what it did. It is not
/// safe to share between threads. Throws Error (cannot write).
class EventWriter {
 public:
  using Clock = std::function<int64_t()>;  ///< milliseconds since 1970

  /// `resume` keeps the events that are there and cuts off a half-written last line; otherwise the
  /// file starts empty. An empty clock is the system's.
  explicit EventWriter(const std::filesystem::path& path, bool resume = false, Clock clock = {});

  void start(const std::string& name, const EventMetadata& metadata = {});  ///< key `name`_start
  void stop(const std::string& name, const EventMetadata& metadata = {});   ///< key `name`_stop
  void point(const std::string& key, const EventValue& value, const EventMetadata& metadata = {});

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };
  void write(Event event);

  std::filesystem::path path_;
  Clock clock_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Every event of a file's text. Lines without the prefix are not ours and are passed over, as
/// MLPerf's parsers do. Throws Error (bad input) «where:line: ...» for a malformed one.
[[nodiscard]] std::vector<Event> read_events(std::string_view text, const std::string& where);

/// Returns the faults in the order of events: time runs backwards; a stop without its start; an
/// interval opened twice or, when `finished`, never closed; not exactly one run per `init_start`,
/// or none where init_stop has the status «aborted». A resumed run has one `init_start` per
/// process, of which only the last need be closed.
[[nodiscard]] std::vector<std::string> event_problems(const std::vector<Event>& events,
                                                      bool finished);

}  // namespace noisemark::reports
