#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "reports/error.h"
#include "reports/sha256.h"
#include "suite/io/dtype_names.h"
#include "suite/io/safetensors.h"
#include "suite/io/tensor_bytes.h"

namespace noisemark::suite {
namespace {

constexpr size_t kNamesShown = 5;

// "missing a, b and 7 more", or nothing
void describe(std::vector<std::string>& problems, const std::string& what,
              std::vector<std::string> names) {
  if (names.empty()) return;
  std::string rest;
  if (names.size() > kNamesShown) {
    rest = fmt::format(" and {} more", names.size() - kNamesShown);
    names.resize(kNamesShown);
  }
  problems.push_back(fmt::format("{} {}{}", what, fmt::join(names, ", "), rest));
}

// Pairs (from, to) for every name of `destination`.
std::vector<std::pair<at::Tensor, at::Tensor>> match(const NamedTensors& source,
                                                     const NamedTensors& destination,
                                                     const std::string& where) {
  std::map<std::string, at::Tensor> unused(source.begin(), source.end());
  std::vector<std::string> missing;
  std::vector<std::string> misshapen;
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
      misshapen.push_back(fmt::format("{} [{}] instead of [{}]", name,
                                      fmt::join(from.sizes(), ", "), fmt::join(to.sizes(), ", ")));
    }
    pairs.emplace_back(from, to);
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : unused) unexpected.push_back(name);

  std::vector<std::string> problems;
  describe(problems, "missing", missing);
  describe(problems, "unexpected", unexpected);
  describe(problems, "misshapen", misshapen);
  if (!problems.empty()) {
    throw bad_input(where, "tensors", fmt::format("{}", fmt::join(problems, "; ")),
                    fmt::format("exactly the {} that are wanted", destination.size()));
  }
  return pairs;
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

void copy_by_name(const NamedTensors& source, const NamedTensors& destination,
                  const std::string& where) {
  const auto pairs = match(source, destination, where);
  const at::NoGradGuard no_grad;
  for (const auto& [from, to] : pairs) to.copy_(from);
}

}  // namespace noisemark::suite
