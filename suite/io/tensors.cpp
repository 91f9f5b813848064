#include "suite/io/tensors.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "reports/base/streams.h"
#include "suite/io/safetensors.h"

namespace noisemark::suite {
namespace {

struct DtypeEntry {
  std::string_view name;
  c10::ScalarType dtype;
};

constexpr std::array kDtypes{
    DtypeEntry{"F64", c10::ScalarType::Double},
    DtypeEntry{"F32", c10::ScalarType::Float},
    DtypeEntry{"F16", c10::ScalarType::Half},
    DtypeEntry{"BF16", c10::ScalarType::BFloat16},
    DtypeEntry{"F8_E4M3", c10::ScalarType::Float8_e4m3fn},
    DtypeEntry{"F8_E5M2", c10::ScalarType::Float8_e5m2},
    DtypeEntry{"I64", c10::ScalarType::Long},
    DtypeEntry{"I32", c10::ScalarType::Int},
    DtypeEntry{"I16", c10::ScalarType::Short},
    DtypeEntry{"I8", c10::ScalarType::Char},
    DtypeEntry{"U64", c10::ScalarType::UInt64},
    DtypeEntry{"U32", c10::ScalarType::UInt32},
    DtypeEntry{"U16", c10::ScalarType::UInt16},
    DtypeEntry{"U8", c10::ScalarType::Byte},
    DtypeEntry{"BOOL", c10::ScalarType::Bool},
};

}  // namespace

std::string_view dtype_name(c10::ScalarType dtype) {
  for (const DtypeEntry& entry : kDtypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  TORCH_CHECK(false, "safetensors has no element type ", dtype);
}

std::optional<c10::ScalarType> dtype_named(std::string_view name) {
  for (const DtypeEntry& entry : kDtypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const DtypeEntry& entry : kDtypes) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

namespace {

constexpr size_t kNamesShown = 5;

// "a, b and 7 more"
std::string first_of(std::vector<std::string> names) {
  std::string rest;
  if (names.size() > kNamesShown) {
    rest = fmt::format(" and {} more", names.size() - kNamesShown);
    names.resize(kNamesShown);
  }
  return fmt::format("{}{}", fmt::join(names, ", "), rest);
}

// "missing a, b and 7 more", or nothing
void describe(std::vector<std::string>& problems, const std::string& what,
              const std::vector<std::string>& names) {
  if (!names.empty()) problems.push_back(what + first_of(names));
}

std::string with_shape(const std::string& name, const at::Tensor& tensor) {
  return fmt::format("{} [{}]", name, fmt::join(tensor.sizes(), ", "));
}

std::string with_type(const std::string& name, const at::Tensor& tensor) {
  return fmt::format("{} {}", name, dtype_name(tensor.scalar_type()));
}

/// Says what wrappers of modules put before every name: what is before `wanted` in the name that
/// ends with it. It is empty where there is no such name, and where its beginning is not that of
/// all.
std::string prefix_words(const std::vector<std::string>& names, const std::string& wanted) {
  for (const std::string& name : names) {
    if (!name.ends_with("." + wanted)) continue;
    const std::string prefix = name.substr(0, name.size() - wanted.size());
    for (const std::string& other : names) {
      if (!other.starts_with(prefix)) return "";
    }
    return fmt::format("; every name begins with \"{}\", so write the file without it", prefix);
  }
  return "";
}

// Pairs (from, to) for every name of `destination`.
std::vector<std::pair<at::Tensor, at::Tensor>> match(const NamedTensors& source,
                                                     const NamedTensors& destination,
                                                     const std::string& where) {
  std::map<std::string, at::Tensor> unused(source.begin(), source.end());
  std::vector<std::string> missing;
  std::vector<std::string> others;  // tensors that differ in shape or type
  std::vector<std::string> wanted;  // tensors in their place
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  for (const auto& [name, to] : destination) {
    const auto found = unused.find(name);
    if (found == unused.end()) {
      missing.push_back(name);
      continue;
    }
    const at::Tensor from = found->second;
    unused.erase(found);
    if (from.sizes() != to.sizes()) {
      others.push_back(with_shape(name, from));
      wanted.push_back(with_shape(name, to));
    }
    // A conversion between whole and real numbers is no weight that anybody trained.
    if (at::isFloatingType(from.scalar_type()) != at::isFloatingType(to.scalar_type())) {
      others.push_back(with_type(name, from));
      wanted.push_back(with_type(name, to));
    }
    pairs.emplace_back(from, to);
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : unused) unexpected.push_back(name);

  std::vector<std::string> problems;
  describe(problems, "missing ", missing);
  describe(problems, "unexpected ", unexpected);
  describe(problems, "", others);
  if (problems.empty()) return pairs;
  std::vector<std::string> accepted;
  if (!missing.empty() || !unexpected.empty()) {
    accepted.push_back(
        fmt::format("exactly the {} that are wanted{}", destination.size(),
                    missing.empty() ? "" : prefix_words(unexpected, missing.front())));
  }
  describe(accepted, "", wanted);
  throw bad_input(where, "tensors", fmt::format("{}", fmt::join(problems, "; ")),
                  fmt::format("{}", fmt::join(accepted, "; ")));
}

}  // namespace

std::string tensors_sha256(const NamedTensors& tensors) {
  constexpr std::string_view kEnd("\0", 1);  // keeps neighbouring fields apart
  reports::Sha256 hash;
  for (const auto& [name, tensor] : tensors) {
    hash.update(name);
    hash.update(kEnd);
    hash.update(dtype_name(tensor.scalar_type()));
    hash.update(kEnd);
    hash.update(fmt::format("{}", fmt::join(tensor.sizes(), ",")));
    hash.update(kEnd);
    hash.update(bytes_of(row_major_on_cpu(tensor)));
  }
  return hash.hex();
}

void tell_of_conversion(const NamedTensors& tensors, const std::string& where) {
  std::map<std::string_view, size_t> counts;
  for (const auto& [name, tensor] : tensors) {
    const at::ScalarType type = tensor.scalar_type();
    if (at::isFloatingType(type) && type != at::kFloat) ++counts[dtype_name(type)];
  }
  for (const auto& [type, count] : counts) {
    const char* verb = count == 1 ? "is" : "are";
    reports::say_on_stderr(fmt::format("{}: {} of its {} tensors {} {} and {} converted to F32",
                                       where, count, tensors.size(), verb, type, verb));
  }
}

void require_finite(const NamedTensors& tensors, const std::string& where) {
  for (const auto& [name, tensor] : tensors) {
    if (!at::isFloatingType(tensor.scalar_type())) continue;
    if (at::isfinite(tensor.to(at::kFloat)).all().item<bool>()) continue;
    throw bad_input(where, name, "values that are not finite", "numbers");
  }
}

void copy_by_name(const NamedTensors& source, const NamedTensors& destination,
                  const std::string& where) {
  const auto pairs = match(source, destination, where);
  const at::NoGradGuard no_grad;
  for (const auto& [from, to] : pairs) to.copy_(from);
}

}  // namespace noisemark::suite
