#include "suite/probes/resident_memory.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

namespace noisemark::suite {
namespace {

constexpr int64_t kBytesPerKilobyte = 1024;

std::string reason(const char* file) {
  return std::string(file) + ": " + std::strerror(errno);
}

}  // namespace

std::string reset_resident_peak() {
  constexpr const char* kFile = "/proc/self/clear_refs";
  errno = 0;
  std::ofstream file(kFile);
  file << "5" << std::flush;  // proc(5): resets the peak resident set size
  return file ? std::string() : reason(kFile);
}

std::variant<ResidentMemory, std::string> read_resident_memory() {
  constexpr const char* kFile = "/proc/self/status";
  errno = 0;
  std::ifstream file(kFile);
  std::optional<int64_t> peak, mapped;
  for (std::string key; file >> key;) {
    int64_t kilobytes = 0;
    if (key == "VmHWM:" && file >> kilobytes) peak = kilobytes * kBytesPerKilobyte;
    if (key == "RssFile:" && file >> kilobytes) mapped = kilobytes * kBytesPerKilobyte;
    file.clear(file.rdstate() & ~std::ios::failbit);
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (!peak || !mapped) return std::string(kFile) + ": has no VmHWM or no RssFile";
  return ResidentMemory{*peak, *mapped};
}

}  // namespace noisemark::suite
