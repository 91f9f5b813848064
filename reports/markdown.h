#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Markdown that also reads well as plain text.
namespace noisemark::reports {

enum class Align { kLeft, kRight };

/// A table whose columns are padded to one width. Pipes and line ends in cells are escaped, an
/// empty cell stays empty. Rows must have as many cells as there are columns (std::logic_error).
class MarkdownTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit MarkdownTable(std::vector<Column> columns);
  void add_row(const std::vector<std::string>& cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Ends with a line end.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// `text` as a code span, whatever quotes it holds; pipes are escaped by the table.
[[nodiscard]] std::string code(std::string_view text);

/// Characters on the screen, for UTF-8 without wide or combining ones.
[[nodiscard]] size_t display_width(std::string_view text);

}  // namespace noisemark::reports
