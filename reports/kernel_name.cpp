#include "reports/kernel_name.h"

#include <array>
#include <cctype>

namespace noisemark::reports {
namespace {

constexpr size_t kMostCharacters = 80;
constexpr size_t kKeptOfTheEnd = 28;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Up to the parenthesis of the parameters: the last one that opens outside of angle brackets. One
/// of "(anonymous namespace)" or of a cast opens no parameters.
std::string_view without_parameters(std::string_view name) {
  int angles = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++angles;
    if (name[i] == '>') --angles;
    const bool after_a_name = i > 0 && (is_word(name[i - 1]) || name[i - 1] == '>');
    if (name[i] == '(' && angles == 0 && after_a_name) return name.substr(0, i);
  }
  return name;
}

/// "cutlass::Kernel<a::b>" -> "Kernel<b>"
std::string without_namespaces(std::string_view name) {
  std::string text;
  size_t word = 0;  // where the last word of `text` begins
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with("::")) {
      text.resize(word);
      ++i;
      continue;
    }
    text += name[i];
    if (!is_word(name[i])) word = text.size();
  }
  return text;
}

std::string without(std::string text, std::string_view part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part)) {
    text.erase(at, part.size());
  }
  return text;
}

std::string_view without_ending(std::string_view name) {
  constexpr std::array<std::string_view, 3> kEndings{"__5x_cudnn", "_cudnn", "_kernel"};
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return name;
}

/// CUTLASS's kernels have their names in the argument of a template that all of them share.
std::string_view inside_cutlass(std::string_view name) {
  for (const std::string_view shell : {"Kernel<", "Kernel2<"}) {
    if (!name.starts_with(shell) || !name.ends_with('>')) continue;
    return name.substr(shell.size(), name.size() - shell.size() - 1);
  }
  return name;
}

}  // namespace

std::string short_kernel_name(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  std::string text(without_parameters(name));
  for (const std::string_view part : {"(anonymous namespace)::", "(int)", "(bool)"}) {
    text = without(text, part);
  }
  text = without_namespaces(text);
  text = without_ending(inside_cutlass(text));
  if (text.size() <= kMostCharacters) return text;
  constexpr std::string_view kCut = " ... ";
  const size_t begin = kMostCharacters - kKeptOfTheEnd - kCut.size();
  return text.substr(0, begin) + std::string(kCut) + text.substr(text.size() - kKeptOfTheEnd);
}

}  // namespace noisemark::reports
