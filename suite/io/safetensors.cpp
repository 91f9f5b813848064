#include "suite/io/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json.h"
#include "suite/io/tensors.h"

namespace noisemark::suite {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestTensorHeaderBytes =
    100'000'000;  // the limit of the reference implementation
constexpr size_t kMostTensorDimensions = 64;

struct TensorEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // offsets into the bytes after the header
  uint64_t end = 0;
};

// An open file, or bytes in memory, that knows its name and size, and names itself in errors.
class TensorSource {
 public:
  explicit TensorSource(const std::string& path)
      : path_(path), file_(std::in_place, path, "a safetensors file"), size_(file_->size()) {}

  TensorSource(std::string_view bytes, const std::string& name)
      : path_(name), bytes_(bytes), size_(bytes.size()) {}

  [[nodiscard]] Error malformed(const std::string& what, const std::string& accepted = "") const {
    return bad_input(path_, "", what, accepted);
  }

  void read(char* destination, uint64_t count) {
    if (file_) return file_->read(destination, count);
    if (count > bytes_.size()) throw malformed("truncated while being read");
    if (count > 0) std::memcpy(destination, bytes_.data(), count);
    bytes_.remove_prefix(count);
  }

  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  std::string path_;
  std::optional<reports::InputFile> file_;
  std::string_view bytes_;
  uint64_t size_ = 0;
};

std::string read_header(TensorSource& source) {
  if (source.size() < kLengthBytes) {
    throw source.malformed(fmt::format("truncated: {} bytes", source.size()),
                           "at least 8, the length of the header");
  }
  uint64_t length = 0;
  source.read(reinterpret_cast<char*>(&length), kLengthBytes);
  constexpr uint64_t kZip = 0x04034b50;  // "PK\3\4", with which the files of torch.save begin
  if ((length & 0xffffffffU) == kZip) {
    throw source.malformed("a ZIP archive, as torch.save writes", "a safetensors file");
  }
  if (length > kLargestTensorHeaderBytes) {
    std::string beginning(std::min<uint64_t>(source.size(), 64), '\0');
    std::memcpy(beginning.data(), &length, kLengthBytes);
    source.read(beginning.data() + kLengthBytes, beginning.size() - kLengthBytes);
    const std::string came = reports::stand_in(beginning);
    if (!came.empty()) throw source.malformed(came, "a safetensors file");
    throw source.malformed(
        fmt::format("a header of {} bytes", length),
        fmt::format("at most {}; is this a safetensors file?", kLargestTensorHeaderBytes));
  }
  if (length > source.size() - kLengthBytes) {
    throw source.malformed(fmt::format("truncated: the header has {} bytes, the file has {} left",
                                       length, source.size() - kLengthBytes));
  }
  std::string text(length, '\0');
  source.read(text.data(), length);
  return text;
}

// A repeated name would silently hide a tensor, so it is refused.
Json parse_header(const TensorSource& source, const std::string& text) {
  if (reports::is_nested_too_deeply(text)) {
    throw source.malformed("the header is nested too deeply");
  }
  std::vector<std::set<std::string>> open_objects;
  std::string repeated;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (!open_objects.back().insert(name).second) repeated = name;
    }
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const Json::exception&) {
    throw source.malformed(fmt::format("the header is not JSON: {}", reports::json_fault(text)));
  }
  if (!header.is_object()) throw source.malformed("the header is not a JSON object");
  if (!repeated.empty()) {
    throw source.malformed(fmt::format("the header names \"{}\" twice", repeated));
  }
  return header;
}

std::vector<int64_t> parse_shape(const TensorSource& source, const std::string& name,
                                 const Json& json) {
  const auto wrong = [&] {
    return source.malformed(fmt::format("{}: shape {}", name, json.dump()),
                            "a list of integers of at least 0");
  };
  if (!json.is_array() || json.size() > kMostTensorDimensions) throw wrong();
  std::vector<int64_t> shape;
  int64_t largest = 1;  // strides of an empty tensor must not overflow either
  for (const Json& extent : json) {
    if (!extent.is_number_unsigned()) throw wrong();
    const auto value = extent.get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) throw wrong();
    shape.push_back(static_cast<int64_t>(value));
    if (__builtin_mul_overflow(largest, std::max<int64_t>(shape.back(), 1), &largest)) {
      throw wrong();
    }
  }
  return shape;
}

uint64_t byte_count(const TensorEntry& entry) {
  uint64_t count = c10::elementSize(entry.dtype);
  for (const int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count)) return UINT64_MAX;
  }
  return count;
}

TensorEntry parse_entry(const TensorSource& source, const std::string& name, const Json& json) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    throw source.malformed(fmt::format("{}: {}", name, json.dump()),
                           "an object of dtype, shape and data_offsets");
  }
  TensorEntry entry;
  entry.name = name;
  const Json& dtype = json["dtype"];
  const auto known =
      dtype.is_string() ? dtype_named(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!known) {
    throw source.malformed(fmt::format("{}: dtype {}", name, dtype.dump()), dtype_names());
  }
  entry.dtype = *known;
  entry.shape = parse_shape(source, name, json["shape"]);

  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    throw source.malformed(fmt::format("{}: data_offsets {}", name, offsets.dump()),
                           "two integers, begin and end");
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.end < entry.begin || entry.end - entry.begin != byte_count(entry)) {
    throw source.malformed(
        fmt::format("{}: data_offsets {}", name, offsets.dump()),
        fmt::format("{} {} needs {} bytes", dtype.dump(), json["shape"].dump(), byte_count(entry)));
  }
  return entry;
}

std::map<std::string, std::string> parse_metadata(const TensorSource& source, const Json& json) {
  std::map<std::string, std::string> metadata;
  if (!json.is_object()) throw source.malformed("__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      throw source.malformed(fmt::format("__metadata__: {}: {}", key, value.dump()), "a string");
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Entries in the order of their bytes. Together they must be all the bytes, each once.
void sort_and_check_cover(const TensorSource& source, std::vector<TensorEntry>& entries,
                          uint64_t data_bytes) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t expected = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != expected) {
      throw source.malformed(fmt::format("{}: begins at byte {}", entry.name, entry.begin),
                             fmt::format("at {}, where the tensor before it ends", expected));
    }
    expected = entry.end;
  }
  if (expected > data_bytes) {
    throw source.malformed(
        fmt::format("truncated: its tensors have {} bytes, it has {}", expected, data_bytes));
  }
  if (expected < data_bytes) {
    throw source.malformed(fmt::format("{} bytes after the last tensor", data_bytes - expected),
                           "none");
  }
}

SafetensorsFile read_all(TensorSource& source) {
  const std::string text = read_header(source);
  const Json header = parse_header(source, text);

  SafetensorsFile file;
  std::vector<TensorEntry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = parse_metadata(source, json);
    } else {
      entries.push_back(parse_entry(source, name, json));
    }
  }
  sort_and_check_cover(source, entries, source.size() - kLengthBytes - text.size());

  for (const TensorEntry& entry : entries) {
    const at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
    source.read(static_cast<char*>(tensor.mutable_data_ptr()), tensor.nbytes());
    file.tensors.emplace_back(entry.name, tensor);
  }
  return file;
}

}  // namespace

SafetensorsFile read_safetensors(const std::string& path) {
  TensorSource source(path);
  return read_all(source);
}

SafetensorsFile parse_safetensors(std::string_view bytes, const std::string& where) {
  TensorSource source(bytes, where);
  return read_all(source);
}

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kHeaderAlignment =
    8;  // alignment of the first tensor, so that a mapped file can be used in place

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
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
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
