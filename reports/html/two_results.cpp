#include "reports/html/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/html/markdown_html.h"
#include "reports/result/json_io.h"

namespace noisemark::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongList = 16;

struct Row {
  std::string path;
  std::string base;
  std::string other;
  bool differs = false;
};

std::string words_of(const Json* value) {
  if (value == nullptr) return "";
  return value->is_string() ? value->get<std::string>()
                            : value->dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* item(const Json* list, size_t i) {
  return list != nullptr && list->is_array() && i < list->size() ? &(*list)[i] : nullptr;
}

const Json* member(const Json* object, const std::string& key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &*found;
}

bool are_equal(const Json* a, const Json* b) {
  return (a == nullptr) == (b == nullptr) && (a == nullptr || *a == *b);
}

bool is_object(const Json* value) {
  return value != nullptr && value->is_object();
}

size_t length(const Json* value) {
  return value != nullptr && value->is_array() ? value->size() : 0;
}

std::string path_of(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

void add_long_list(const std::string& path, const Json* a, const Json* b, std::vector<Row>& rows) {
  size_t different = 0;
  for (size_t i = 0; i < std::max(length(a), length(b)); ++i) {
    if (!are_equal(item(a, i), item(b, i))) ++different;
  }
  rows.push_back({path, fmt::format("{} items", length(a)),
                  fmt::format("{} items, {} of them different", length(b), different),
                  different > 0});
}

void add_rows(const std::string& path, const Json* a, const Json* b, std::vector<Row>& rows) {
  if (is_object(a) || is_object(b)) {
    std::vector<std::string> keys;
    for (const Json* side : {a, b}) {
      if (!is_object(side)) continue;
      for (const auto& entry : side->items()) {
        if (std::find(keys.begin(), keys.end(), entry.key()) == keys.end()) {
          keys.push_back(entry.key());
        }
      }
    }
    for (const std::string& key : keys)
      add_rows(path_of(path, key), member(a, key), member(b, key), rows);
    return;
  }
  const size_t items = std::max(length(a), length(b));
  if (items > kLongList) {
    add_long_list(path, a, b, rows);
    return;
  }
  if (items == 0) {
    rows.push_back({path, words_of(a), words_of(b), !are_equal(a, b)});
    return;
  }
  for (size_t i = 0; i < items; ++i) {
    add_rows(fmt::format("{}[{}]", path, i), item(a, i), item(b, i), rows);
  }
}

/// "1.25", for two numbers.
std::string ratio_of(const Row& row) {
  const auto number = [](const std::string& text) {
    const Json value = Json::parse(text, nullptr, false);
    return value.is_number() ? value.get<double>() : 0.0;
  };
  const double base = number(row.base);
  const double other = number(row.other);
  return base == 0 || other == 0 || !row.differs ? "" : fmt::format("{:.6g}", other / base);
}

}  // namespace

std::string field_table(const nlohmann::ordered_json& base, const nlohmann::ordered_json& other) {
  std::vector<Row> rows;
  add_rows("", &base, &other, rows);
  const auto different =
      std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.differs; });
  std::string html = fmt::format(
      "<p>{} of {} fields differ; they are marked by ≠.</p>\n<div class=\"scroll\">"
      "<table class=\"fields\">\n<thead>\n<tr><th scope=\"col\">field</th><th scope=\"col\">"
      "differs</th><th scope=\"col\">base</th><th scope=\"col\">new</th><th scope=\"col\" "
      "class=\"right\">new / base</th></tr>\n</thead>\n<tbody>\n",
      different, rows.size());
  for (const Row& row : rows) {
    html += fmt::format(
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"right\">{}</td></tr>\n",
        row.differs ? " class=\"differs\"" : "", html_text(row.path), row.differs ? "≠" : "",
        html_text(row.base), html_text(row.other), ratio_of(row));
  }
  return html + "</tbody>\n</table></div>\n";
}

namespace {

constexpr size_t kMostCells = 8;  // number of cells of which the page has every field

const NamedResult* first_of(const Side& side, const std::string& cell) {
  for (const NamedResult& run : side.runs) {
    if (cell_name(run.result.identity) == cell) return &run;
  }
  return nullptr;
}

/// The curves of a run, which scripts draw over those of the other.
Json curves_of(const NamedResult& run) {
  return {
      {"name", run.name}, {"step_s", run.result.samples.step_s}, {"loss", run.result.samples.loss}};
}

}  // namespace

HtmlPage page_of_sides(const Comparison& comparison, const Side& base, const Side& candidate) {
  HtmlPage page{comparison_markdown(comparison, std::numeric_limits<size_t>::max())};
  std::vector<std::string> cells;
  Json pairs = Json::array();
  for (const NamedResult& run : base.runs) {
    const std::string cell = cell_name(run.result.identity);
    const NamedResult* other = first_of(candidate, cell);
    const bool seen = std::find(cells.begin(), cells.end(), cell) != cells.end();
    if (other == nullptr || seen || cells.size() == kMostCells) continue;
    page.more += fmt::format(
        "<h2 id=\"fields-{}\">Field by field: {}</h2>\n<div data-pair=\"{}\"></div>\n<p>base: {}"
        ", new: {}. Where a side has several runs, this is its first.</p>\n{}",
        cells.size(), html_text(cell), cells.size(), html_text(run.name), html_text(other->name),
        field_table(Json::parse(to_json(run.result)), Json::parse(to_json(other->result))));
    pairs.push_back({curves_of(run), curves_of(*other)});
    cells.push_back(cell);
  }
  page.data.emplace_back("pairs", pairs.dump(-1, ' ', false, Json::error_handler_t::replace));
  return page;
}

}  // namespace noisemark::reports
