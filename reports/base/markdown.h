#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Markdown that also reads well as plain text. Names, titles, notes and messages come from users
/// and their machines: they are shown as they are, and make no heading, row, link or tag.
namespace noisemark::reports {

/// The cell of a table for a value that is missing. "none" is the name of a memory mode.
inline constexpr std::string_view kMissing = "\u2013";

/// U+FFFD, which stands for bytes that are no character.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The last line of a page that does not define its words itself.
inline constexpr std::string_view kGlossaryLine =
    "\nNoisemark's glossary defines the words of this page: `suite/README.md`.\n";

/// Bytes of the first character of `text`, which is not empty; 0 where they are not UTF-8.
[[nodiscard]] size_t utf8_size(std::string_view text);

/// Writes a verdict as a title has it: "not worse" as "NOT WORSE".
[[nodiscard]] std::string capitals(std::string_view words);

/// `text` on one line, which can be printed: line ends and tabs as blanks, other control
/// characters, those that turn the direction of writing, and bytes that are not UTF-8 as U+FFFD.
[[nodiscard]] std::string one_line(std::string_view text);

/// `text` on one line of Markdown that shows it as it is, whatever it holds. Code spans stay, for
/// messages name commands and options in them, and so do links within the page.
[[nodiscard]] std::string plain(std::string_view text);

/// A link to a file by a path relative to the page.
[[nodiscard]] std::string link(std::string_view text, std::string_view path);
/// Shows an image, likewise.
[[nodiscard]] std::string picture(std::string_view text, std::string_view path);
/// Returns the path that such a link was made for from the address in it, where bytes are %XX.
[[nodiscard]] std::string path_of_address(std::string_view address);
/// Returns the files that a page, of Markdown or of HTML, leads to or shows, as paths relative to
/// it. Links within the page and those to other machines are none.
[[nodiscard]] std::vector<std::string> linked_files(std::string_view page);

/// `lines` as a block of code in that language, whatever fences they hold.
[[nodiscard]] std::string code_block(std::string_view lines, std::string_view language);

/// The items, shown as plain() shows a text, behind an empty line; empty without any.
[[nodiscard]] std::string bullets(const std::vector<std::string>& items);

/// Returns them under a line that names them.
[[nodiscard]] std::string markdown_list(std::string_view heading,
                                        const std::vector<std::string>& items);

enum class Align { kLeft, kRight };

/// Decides when a column leaves its table, so that the others fit on a page.
enum class Fold {
  kNever,
  kIfEmpty,  ///< leaves it if every cell is empty
  kAlways,   ///< leaves it: the page says elsewhere what the cells are
  kIfAlike,  ///< leaves it out where all cells are alike too: a sentence before the table says so
};

/// A table whose columns are padded to one width. Cells are shown as plain() shows a text, and one
/// that is `**text**` is bold; an empty cell stays empty. Rows must have as many cells as there are
/// columns (std::logic_error).
class MarkdownTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    Fold fold = Fold::kNever;
  };

  explicit MarkdownTable(std::vector<Column> columns);
  void add_row(const std::vector<std::string>& cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Ends with a line end.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] bool is_folded(size_t column) const;
  /// "Every row has precision fp32.", with an empty line behind it; empty where nothing is said.
  [[nodiscard]] std::string alike() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A verdict as a cell of a table, in which one that does not pass stands out.
[[nodiscard]] std::string verdict_cell(std::string_view name, bool passes);

/// `cells`, which may be columns, and after them `more`.
template <class Cells>
[[nodiscard]] Cells joined(Cells cells, const Cells& more) {
  cells.insert(cells.end(), more.begin(), more.end());
  return cells;
}

/// `text` as a code span on one line, whatever quotes it holds; pipes are escaped by the table.
[[nodiscard]] std::string code(std::string_view text);

/// A finished page in which no line ends between a number and its unit: a no-break space stands
/// there, but in code. Every page for people ends in it, and a page that did stays as it is.
[[nodiscard]] std::string finished_page(std::string_view page);

/// Returns at most so many bytes of a name, with dots in the middle for what is left out: names of
/// templates fill pages, and their ends tell them apart too.
[[nodiscard]] std::string shortened(std::string_view name, size_t most);

}  // namespace noisemark::reports
