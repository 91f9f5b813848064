#include "reports/base/error.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace noisemark {

Error bad_input(const std::string& where, const std::string& what, const std::string& found,
                const std::string& accepted) {
  std::string text = where;
  for (const std::string& part : {what, found}) {
    if (part.empty()) continue;
    if (!text.empty()) text += ": ";
    text += part;
  }
  if (!accepted.empty()) text += " (" + accepted + ")";
  return {ExitCode::kBadInput, text};
}

std::string error_status(ExitCode code) {
  switch (code) {
    case ExitCode::kBadInput:
      return "bad input";
    case ExitCode::kNotComparable:
      return "not comparable";
    case ExitCode::kInternal:
      return "internal error";
    case ExitCode::kOutOfMemory:
      return "out of memory";
    case ExitCode::kCannotWrite:
      return "cannot write";
    case ExitCode::kCannotRunHere:
      return "cannot run here";
    case ExitCode::kInterrupted:
      return "interrupted";
    default:
      return "failed";
  }
}

}  // namespace noisemark

namespace noisemark::reports {
namespace {

char small(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool same_letter(char a, char b) {
  return small(a) == small(b);
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), small);
  return lower;
}

size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = same_letter(a[i - 1], b[j - 1]) ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    // A swap reaches back two rows, so only two rows beyond the limit prove that the end is too.
    if (std::min(*std::min_element(row.begin(), row.end()),
                 *std::min_element(above.begin(), above.end())) > limit) {
      return limit + 1;
    }
    before.swap(above);
    above.swap(row);
  }
  return std::min(above.back(), limit + 1);
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> valid) {
  size_t best = std::max<size_t>(2, name.size() / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : valid) {
    const size_t distance = edit_distance(name, candidate, best - 1);
    // A name that shares no letter is never what was meant, however short both are.
    if (distance < best && distance < std::max(name.size(), candidate.size())) {
      best = distance;
      found = candidate;
      if (best == 0) break;
    }
  }
  return found;
}

std::string accepted_names(std::string_view name, std::span<const std::string> valid) {
  std::string text;
  if (const auto near = nearest(name, valid)) text = "nearest \"" + *near + "\"; ";
  text += "one of: ";
  for (size_t i = 0; i < valid.size(); ++i) text += (i == 0 ? "" : ", ") + valid[i];
  return text;
}

}  // namespace noisemark::reports
