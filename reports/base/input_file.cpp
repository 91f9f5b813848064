#include "reports/base/input_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "reports/base/error.h"

namespace noisemark::reports {
namespace {

const char* kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  return S_ISSOCK(status.st_mode) ? "a socket" : "a device";
}

}  // namespace

std::ifstream open_file(const std::filesystem::path& path, const std::string& accepted) {
  const auto refused = [&](const std::string& found, const std::string& wanted) {
    return bad_input(path.string(), "cannot be read", found, wanted);
  };
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw refused(std::strerror(errno), "");
  if (!S_ISREG(status.st_mode)) throw refused(kind_of(status), accepted);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw refused(std::strerror(errno), "");
  return in;
}

}  // namespace noisemark::reports
