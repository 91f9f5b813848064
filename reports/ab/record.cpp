#include "reports/ab/record.h"

#include <fmt/format.h>

#include "reports/ab/ab_fields.h"
#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json_writer.h"

namespace noisemark::reports {
namespace {

/// Throws Error (bad input) for a turn without steps, or without a loss for each of them.
void require_whole(const std::vector<AbTurn>& turns, const std::string& where,
                   const std::string& path) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (!turns[i].step_s.empty() && turns[i].loss.size() == turns[i].step_s.size()) continue;
    throw bad_input(where, fmt::format("{}[{}].loss", path, i),
                    fmt::format("{} numbers", turns[i].loss.size()),
                    "as many numbers as step_s, at least one");
  }
}

}  // namespace

std::string_view ab_side_name(AbSide side) {
  return json::name_of(side);
}

AbSide other_side(AbSide side) {
  return side == AbSide::kA ? AbSide::kB : AbSide::kA;
}

std::string ab_json(const AbRecord& record) {
  return document_text(json::kAbDocument, json::tree_of(record));
}

AbRecord ab_from_json(std::string_view text, const std::string& where) {
  auto record = read_document<AbRecord>(text, json::kAbDocument, where, {json::Bounds::kRequired});
  for (size_t i = 0; i < record.pairs.size(); ++i) {
    require_whole(record.pairs[i].warmup, where, fmt::format("pairs[{}].warmup", i));
    require_whole(record.pairs[i].turns, where, fmt::format("pairs[{}].turns", i));
  }
  return record;
}

AbRecord read_ab(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "ab.json" : path;
  return ab_from_json(read_file(file), file.string());
}

}  // namespace noisemark::reports
