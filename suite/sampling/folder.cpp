#include "suite/sampling/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "reports/error.h"
#include "reports/file.h"
#include "reports/sha256.h"
#include "suite/config/canonical.h"
#include "suite/data/picture_files.h"
#include "suite/io/npy.h"
#include "suite/io/png.h"
#include "suite/sampling/pictures.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kPictures = "pictures";
constexpr const char* kSheet = "sheet.png";
constexpr const char* kSamples = "samples.npy";
constexpr const char* kRecord = "sampling.json";
constexpr std::array<const char*, 3> kFiles = {kSheet, kSamples, kRecord};
constexpr size_t kDigits = 5;  // of a picture's number, at least

bool is_picture_name(const std::string& name) {
  const size_t digits = name.find_first_not_of("0123456789");
  return digits >= kDigits && digits != std::string::npos && name.substr(digits) == ".png";
}

bool holds_only_pictures(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || !is_picture_name(entry.path().filename().string()))
      return false;
  }
  return true;
}

bool is_free(const fs::path& folder) {
  return !fs::exists(folder) || (fs::is_directory(folder) && fs::is_empty(folder));
}

/// Nothing in `folder` but what a sampling writes.
bool holds_only_samples(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == kPictures && entry.is_directory()) {
      if (!holds_only_pictures(entry.path())) return false;
    } else if (std::find(kFiles.begin(), kFiles.end(), name) == kFiles.end()) {
      return false;
    }
  }
  return true;
}

template <typename Action>
void writing(const fs::path& path, const Action& action) {
  try {
    action();
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::kCannotWrite,
                path.string() + ": cannot be written: " + error.code().message());
  }
}

/// The record goes first: what is there without it is known to be incomplete.
void remove_earlier(const fs::path& folder) {
  writing(folder, [&] {
    fs::remove(folder / kRecord);
    for (const char* name : kFiles) fs::remove(folder / name);
    fs::remove_all(folder / kPictures);
  });
}

/// Not flushed to the disk one by one, which for thousands of small files takes minutes.
void write_picture(const fs::path& path, const at::Tensor& pixels) {
  const std::string bytes = encode_png(
      {pixels.size(1), pixels.size(0), pixels.size(2),
       std::span(pixels.const_data_ptr<uint8_t>(), static_cast<size_t>(pixels.numel()))});
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) {
    throw Error(ExitCode::kCannotWrite,
                path.string() + ": cannot be written: " + std::strerror(errno));
  }
}

void write_pictures(const fs::path& folder, const at::Tensor& samples) {
  const at::Tensor pixels = to_pixels(samples);
  reports::make_folder(folder / kPictures);
  for (int64_t i = 0; i < pixels.size(0); ++i) {
    write_picture(folder / kPictures / fmt::format("{:0{}}.png", i, kDigits), pixels[i]);
  }
  write_picture(folder / kSheet, contact_sheet(pixels));
}

Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json weights_json(const SamplingRecord& record) {
  const SamplingWeights& weights = record.weights;
  return {{"file", fs::path(weights.file).filename().string()},
          {"file_sha256", reports::sha256_of_file(weights.file)},
          {"kind", or_null(weights.kind)},
          {"sha256", record.weights_sha256},
          {"step", or_null(weights.step)},
          {"definition_sha256", or_null(weights.definition_sha256)}};
}

Json sampler_json(const SampleConfig& sample, int64_t timesteps) {
  Json json = {{"name", sample.sampler}};
  if (sample.sampler == "ddim") {
    json["steps"] = sample.ddim_steps;
    json["eta"] = sample.ddim_eta;
  } else {
    json["steps"] = timesteps;
    json["variance"] = sample.ddpm_variance;
  }
  return json;
}

Json noise_json(const SamplingRecord& record) {
  const bool drawn = record.noise_file.empty();
  return {{"source", drawn ? "drawn" : "file"},
          {"file", drawn ? Json(nullptr) : Json(fs::path(record.noise_file).filename().string())},
          {"sha256", record.noise_sha256}};
}

/// What a distance between sets of pictures calls the contents of this one.
std::string pictures_sha256(const fs::path& folder) {
  return listing_of(find_pictures(folder).pictures).sha256;
}

std::string record_text(const fs::path& folder, const at::Tensor& samples,
                        const SamplingRecord& record) {
  const Definition& definition = record.definition;
  Json json = {{"schema", "noisemark.sampling"}, {"schema_version", "1.1.0"}};
  json["definition"] = {{"id", definition.id},
                        {"scale", definition.scale},
                        {"sha256", definition_sha256(definition)},
                        {"custom", definition.custom},
                        {"overrides", definition.overrides}};
  json["weights"] = weights_json(record);
  json["sampler"] = sampler_json(record.sample, definition.diffusion.timesteps);
  json["seed"] = record.seed;
  json["noise"] = noise_json(record);
  json["samples"] = {{"shape", samples.sizes().vec()},
                     {"sha256", reports::sha256_of_file(folder / kSamples)},
                     {"pictures_sha256", pictures_sha256(folder / kPictures)},
                     {"sheet_sha256", reports::sha256_of_file(folder / kSheet)}};
  json["execution"] = {{"baseline", record.baseline}, {"precision", record.precision},
                       {"device", record.device},     {"threads", record.threads},
                       {"batch", record.batch},       {"sampling_s", record.sampling_s}};
  return json.dump(2) + "\n";
}

}  // namespace

void prepare_sampling_folder(const fs::path& folder, bool force) {
  reports::remove_leftovers(folder, kFiles);
  bool free = false;
  writing(folder, [&] { free = is_free(folder) || (force && holds_only_samples(folder)); });
  if (!free) {
    throw bad_input("--out", folder.string(), "is not an empty folder",
                    "a new or empty folder; --force replaces samples");
  }
  reports::make_folder(folder);
}

void write_sampling_folder(const fs::path& folder, const at::Tensor& samples,
                           const SamplingRecord& record) {
  remove_earlier(folder);
  write_pictures(folder, samples);
  write_npy((folder / kSamples).string(), samples.to(at::kFloat));
  reports::write_file_atomically(folder / kRecord, record_text(folder, samples, record));
}

void require_picture_channels(const Definition& definition) {
  const int64_t channels = definition.model.channels;
  if (channels == 1 || channels == 3) return;
  throw bad_input(definition.id, "model.channels", std::to_string(channels),
                  "1 or 3, for pictures");
}

}  // namespace noisemark::suite
