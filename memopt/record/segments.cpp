#include "memopt/record/segments.h"

#include <set>

namespace noisemark::memopt {
namespace {

/// "a.b.c" -> "a.b"; a name without a dot has no parent: "".
std::string parent_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

bool is_weight_matrix(const std::string& name, const at::Tensor& tensor) {
  constexpr std::string_view kSuffix = "weight";
  return tensor.dim() >= 2 && name.size() >= kSuffix.size() &&
         name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
}

}  // namespace

std::unordered_map<std::string, std::string> segments_of(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  std::unordered_map<std::string, int> matrices_below;
  for (const auto& [name, tensor] : parameters) {
    if (!is_weight_matrix(name, tensor)) continue;
    for (std::string module = parent_of(name); !module.empty(); module = parent_of(module)) {
      ++matrices_below[module];
    }
  }
  // Modules that hold a block somewhere below are too large to be one.
  std::set<std::string> too_large;
  for (const auto& [module, count] : matrices_below) {
    if (count < 2) continue;
    for (std::string above = parent_of(module); !above.empty(); above = parent_of(above)) {
      too_large.insert(above);
    }
  }
  std::unordered_map<std::string, std::string> segment;
  for (const auto& [name, tensor] : parameters) {
    std::string found = parent_of(name);
    for (std::string module = found; !module.empty(); module = parent_of(module)) {
      const auto count = matrices_below.find(module);
      if (count == matrices_below.end() || count->second < 2) continue;
      if (too_large.count(module) == 0) found = module;
      break;
    }
    segment.emplace(name, found);
  }
  return segment;
}

}  // namespace noisemark::memopt
