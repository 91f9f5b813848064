#include "reports/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace noisemark::reports {
namespace {

std::string escaped(const std::string& cell) {
  std::string text;
  for (const char c : cell) {
    if (c == '|') text += '\\';
    text += c == '\n' || c == '\r' ? ' ' : c;
  }
  return text;
}

std::string padded(const std::string& cell, size_t width, Align align) {
  const std::string space(width - display_width(cell), ' ');
  return align == Align::kLeft ? cell + space : space + cell;
}

std::string rule(size_t width, Align align) {
  return align == Align::kLeft ? std::string(width, '-') : std::string(width - 1, '-') + ":";
}

}  // namespace

size_t display_width(std::string_view text) {
  constexpr unsigned char kContinuationMask = 0xC0;
  constexpr unsigned char kContinuation = 0x80;
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & kContinuationMask) != kContinuation;
  }));
}

std::string code(std::string_view text) {
  if (text.empty()) return "";
  size_t longest = 0;
  for (size_t i = 0, run = 0; i < text.size(); ++i) {
    run = text[i] == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const std::string space = longest > 0 ? " " : "";
  return fence + space + std::string(text) + space + fence;
}

MarkdownTable::MarkdownTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void MarkdownTable::add_row(const std::vector<std::string>& cells) {
  if (cells.size() != columns_.size()) {
    throw std::logic_error("MarkdownTable: a row has another number of cells than columns");
  }
  std::vector<std::string> row;
  for (const std::string& cell : cells) row.push_back(escaped(cell));
  rows_.push_back(std::move(row));
}

std::string MarkdownTable::text() const {
  constexpr size_t kNarrowest = 3;
  std::string titles = "|";
  std::string rules = "|";
  std::vector<std::string> lines(rows_.size(), "|");
  for (size_t c = 0; c < columns_.size(); ++c) {
    const auto& [title, align] = columns_[c];
    size_t width = std::max(kNarrowest, display_width(title));
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    titles += fmt::format(" {} |", padded(title, width, align));
    rules += fmt::format(" {} |", rule(width, align));
    for (size_t r = 0; r < rows_.size(); ++r) {
      lines[r] += fmt::format(" {} |", padded(rows_[r][c], width, align));
    }
  }
  std::string text = titles + "\n" + rules + "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace noisemark::reports
