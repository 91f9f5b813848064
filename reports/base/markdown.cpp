#include "reports/base/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <stdexcept>

#include "reports/base/quantity.h"

namespace noisemark::reports {
namespace {

/// The code point of a character of `size` bytes.
uint32_t point_of(std::string_view text, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (size == 1) return byte(0);
  uint32_t point = byte(0) & (0x7FU >> size);
  for (size_t i = 1; i < size; ++i) point = point << 6U | (byte(i) & 0x3FU);
  return point;
}

/// Controls, line and paragraph separators, and what turns the direction of writing.
bool is_unprintable(uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x200E || point == 0x200F ||
         (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

bool is_blank(char c) {
  return c == ' ';
}

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || byte >= 0x80;
}

bool is_punctuation(char c) {
  return std::ispunct(static_cast<unsigned char>(c)) != 0;
}

/// The length of the run of backquotes with which `text` begins.
size_t quotes(std::string_view text) {
  return std::min(text.find_first_not_of('`'), text.size());
}

/// The length of the longest such run anywhere in it.
size_t longest_quotes(std::string_view text) {
  size_t longest = 0;
  for (size_t i = text.find('`'); i < text.size(); i = text.find('`', i)) {
    const size_t run = quotes(text.substr(i));
    longest = std::max(longest, run);
    i += run;
  }
  return longest;
}

/// Bytes of the code span with which `text` begins; 0 where it begins with none.
size_t code_span(std::string_view text) {
  const size_t fence = quotes(text);
  if (fence == 0) return 0;
  for (size_t i = text.find('`', fence); i < text.size(); i = text.find('`', i)) {
    const size_t run = quotes(text.substr(i));
    if (run == fence) return i + run;
    i += run;
  }
  return 0;
}

/// Returns whether the character at `i` would be markup there.
bool is_markup(std::string_view text, size_t i) {
  const char before = i == 0 ? ' ' : text[i - 1];
  const char after = i + 1 == text.size() ? ' ' : text[i + 1];
  switch (text[i]) {
    case '\\':
      return i + 1 == text.size() || is_punctuation(after);
    case '*':
      return !is_blank(before) || !is_blank(after);
    case '_':
      return !(is_word(before) && is_word(after)) && !(is_blank(before) && is_blank(after));
    case '~':
      return !is_blank(before) || after == '~';
    case '<':
      return is_word(after) || after == '/' || after == '!' || after == '?';
    case '&':
      return after == '#' || std::isalpha(static_cast<unsigned char>(after)) != 0;
    case ']':
      // A link within the page leads nowhere that a reader is not already.
      return (after == '(' && !text.substr(i + 2).starts_with('#')) || after == '[' || after == ':';
    default:
      return false;
  }
}

/// `text`, of one line, with its markup escaped; spans of code stay.
std::string escaped(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size();) {
    const size_t run = quotes(text.substr(i));
    const size_t span = code_span(text.substr(i));
    if (run > 0 && span == 0) {
      for (size_t k = 0; k < run; ++k) shown += "\\`";
      i += run;
      continue;
    }
    if (span == 0 && is_markup(text, i)) shown += '\\';
    const size_t length = std::max<size_t>(span, 1);
    shown += text.substr(i, length);
    i += length;
  }
  return shown;
}

/// Returns where the beginning of a block (a heading, an item, a quotation, a rule) is to be
/// escaped; npos: the line begins none.
size_t block_mark(std::string_view line) {
  if (line.empty()) return std::string_view::npos;
  const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  if (digits > 0) {
    const bool item = digits < line.size() && (line[digits] == '.' || line[digits] == ')') &&
                      (digits + 1 == line.size() || line[digits + 1] == ' ');
    return item ? digits : std::string_view::npos;
  }
  const char second = line.size() > 1 ? line[1] : ' ';
  const bool item = (line[0] == '-' || line[0] == '+') && second == ' ';
  const bool rule = line.find_first_not_of("- ") == std::string_view::npos ||
                    line.find_first_not_of("= ") == std::string_view::npos;
  const bool heading = line[0] == '#' && (second == ' ' || second == '#');
  const bool box = line[0] == '[' && line.size() > 2 && line[2] == ']';
  const bool marks = item || rule || heading || box || line[0] == '>' || line.starts_with("[^");
  return marks ? 0 : std::string_view::npos;
}

std::string cell_text(std::string_view cell) {
  constexpr std::string_view kBold = "**";
  const std::string line = one_line(cell);
  const bool bold =
      line.size() > 2 * kBold.size() && line.starts_with(kBold) && line.ends_with(kBold);
  std::string shown = bold ? fmt::format("{0}{1}{0}", kBold,
                                         escaped(std::string_view(line).substr(
                                             kBold.size(), line.size() - 2 * kBold.size())))
                           : escaped(line);
  for (size_t i = shown.find('|'); i != std::string::npos; i = shown.find('|', i + 2)) {
    shown.insert(i, 1, '\\');
  }
  return shown;
}

/// A path for the address of a link: bytes that end it or mean something else there as %XX.
std::string address(std::string_view path) {
  constexpr std::string_view kKept = "-._~/@=+,:";
  std::string text;
  for (const char c : path) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || kKept.find(c) != std::string::npos) {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

constexpr std::string_view kNoBreakSpace = "\xC2\xA0";

/// "[1.2, 3.4]" and "**12**" end with a number too.
bool ends_with_number(std::string_view text) {
  const size_t last = text.find_last_not_of("*])");
  return last != std::string_view::npos &&
         std::isdigit(static_cast<unsigned char>(text[last])) != 0;
}

bool begins_with_unit(std::string_view text) {
  const auto is_of_unit = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '%' || c == '/';
  };
  const auto end = std::find_if_not(text.begin(), text.end(), is_of_unit);
  const bool word_ends = end == text.end() || std::isalnum(static_cast<unsigned char>(*end)) == 0;
  return word_ends && is_unit(text.substr(0, static_cast<size_t>(end - text.begin())));
}

/// Bytes of `text`, which is not empty, that are taken together: a span of code, quotes that begin
/// none, an escaped character, or one byte.
size_t piece(std::string_view text) {
  if (text[0] == '\\' && text.size() > 1) return 2;
  return std::max({code_span(text), quotes(text), size_t{1}});
}

std::string with_whole_quantities(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size();) {
    const bool binds = is_blank(line[i]) && ends_with_number(line.substr(0, i)) &&
                       begins_with_unit(line.substr(i + 1));
    const size_t length = piece(line.substr(i));
    text += binds ? kNoBreakSpace : line.substr(i, length);
    i += length;
  }
  return text;
}

int digit_of(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return static_cast<int>(
      kDigits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(c)))));
}

