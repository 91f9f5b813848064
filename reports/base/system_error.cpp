#include "reports/base/system_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ios>
#include <string>
#include <string_view>

namespace noisemark::reports {
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
