#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/file.h"
#include "suite/io/dtype_names.h"
#include "suite/io/safetensors.h"
#include "suite/io/tensor_bytes.h"

namespace noisemark::suite {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kAlignment = 8;  // of the first tensor, so that a mapped file can be used in place

void check_names(const NamedTensors& tensors) {
  std::set<std::string_view> seen;
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(name != "__metadata__", "a tensor cannot be named ", name);
    TORCH_CHECK(seen.insert(name).second, "two tensors are named ", name);
  }
}

// Readers view a tensor's bytes in place, so wider elements come first and stay aligned.
NamedTensors widest_first(const NamedTensors& tensors) {
  NamedTensors sorted;
  for (const auto& [name, tensor] : tensors) sorted.emplace_back(name, row_major_on_cpu(tensor));
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  return sorted;
}

std::string header_of(const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  check_names(tensors);
  const NamedTensors sorted = widest_first(tensors);
  const std::string header = header_of(sorted, metadata);
  const auto header_size = std::bit_cast<std::array<char, 8>>(static_cast<uint64_t>(header.size()));

  std::vector<std::string_view> pieces{{header_size.data(), header_size.size()}, header};
  for (const auto& [name, tensor] : sorted) pieces.push_back(bytes_of(tensor));
  reports::write_file_atomically(path, pieces);
}

}  // namespace noisemark::suite