/// Does `action` with each line of a page of Markdown, and tells it whether the line is code.
template <typename Action>
void for_each_line(std::string_view page, const Action& action) {
  constexpr size_t kShortestFence = 3;
  size_t fence = 0;  // length of the fence around the block of code that a line is in
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    const size_t run = quotes(line);
    const bool in_code = fence > 0;
    if (in_code && run >= fence && run == line.size()) {
      fence = 0;
    } else if (!in_code && run >= kShortestFence) {
      fence = run;
    }
    action(line, in_code || fence > 0);
    page.remove_prefix(std::min(line.size() + 1, page.size()));
  }
}

/// The addresses of the links in a line of Markdown.
std::vector<std::string_view> addresses_in_line(std::string_view line) {
  std::vector<std::string_view> found;
  while (!line.empty()) {
    size_t length = piece(line);
    const size_t end = line.starts_with("](") ? line.find(')') : std::string_view::npos;
    if (end != std::string_view::npos) {
      found.push_back(line.substr(2, end - 2));
      length = end;
    }
    line.remove_prefix(length);
  }
  return found;
}

/// The addresses of the links of a page of HTML; images are in it, and scripts end it.
std::vector<std::string_view> addresses_in_html(std::string_view page) {
  constexpr std::string_view kLink = "<a href=\"";
  std::vector<std::string_view> found;
  page = page.substr(0, page.find("<script"));
  for (size_t at = page.find(kLink); at != std::string_view::npos; at = page.find(kLink, at)) {
    at += kLink.size();
    found.push_back(page.substr(at, page.find('"', at) - at));
  }
  return found;
}

/// Returns whether the byte continues a character of UTF-8.
bool is_inside(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

/// Characters on the screen, for UTF-8 without wide or combining ones.
size_t display_width(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), is_inside));
}

std::string padded(const std::string& cell, size_t width, Align align) {
  const std::string space(width - display_width(cell), ' ');
  return align == Align::kLeft ? cell + space : space + cell;
}

std::string rule(size_t width, Align align) {
  return align == Align::kLeft ? std::string(width, '-') : std::string(width - 1, '-') + ":";
}

}  // namespace

size_t utf8_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  const uint32_t point = point_of(text, size);
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point < kLeast[size] || point > 0x10FFFF || surrogate ? 0 : size;
}

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const size_t size = utf8_size(text);
    if (text[0] == '\n' || text[0] == '\r' || text[0] == '\t') {
      line += ' ';
    } else if (size == 0 || is_unprintable(point_of(text, size))) {
      line += kReplacement;
    } else {
      line += text.substr(0, size);
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return line;
}

std::string plain(std::string_view text) {
  std::string line = escaped(one_line(text));
  line.erase(0, line.find_first_not_of(' '));
  if (const size_t mark = block_mark(line); mark != std::string::npos) line.insert(mark, 1, '\\');
  return line;
}

std::string link(std::string_view text, std::string_view path) {
  return fmt::format("[{}]({})", plain(text), address(path));
}

std::string picture(std::string_view text, std::string_view path) {
  return fmt::format("!{}", link(text, path));
}

