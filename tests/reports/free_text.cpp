#include "tests/reports/free_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "reports/result/result_fields.h"

namespace noisemark::reports::test {
namespace {

/// Returns the line without spans of code, in which everything may stand.
std::string without_code(std::string_view line) {
  std::string rest;
  for (size_t i = 0; i < line.size();) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      i += 2;
      rest += ' ';
      continue;
    }
    const size_t end = std::min(line.find_first_not_of('`', i), line.size());
    if (end == i) {
      rest += line[i++];
      continue;
    }
    const std::string fence(line.substr(i, end - i));
    size_t close = line.find(fence, end);
    while (close != std::string_view::npos && close + fence.size() < line.size() &&
           line[close + fence.size()] == '`') {
      close = line.find(fence, line.find_first_not_of('`', close));
    }
    i = close == std::string_view::npos ? end : close + fence.size();
  }
  return rest;
}

std::string problem_in(std::string_view line, const std::string& shown) {
  const bool control = std::any_of(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F || c == 0xFF; });
  if (control) return " a control character";
  for (const char* part : {"<img", "</details> ", "<!-- `", "](u)", "](q)"}) {
    if (shown.find(part) != std::string::npos) return fmt::format(" {}", part);
  }
  return "";
}

std::string word_of(std::string_view line) {
  if (line.empty()) return "";
  const std::string shown = without_code(line);
  const std::string problem = problem_in(line, shown);
  if (line.starts_with('#')) return fmt::format("heading {}{}", line.find(' '), problem);
  if (line.starts_with("|")) {
    return fmt::format("row {}{}", std::count(shown.begin(), shown.end(), '|'), problem);
  }
  if (line.starts_with("- ")) return "item" + problem;
  if (line.starts_with('<') && !line.starts_with("<!-- noisemark")) {
    const bool forged =
        line.find("<img") != std::string_view::npos;  // all else in it is no Markdown
    return fmt::format("tag {}{}", line.substr(0, line.find('>')), forged ? " <img" : "");
  }
  return "text" + problem;
}

/// Visits the texts of a value; a visitor may change them.
class Texts {
 public:
  explicit Texts(std::function<void(std::string&)> visit) : visit_(std::move(visit)) {}

  template <class T>
  void of(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      visit_(value);
    } else if constexpr (json::IsOptional<T>::value) {
      if (value) of(*value);
    } else if constexpr (json::IsList<T>::value) {
      if constexpr (!std::is_arithmetic_v<typename T::value_type>) {
        for (auto& entry : value) of(entry);
      }
    } else if constexpr (json::IsMap<T>::value) {
      of_map(value);
    } else if constexpr (json::Described<T>) {
      std::apply([&](const auto&... fields) { (of(value.*fields.member), ...); },
                 json::Fields<T>::kAll);
    }
  }

 private:
  template <class Map>
  void of_map(Map& map) {
    Map changed;
    for (auto& [key, entry] : map) {
      std::string name = key;
      visit_(name);
      of(entry);
      changed.emplace(name, entry);
    }
    map = std::move(changed);
  }

  std::function<void(std::string&)> visit_;
};

}  // namespace

std::vector<std::string> outline(std::string_view markdown) {
  std::vector<std::string> words;
  std::string fence;
  while (!markdown.empty()) {
    const size_t end = std::min(markdown.find('\n'), markdown.size());
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    const size_t quotes = std::min(line.find_first_not_of('`'), line.size());
    if (!fence.empty()) {
      if (line.substr(0, quotes).size() >= fence.size() && quotes == line.size()) fence.clear();
    } else if (quotes >= 3 && line.find('`', quotes) == std::string_view::npos) {
      fence = line.substr(0, quotes);
      words.emplace_back("code");
    } else {
      words.push_back(word_of(line));
    }
  }
  return words;
}

void with_each_text(const Result& result, std::string_view text,
                    const std::function<void(const Result&, size_t)>& use) {
  // The run's own number is made of digits, and is no text that anybody chose.
  for (size_t wanted = 0;; ++wanted) {
    Result changed = result;
    size_t count = 0;
    Texts([&](std::string& one) {
      if (count++ == wanted && one != result.run_id) one = text;
    }).of(changed);
    if (wanted >= count) return;
    use(changed, wanted);
  }
}

void expect_no_text_makes_blocks(const Result& result,
                                 const std::function<std::string(const Result&)>& page) {
  std::vector<std::vector<std::string>> with_a_word;
  with_each_text(result, "word", [&](const Result& changed, size_t /*number*/) {
    with_a_word.push_back(outline(page(changed)));
  });
  EXPECT_GT(with_a_word.size(), 100U);
  with_each_text(result, kFreeText, [&](const Result& changed, size_t number) {
    const std::string text = page(changed);
    const std::vector<std::string> words = outline(text);
    const auto [word, expected] = std::mismatch(
        words.begin(), words.end(), with_a_word.at(number).begin(), with_a_word.at(number).end());
    if (word == words.end() && expected == with_a_word.at(number).end()) return;
    ADD_FAILURE() << "text " << number << " makes of block " << word - words.begin() << " \""
                  << (expected == with_a_word.at(number).end() ? "" : *expected) << "\" this: \""
                  << (word == words.end() ? "" : *word) << "\"\n"
                  << text;
  });
}

}  // namespace noisemark::reports::test
