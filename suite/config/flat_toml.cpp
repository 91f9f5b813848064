#include "suite/config/flat_toml.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "reports/error.h"
#include "suite/config/toml_nodes.h"

namespace noisemark::suite {

std::vector<TomlEntry> read_flat_toml(std::string_view text, const std::string& file) {
  // toml++ keeps keys by name, not by line.
  std::vector<std::pair<toml::source_position, TomlEntry>> found;
  for (const auto& [name, node] : parse_toml(text, file)) {
    std::optional<Value> value = to_value(node);
    const std::string place = place_of(file, node.source());
    if (!value) {
      throw bad_input(place, std::string(name.str()), found_text(node),
                      "text, a number, true, false, or a list of texts or integers");
    }
    found.emplace_back(name.source().begin, TomlEntry{.name = std::string(name.str()),
                                                      .name_place = place_of(file, name.source()),
                                                      .place = place,
                                                      .value = *std::move(value)});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TomlEntry> entries;
  for (auto& [position, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

}  // namespace noisemark::suite
