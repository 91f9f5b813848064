#include "suite/io/numpy.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "suite/io/tensors.h"

namespace noisemark::suite {
namespace {

static_assert(std::endian::native == std::endian::little, "only little-endian arrays are known");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;     // alignment of the array's first byte
constexpr size_t kGrowthDigits = 21;  // room that NumPy leaves for a longer first axis
constexpr uint64_t kLargestHeaderBytes = 1 << 20;
constexpr size_t kMostDimensions = 32;

struct ElementType {
  std::string_view descr;
  c10::ScalarType dtype;
};
constexpr std::array kElementTypes{
    ElementType{"<f8", c10::ScalarType::Double},
    ElementType{"<f4", c10::ScalarType::Float},
    ElementType{"<i8", c10::ScalarType::Long},
    ElementType{"|u1", c10::ScalarType::Byte},
};
constexpr const char* kAcceptedTypes = "float64, float32, int64 or uint8, little-endian";

struct Header {
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// The few Python literals that a header is made of. Each take_... reads one, or nothing.
class Literals {
 public:
  explicit Literals(std::string_view text) : rest_(text) {}

  bool take(char wanted) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// 'text', or u'text' as Python 2 wrote it.
  std::optional<std::string> take_string() {
    skip_blanks();
    if (rest_.starts_with("u'") || rest_.starts_with("u\"")) rest_.remove_prefix(1);
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::optional<bool> take_bool() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    return std::nullopt;
  }

  /// 3, or 3L as Python 2 wrote it where its own integers have 32 bits.
  std::optional<int64_t> take_integer() {
    skip_blanks();
    int64_t value = 0;
    if (rest_.empty() || rest_.front() == '-') return std::nullopt;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);
    return value;
  }

  /// Like Python, takes one value without a comma for no tuple.
  std::optional<std::vector<int64_t>> take_tuple() {
    std::vector<int64_t> values;
    if (!take('(')) return std::nullopt;
    while (!take(')')) {
      const auto value = take_integer();
      if (!value || values.size() == kMostDimensions) return std::nullopt;
      values.push_back(*value);
      if (take(',')) continue;
      return take(')') && values.size() > 1 ? std::optional(values) : std::nullopt;
    }
    return values;
  }

  bool begins_list() {
    skip_blanks();
    return rest_.starts_with('[');
  }

  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    const size_t begin = rest_.find_first_not_of(" \n\t\r");
    rest_.remove_prefix(std::min(begin, rest_.size()));
  }

  std::string_view rest_;
};

/// Bytes from somewhere, in order; knows how many there are and what to call them in errors.
struct Source {
  std::string where;
  uint64_t size = 0;
  std::function<void(char* to, uint64_t count)> read;

  [[nodiscard]] Error malformed(const std::string& what, const std::string& accepted = "") const {
    return bad_input(where, "", what, accepted);
  }
};

c10::ScalarType dtype_of(const Source& source, const std::string& descr) {
  for (const ElementType& type : kElementTypes) {
    if (type.descr == descr) return type.dtype;
  }
  throw source.malformed(fmt::format("element type '{}'", descr), kAcceptedTypes);
}

Header parse_header(const Source& source, std::string_view text) {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
  Literals literals(text);
  bool good = literals.take('{');
  while (good && !literals.take('}')) {
    const auto key = literals.take_string();
    good = key && literals.take(':');
    if (!good) break;
    if (*key == "descr" && !descr) {
      descr = literals.take_string();
      if (!descr) {
        throw source.malformed(
            literals.begins_list() ? "an array of records" : "an element type that is no text",
            kAcceptedTypes);
      }
    } else if (*key == "fortran_order" && !fortran_order) {
      good = (fortran_order = literals.take_bool()).has_value();
    } else if (*key == "shape" && !shape) {
      good = (shape = literals.take_tuple()).has_value();
    } else {
      good = false;
    }
    if (good && !literals.take(',')) {
      good = literals.take('}');
      break;
    }
  }
  if (!good || !literals.at_end() || !descr || !fortran_order || !shape) {
    throw source.malformed("the header is not one of an array",
                           "{'descr': ..., 'fortran_order': ..., 'shape': (...)}");
  }
  return {dtype_of(source, *descr), *fortran_order, *shape};
}

std::string header_text(const Source& source) {
  std::array<char, 8> begin{};
  if (source.size < begin.size() + 2) throw source.malformed("truncated", "a .npy array");
  source.read(begin.data(), begin.size());
  if (std::string_view(begin.data(), kMagic.size()) != kMagic) {
    throw source.malformed("does not begin as a .npy array does", "a .npy array");
  }
  const int version = static_cast<unsigned char>(begin[6]);
  if (version < 1 || version > 3) {
    throw source.malformed(fmt::format(".npy version {}", version), "1, 2 or 3");
  }
  const size_t width = version == 1 ? 2 : 4;
  uint32_t length = 0;
  if (source.size < begin.size() + width) throw source.malformed("truncated", "a .npy array");
  source.read(reinterpret_cast<char*>(&length), width);
  const uint64_t left = source.size - begin.size() - width;
  if (length > left || length > kLargestHeaderBytes) {
    throw source.malformed(fmt::format("a header of {} bytes, where {} are left", length, left));
  }
  std::string text(length, '\0');
  source.read(text.data(), length);
  return std::string(begin.data(), begin.size()) + std::string(width, '\0') + text;
}

/// Bytes of the array; UINT64_MAX for more than can be counted.
uint64_t byte_count(const Header& header) {
  uint64_t count = c10::elementSize(header.dtype);
  uint64_t largest = count;  // strides of an empty array must not overflow either
  for (const int64_t extent : header.shape) {
    const auto factor = static_cast<uint64_t>(extent);
    if (__builtin_mul_overflow(largest, std::max<uint64_t>(factor, 1), &largest) ||
        largest > INT64_MAX) {
      return UINT64_MAX;
    }
    count *= factor;
  }
  return count;
}

at::Tensor read_array(const Source& source) {
  const std::string begin = header_text(source);
  const size_t prefix = begin[6] == 1 ? 10 : 12;
  const Header header = parse_header(source, std::string_view(begin).substr(prefix));
  const uint64_t expected = byte_count(header);
  const uint64_t found = source.size - begin.size();
  if (expected != found) {
    throw source.malformed(
        fmt::format("{}: {} bytes after the header", found < expected ? "truncated" : "too long",
                    found),
        fmt::format("{} for the shape ({})",
                    expected == UINT64_MAX ? "more than there can be" : std::to_string(expected),
                    fmt::join(header.shape, ", ")));
  }
  std::vector<int64_t> shape = header.shape;
  if (header.fortran_order) std::reverse(shape.begin(), shape.end());
  const at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(header.dtype));
  source.read(static_cast<char*>(tensor.mutable_data_ptr()), found);
  if (!header.fortran_order) return tensor;
  std::vector<int64_t> turned(shape.size());
  for (size_t i = 0; i < turned.size(); ++i)
    turned[i] = static_cast<int64_t>(turned.size() - 1 - i);
  return tensor.permute(turned).contiguous();
}

