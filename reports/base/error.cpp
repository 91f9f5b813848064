#include "reports/base/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ios>
#include <numeric>
#include <string>
#include <string_view>
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

namespace {

namespace fs = std::filesystem;

bool is_one_of(const std::error_code& code, std::initializer_list<std::errc> conditions) {
  return std::any_of(conditions.begin(), conditions.end(),
                     [&](std::errc condition) { return code == condition; });
}

bool is_quota(const std::error_code& code) {
  return code == std::error_code(EDQUOT, std::generic_category()) ||
         code == std::error_code(EDQUOT, std::system_category());
}

bool has_no_room(const std::error_code& code) {
  return is_quota(code) ||
         is_one_of(code, {std::errc::no_space_on_device, std::errc::read_only_file_system,
                          std::errc::file_too_large, std::errc::too_many_links});
}

bool lacks_memory_or_threads(const std::error_code& code) {
  return is_one_of(code, {std::errc::not_enough_memory, std::errc::resource_unavailable_try_again});
}

bool lacks_descriptors(const std::error_code& code) {
  return is_one_of(code,
                   {std::errc::too_many_files_open, std::errc::too_many_files_open_in_system});
}

bool is_of_a_device(const std::error_code& code) {
  return is_one_of(code, {std::errc::io_error, std::errc::bad_message});
}

// std::filesystem names its operation nowhere but in its text; these are the ones that write.
bool was_writing(const fs::filesystem_error& error) {
  constexpr std::array<std::string_view, 8> kWriting = {
      "cannot create", "cannot remove", "cannot rename", "cannot copy",
      "cannot resize", "cannot set",    "cannot make",   "cannot write"};
  const std::string_view text = error.what();
  return std::any_of(kWriting.begin(), kWriting.end(), [&](std::string_view operation) {
    return text.find(operation) != std::string_view::npos;
  });
}

std::string places_of(const fs::filesystem_error& error) {
  std::string text = error.path1().string();
  if (!error.path2().empty()) text += " to " + error.path2().string();
  return text.empty() ? error.what() : text;
}

}  // namespace

Error error_of(const std::system_error& error) {
  const std::error_code& code = error.code();
  if (lacks_memory_or_threads(code)) {
    return {ExitCode::kOutOfMemory,
            "no more memory, threads or processes can be had: " + code.message() +
                " (fewer threads, or a higher limit: ulimit -u or -v, the pids limit of a "
                "container)"};
  }
  if (lacks_descriptors(code)) {
    return {ExitCode::kOutOfMemory, "too many open files (raise ulimit -n)"};
  }
  if (const auto* of_a_path = dynamic_cast<const fs::filesystem_error*>(&error)) {
    const bool writing = has_no_room(code) || was_writing(*of_a_path);
    const bool failing = writing || is_of_a_device(code);
    return {failing ? ExitCode::kCannotWrite : ExitCode::kBadInput,
            places_of(*of_a_path) + ": cannot be " + (writing ? "written: " : "read: ") +
                code.message()};
  }
  if (has_no_room(code)) {
    return {ExitCode::kCannotWrite, std::string("cannot write: ") + error.what()};
  }
  if (dynamic_cast<const std::ios_base::failure*>(&error) != nullptr) {
    return {ExitCode::kBadInput, std::string("cannot be read: ") + error.what()};
  }
  return {ExitCode::kInternal, error.what()};
}

Error not_written(const fs::path& path, int cause) {
  std::error_code unknown;
  if (cause == ENOENT && path.has_parent_path() && fs::is_directory(path.parent_path(), unknown)) {
    return {ExitCode::kCannotWrite, path.string() +
                                        ": cannot be written: its folder takes nothing new (" +
                                        std::generic_category().message(cause) + ")"};
  }
  return error_of(
      fs::filesystem_error("cannot write", path, std::error_code(cause, std::generic_category())));
}

}  // namespace noisemark::reports
