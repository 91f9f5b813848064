#include "baselines/baseline.h"

#include <malloc.h>
#include <algorithm>
#include <limits>
#include <stdexcept>

namespace noisemark::baselines {
namespace {

constexpr std::string_view kPlain = "plain";

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = 0; end != std::string_view::npos; begin = end + 1) {
    end = text.find('+', begin);
    parts.emplace_back(text.substr(begin, end - begin));
  }
  return parts;
}

/// Levenshtein distance: how many letters differ.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view name) {
  const auto& table = baselines();
  return std::min_element(table.begin(), table.end(),
                          [name](const BaselineEntry& a, const BaselineEntry& b) {
                            return edit_distance(a.name, name) < edit_distance(b.name, name);
                          })
      ->name;
}

/// The one way to write a set of names: table order, each once; "plain" only when alone.
std::string canonical(const std::vector<std::string>& names) {
  std::string joined;
  for (const BaselineEntry& entry : baselines()) {
    if (entry.name == kPlain || std::find(names.begin(), names.end(), entry.name) == names.end()) {
      continue;
    }
    if (!joined.empty()) joined += '+';
    joined += entry.name;
  }
  return joined.empty() ? std::string(kPlain) : joined;
}

std::string nearest_spelling(std::vector<std::string> names) {
  for (std::string& name : names) name = nearest_name(name);
  return canonical(names);
}

std::string accepted_spellings() {
  std::string names;
  for (const BaselineEntry& entry : baselines()) {
    if (entry.name == kPlain) continue;
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return "plain, or some of " + names + " joined by \"+\" in this order";
}

void merge(Execution& into, const Execution& part) {
  into.channels_last |= part.channels_last;
  into.fused |= part.fused;
  into.cuda_graph |= part.cuda_graph;
  into.autotuned |= part.autotuned;
  into.pooled_memory |= part.pooled_memory;
  if (!part.precision.empty()) into.precision = part.precision;
}

/// Makes the C library keep what is freed, for the rest of the process: no allocation is mapped on
/// its own, the heap is never trimmed, grows in large pieces, and is one for all threads. A
/// training step frees and allocates the same blocks again and again; by default each large one is
/// unmapped and mapped anew, and the kernel zeroes its pages every time. What tensors ask for, and
/// therefore the memory by owner, does not change; the resident set may be larger (fragmentation of
/// the heap). Does nothing where the C library is not glibc.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kNever = std::numeric_limits<int>::max();
  constexpr int kGrowBy = 64 << 20;
  // M_MMAP_MAX rather than M_MMAP_THRESHOLD: glibc refuses thresholds above 32 MiB.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, kGrowBy);
  // Other arenas than the main one cannot hold blocks above 64 MiB.
  mallopt(M_ARENA_MAX, 1);
#endif
}

}  // namespace

const std::vector<BaselineEntry>& baselines() {
  static const std::vector<BaselineEntry> table = {
      {kPlain, "unfused ATen operators in the peers' order and memory layout", {}},
      {"fused", "one kernel per norm-and-activation group, forward and backward", {.fused = true}},
      {"channels-last", "weights and activations in NHWC memory", {.channels_last = true}},
      {"cuda-graph",
       "the whole training step recorded once and repeated by the GPU alone",
       {.cuda_graph = true}},
      {"autotuned",
       "cuDNN times its algorithms for every new shape and takes the fastest",
       {.autotuned = true}},
      {"pooled",
       "the C library keeps freed memory instead of returning it each step",
       {.pooled_memory = true}},
      {"bf16", "bfloat16 autocast", {.precision = "bf16"}},
  };
  return table;
}

Execution parse_baseline(std::string_view spelling) {
  const std::vector<std::string> names = split(spelling);
  const std::string nearest = nearest_spelling(names);
  if (nearest != spelling) {
    throw std::invalid_argument("\"" + std::string(spelling) + "\" (nearest: \"" + nearest +
                                "\"; accepted: " + accepted_spellings() + ")");
  }
  Execution execution;
  for (const BaselineEntry& entry : baselines()) {
    if (std::find(names.begin(), names.end(), entry.name) != names.end()) {
      merge(execution, entry.execution);
    }
  }
  return execution;
}

void apply_process_settings(const Execution& execution) {
  if (execution.pooled_memory) keep_freed_memory();
}

}  // namespace noisemark::baselines
