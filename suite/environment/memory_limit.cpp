#include "suite/environment/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "suite/environment/system_file.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// The number that `text` begins with; empty for "max".
std::optional<int64_t> number_in(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::optional<int64_t> number_in_file(const fs::path& path) {
  return number_in(read_system_file(path.string()));
}

/// "MemTotal:  16384 kB", in bytes.
std::optional<int64_t> kib_field(const fs::path& path, std::string_view key) {
  const auto text = read_system_file(path.string());
  if (!text) return std::nullopt;
  const auto kib = number_in(field_of(*text, key, ':'));
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

std::optional<int64_t> least(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

/// Where the kernel shows a hierarchy of groups, and the group of this process in it.
struct Hierarchy {
  fs::path mount;
  fs::path group;  ///< below the mount; empty: its root
  bool unified = false;
};

/// From a line "ID:CONTROLLERS:/GROUP" of /proc/self/cgroup; of version 2 the controllers are "".
std::optional<Hierarchy> hierarchy_of(std::string_view line, const fs::path& root) {
  const size_t first = line.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  const fs::path group = fs::path(line.substr(second + 1)).relative_path();
  const fs::path mounts = root / "sys/fs/cgroup";
  if (controllers.empty()) return Hierarchy{mounts, group, /*unified=*/true};
  const auto names = split_at(controllers, ',');
  if (std::find(names.begin(), names.end(), "memory") == names.end()) return std::nullopt;
  return Hierarchy{mounts / "memory", group, /*unified=*/false};
}

std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  const std::string text =
      read_system_file((root / "proc/self/cgroup").string()).value_or(std::string{});
  for (const std::string& line : split_at(text, '\n')) {
    if (const auto one = hierarchy_of(line, root)) found.push_back(*one);
  }
  return found;
}

std::optional<int64_t> limit_of_unified(const fs::path& group, int64_t machine_swap) {
  const auto memory = number_in_file(group / "memory.max");
  if (!memory) return std::nullopt;
  const auto swap = number_in_file(group / "memory.swap.max");
  return *memory + std::min(swap.value_or(machine_swap), machine_swap);
}

/// Without a limit the kernel shows the largest multiple of a page: more than any machine has.
std::optional<int64_t> limit_of_version_1(const fs::path& group, int64_t machine_swap) {
  const auto memory = number_in_file(group / "memory.limit_in_bytes");
  if (!memory) return std::nullopt;
  const int64_t with_swap = *memory > INT64_MAX - machine_swap ? *memory : *memory + machine_swap;
  return least(with_swap, number_in_file(group / "memory.memsw.limit_in_bytes"));
}

/// A container may see its own group as the root, so groups that are not there are passed over.
std::optional<int64_t> limit_of(const Hierarchy& hierarchy, int64_t machine_swap) {
  std::optional<int64_t> limit;
  for (fs::path group = hierarchy.group;; group = group.parent_path()) {
    const fs::path folder = hierarchy.mount / group;
    limit = least(limit, hierarchy.unified ? limit_of_unified(folder, machine_swap)
                                           : limit_of_version_1(folder, machine_swap));
    if (group.empty()) return limit;
  }
}

/// The group itself, or what a container sees in its place.
std::optional<int64_t> ended_in(const Hierarchy& hierarchy) {
  const char* const name = hierarchy.unified ? "memory.events" : "memory.oom_control";
  for (const fs::path& folder : {hierarchy.mount / hierarchy.group, hierarchy.mount}) {
    const auto text = read_system_file((folder / name).string());
    if (text) return number_in(field_of(*text, "oom_kill", ' '));
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> memory_limit_bytes(const fs::path& root) {
  const fs::path machine = root / "proc/meminfo";
  const int64_t swap = kib_field(machine, "SwapTotal").value_or(0);
  std::optional<int64_t> limit = kib_field(machine, "MemTotal");
  if (limit) *limit += swap;
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    limit = least(limit, limit_of(hierarchy, swap));
  }
  if (!limit) return std::nullopt;
  const int64_t held = kib_field(root / "proc/self/status", "RssAnon").value_or(0);
  return std::max<int64_t>(*limit - held, 0);
}

std::optional<int64_t> processes_ended_for_memory(const fs::path& root) {
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    if (const auto ended = ended_in(hierarchy)) return ended;
  }
  return std::nullopt;
}

}  // namespace noisemark::suite
