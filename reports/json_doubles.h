#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reports/error.h"

namespace noisemark::reports {

/// For nlohmann's parser, which keeps one of two equal keys of an object: a strict reader has no
/// favourite. Throws Error (bad input), which begins with `where`. One per text.
template <class Json>
class RefuseDoubles {
 public:
  explicit RefuseDoubles(std::string where) : where_(std::move(where)) {}

  bool operator()(int /*depth*/, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    if (event == Event::object_start) open_objects_.emplace_back();
    if (event == Event::object_end) open_objects_.pop_back();
    if (event == Event::key &&
        !open_objects_.back().insert(parsed.template get<std::string>()).second) {
      throw bad_input(where_, parsed.template get<std::string>(), "this key twice in one object",
                      "every key once");
    }
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> open_objects_;
};

}  // namespace noisemark::reports