std::string capitals(std::string_view words) {
  std::string text(words);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string bullets(const std::vector<std::string>& items) {
  std::string text = items.empty() ? "" : "\n";
  for (const std::string& item : items) text += fmt::format("- {}\n", plain(item));
  return text;
}

std::string markdown_list(std::string_view heading, const std::vector<std::string>& items) {
  return items.empty() ? "" : fmt::format("\n{}:\n{}", heading, bullets(items));
}

std::string code_block(std::string_view lines, std::string_view language) {
  const std::string fence(std::max<size_t>(longest_quotes(lines), 2) + 1, '`');
  return fmt::format("{0}{1}\n{2}\n{0}\n", fence, language, lines);
}

std::string path_of_address(std::string_view address) {
  std::string path;
  for (size_t i = 0; i < address.size(); ++i) {
    const bool coded = address[i] == '%' && i + 2 < address.size() &&
                       std::isxdigit(static_cast<unsigned char>(address[i + 1])) != 0 &&
                       std::isxdigit(static_cast<unsigned char>(address[i + 2])) != 0;
    path += coded ? static_cast<char>(16 * digit_of(address[i + 1]) + digit_of(address[i + 2]))
                  : address[i];
    if (coded) i += 2;
  }
  return path;
}

std::vector<std::string> linked_files(std::string_view page) {
  std::vector<std::string_view> addresses;
  if (page.starts_with("<!doctype html>")) {
    addresses = addresses_in_html(page);
  } else {
    for_each_line(page, [&](std::string_view line, bool is_code) {
      if (is_code) return;
      const std::vector<std::string_view> more = addresses_in_line(line);
      addresses.insert(addresses.end(), more.begin(), more.end());
    });
  }
  std::vector<std::string> files;
  for (const std::string_view one : addresses) {
    const bool elsewhere =
        one.empty() || one[0] == '#' || one.find("://") != std::string_view::npos;
    if (!elsewhere) files.push_back(path_of_address(one));
  }
  return files;
}

std::string finished_page(std::string_view page) {
  std::string text;
  for_each_line(page, [&](std::string_view line, bool is_code) {
    text += is_code ? std::string(line) : with_whole_quantities(line);
    text += '\n';
  });
  if (!page.empty() && !page.ends_with('\n')) text.pop_back();
  return text;
}

std::string shortened(std::string_view name, size_t most) {
  if (name.size() <= most) return std::string(name);
  size_t head = most * 2 / 3;
  size_t tail = name.size() - (most - head);
  while (head > 0 && is_inside(name[head])) --head;
  while (tail < name.size() && is_inside(name[tail])) ++tail;
  return fmt::format("{}...{}", name.substr(0, head), name.substr(tail));
}

std::string verdict_cell(std::string_view name, bool passes) {
  return passes ? std::string(name) : fmt::format("**{}**", name);
}

std::string code(std::string_view text) {
  if (text.empty()) return "";
  const std::string line = one_line(text);
  const size_t longest = longest_quotes(line);
  const std::string fence(longest + 1, '`');
  const std::string space = longest > 0 ? " " : "";
  return fence + space + line + space + fence;
}

MarkdownTable::MarkdownTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_) column.title = cell_text(column.title);
}

void MarkdownTable::add_row(const std::vector<std::string>& cells) {
  if (cells.size() != columns_.size()) {
    throw std::logic_error("MarkdownTable: a row has another number of cells than columns");
  }
  std::vector<std::string> row;
  for (const std::string& cell : cells) row.push_back(cell_text(cell));
  rows_.push_back(std::move(row));
}

bool MarkdownTable::is_folded(size_t column) const {
  const Fold fold = columns_[column].fold;
  if (fold == Fold::kAlways) return true;
  if (fold == Fold::kNever || rows_.empty()) return false;
  const std::string& first = rows_.front()[column];
  if (fold == Fold::kIfEmpty && !first.empty()) return false;
  return std::all_of(rows_.begin(), rows_.end(),
                     [&](const auto& row) { return row[column] == first; });
}

std::string MarkdownTable::alike() const {
  std::string words;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].fold == Fold::kAlways || !is_folded(c) || rows_.front()[c].empty()) continue;
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", columns_[c].title, rows_.front()[c]);
  }
  return words.empty() ? "" : fmt::format("Every row has {}.\n\n", words);
}

std::string MarkdownTable::text() const {
  constexpr size_t kNarrowest = 3;
  std::string titles = "|";
  std::string rules = "|";
  std::vector<std::string> lines(rows_.size(), "|");
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (is_folded(c)) continue;
    const auto& [title, align, fold] = columns_[c];
    size_t width = std::max(kNarrowest, display_width(title));
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    titles += fmt::format(" {} |", padded(title, width, align));
    rules += fmt::format(" {} |", rule(width, align));
    for (size_t r = 0; r < rows_.size(); ++r) {
      lines[r] += fmt::format(" {} |", padded(rows_[r][c], width, align));
    }
  }
  std::string text = fmt::format("{}{}\n{}\n", alike(), titles, rules);
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace noisemark::reports
