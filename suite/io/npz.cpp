#include "suite/io/npz.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/error.h"
#include "suite/io/npy.h"
#include "suite/io/tensor_bytes.h"

namespace noisemark::suite {
namespace {

constexpr std::string_view kExtension = ".npy";

}  // namespace

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const ZipMember& member : zip_.members()) {
    const bool is_array = member.name.ends_with(kExtension);
    names.push_back(member.name.substr(0, member.name.size() - (is_array ? kExtension.size() : 0)));
  }
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
    if (member.name != name + std::string(kExtension)) continue;
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
