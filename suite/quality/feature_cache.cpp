#include "suite/quality/feature_cache.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "reports/error.h"
#include "reports/file.h"
#include "suite/io/safetensors.h"

namespace noisemark::suite {
namespace {

constexpr size_t kKeyDigits = 16;  // of the folder's name; the whole key is in the files
constexpr const char* kFeatures = "features";

std::map<std::string, std::string> metadata_of(const std::string& key, int64_t begin, int64_t end,
                                               const at::Tensor& features) {
  return {{"key", key},
          {"begin", std::to_string(begin)},
          {"end", std::to_string(end)},
          {"sha256", tensors_sha256({{kFeatures, features}})}};
}

}  // namespace

FeatureCache::FeatureCache(const std::filesystem::path& folder, std::string key)
    : folder_(folder / key.substr(0, kKeyDigits)), key_(std::move(key)) {
  reports::make_folder(folder_);
  reports::remove_leftovers(folder_);
}

std::filesystem::path FeatureCache::file(int64_t begin, int64_t end) const {
  return folder_ / fmt::format("{:010}-{:010}.safetensors", begin, end);
}

std::optional<at::Tensor> FeatureCache::load(int64_t begin, int64_t end) const {
  const std::string path = file(begin, end).string();
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const SafetensorsFile stored = read_safetensors(path);
    if (stored.tensors.size() != 1) return std::nullopt;
    const at::Tensor& features = stored.tensors.front().second;
    if (features.dim() != 2 || features.size(0) != end - begin) return std::nullopt;
    if (stored.metadata != metadata_of(key_, begin, end, features)) return std::nullopt;
    return features;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void FeatureCache::store(int64_t begin, int64_t end, const at::Tensor& features) const {
  write_safetensors(file(begin, end).string(), {{kFeatures, features}},
                    metadata_of(key_, begin, end, features));
}

}  // namespace noisemark::suite