std::string_view descr_of(const at::Tensor& tensor) {
  for (const ElementType& type : kElementTypes) {
    if (type.dtype == tensor.scalar_type()) return type.descr;
  }
  TORCH_CHECK(false, ".npy is written of ", kAcceptedTypes, ", not of ", tensor.scalar_type());
}

}  // namespace

at::Tensor read_npy(const std::string& path) {
  reports::InputFile file(path, "a .npy file");
  return read_array({path, file.size(), [&](char* to, uint64_t count) { file.read(to, count); }});
}

at::Tensor parse_npy(std::string_view bytes, const std::string& where) {
  uint64_t position = 0;
  const auto read = [&](char* to, uint64_t count) {
    if (count > 0) std::memcpy(to, bytes.data() + position, count);
    position += count;
  };
  return read_array({where, bytes.size(), read});
}

std::string npy_header(const at::Tensor& tensor) {
  const auto shape = tensor.sizes();
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr_of(tensor),
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  if (!shape.empty()) text.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  const size_t unpadded = kMagic.size() + 2 + 2 + text.size() + 1;
  text.append(kAlignment - unpadded % kAlignment, ' ');
  text += '\n';
  const auto length = std::bit_cast<std::array<char, 2>>(static_cast<uint16_t>(text.size()));
  return std::string(kMagic) + std::string("\x01\x00", 2) + std::string(length.data(), 2) + text;
}

void write_npy(const std::string& path, const at::Tensor& tensor) {
  const at::Tensor row_major = row_major_on_cpu(tensor);
  const std::string header = npy_header(row_major);
  const std::array<std::string_view, 2> pieces{header, bytes_of(row_major)};
  reports::write_file_atomically(path, pieces);
}

namespace {

constexpr std::string_view kExtension = ".npy";

/// Numpy knows an array by this name too where the archive's name for it has no extension.
std::string array_name(const ZipMember& member) {
  const bool extended = member.name.ends_with(kExtension);
  return member.name.substr(0, member.name.size() - (extended ? kExtension.size() : 0));
}

}  // namespace

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const ZipMember& member : zip_.members()) names.push_back(array_name(member));
  return names;
}

bool NpzFile::has(std::string_view name) const {
  for (const std::string& known : names()) {
    if (known == name) return true;
  }
  return false;
}

at::Tensor NpzFile::array(const std::string& name) const {
  for (const ZipMember& member : zip_.members()) {
    if (array_name(member) != name) continue;
    return parse_npy(zip_.read(member), zip_.path() + ": " + name);
  }
  throw bad_input(zip_.path(), "", fmt::format("no array \"{}\"", name),
                  fmt::format("it has: {}", fmt::join(names(), ", ")));
}

void write_npz(const std::string& path, const NamedTensors& arrays) {
  std::vector<at::Tensor> row_major;
  std::vector<std::string> headers;
  for (const auto& [name, array] : arrays) {
    row_major.push_back(row_major_on_cpu(array));
    headers.push_back(npy_header(row_major.back()));
  }
  std::vector<ZipPart> parts;
  for (size_t i = 0; i < arrays.size(); ++i) {
    parts.push_back(
        {arrays[i].first + std::string(kExtension), {headers[i], bytes_of(row_major[i])}});
  }
  write_zip(path, parts);
}

}  // namespace noisemark::suite
