#include "reports/profile/recording.h"

#include <fmt/format.h>
#include <zlib.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "reports/base/error.h"
#include "reports/base/file.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEvents = "\"traceEvents\": [";
constexpr std::string_view kBase = "\"baseTimeNanoseconds\": ";
constexpr int64_t kNsPerUs = 1000;

class PackedFile {
 public:
  explicit PackedFile(const fs::path& path) : path_(path), file_(gzopen(path.c_str(), "wb6")) {
    if (file_ == nullptr) throw_cannot_write();
  }
  ~PackedFile() {
    if (file_ != nullptr) gzclose(file_);
  }
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  void write(std::string_view text) {
    plain_bytes_ += static_cast<int64_t>(text.size());
    const auto size = static_cast<unsigned>(text.size());
    if (size != 0 && gzwrite(file_, text.data(), size) == 0) throw_cannot_write();
  }

  int64_t close() {
    if (gzclose(std::exchange(file_, nullptr)) != Z_OK) throw_cannot_write();
    return plain_bytes_;
  }

 private:
  [[noreturn]] void throw_cannot_write() const { throw unwritten_trace(path_); }

  fs::path path_;
  gzFile file_;
  int64_t plain_bytes_ = 0;
};

std::string counter_line(const MemoryCounter& counter, int64_t base_ns, int64_t pid) {
  const int64_t since_ns = counter.time_ns - base_ns;
  std::string args;
  for (const auto& [owner, bytes] : counter.bytes) {
    args += fmt::format("{}\"{}\": {}", args.empty() ? "" : ", ", owner, bytes);
  }
  return fmt::format(
      "  {{\"ph\": \"C\", \"name\": \"memory by owner, bytes\", \"pid\": {}, \"tid\": {}, "
      "\"ts\": {}.{:03}, \"args\": {{{}}}}},\n",
      pid, pid, since_ns / kNsPerUs, since_ns % kNsPerUs, args);
}

}  // namespace

TraceSizes pack_trace(const fs::path& from, const fs::path& to,
                      const std::vector<MemoryCounter>& counters, int64_t pid) {
  std::ifstream trace(from);
  PackedFile packed(to);
  int64_t base_ns = 0;
  bool found = false;
  for (std::string line; std::getline(trace, line);) {
    packed.write(line + "\n");
    if (found) continue;
    if (const size_t at = line.find(kBase); at != std::string::npos) {
      base_ns = std::stoll(line.substr(at + kBase.size()));
    }
    found = line.find(kEvents) != std::string::npos;
    if (!found) continue;
    for (const MemoryCounter& counter : counters) {
      packed.write(counter_line(counter, base_ns, pid));
    }
  }
  if (trace.bad()) throw failed_read(from, errno);
  if (!found) {
    throw bad_input(from.string(), "traceEvents", "no list of events", "a trace of kineto");
  }
  TraceSizes sizes;
  sizes.plain_bytes = packed.close();
  sizes.packed_bytes = static_cast<int64_t>(fs::file_size(to));
  return sizes;
}

Error unwritten_trace(const fs::path& path) {
  constexpr size_t kAsLargeAsMost = size_t{16} << 20U;
  try {
    const StagedFile tried(path, std::string(kAsLargeAsMost, ' '));
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::kCannotWrite, path.string() + ": cannot be written, and nothing says why"};
}

}  // namespace noisemark::reports
