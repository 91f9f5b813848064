#include "suite/sampling/folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <span>
#include <system_error>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json_writer.h"
#include "reports/base/sha256.h"
#include "reports/render/run_folder.h"
#include "suite/config/lock.h"
#include "suite/data/picture_files.h"
#include "suite/io/numpy.h"
#include "suite/io/png.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kGap = 2;        // pixels around every tile
constexpr int64_t kTileSide = 64;  // side, about, to which small images are enlarged

int64_t columns_for(int64_t tiles) {
  int64_t columns = 1;
  while (columns * columns < tiles) ++columns;
  return columns;
}

}  // namespace

at::Tensor to_pixels(const at::Tensor& samples) {
  const at::Tensor values = samples.detach().to(at::kCPU, at::kFloat);
  return ((values + 1) * 127.5F)
      .round()
      .clamp(0, 255)
      .to(at::kByte)
      .permute({0, 2, 3, 1})
      .contiguous();
}

at::Tensor contact_sheet(const at::Tensor& pixels) {
  const int64_t tiles = std::min(pixels.size(0), kSheetTiles);
  const int64_t zoom = std::max<int64_t>(1, kTileSide / pixels.size(1));
  const at::Tensor enlarged =
      pixels.narrow(0, 0, tiles).repeat_interleave(zoom, 1).repeat_interleave(zoom, 2);
  const int64_t height = enlarged.size(1);
  const int64_t width = enlarged.size(2);
  const int64_t columns = columns_for(tiles);
  const int64_t rows = (tiles + columns - 1) / columns;
  at::Tensor sheet =
      at::full({rows * (height + kGap) + kGap, columns * (width + kGap) + kGap, pixels.size(3)},
               255, at::kByte);
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t top = kGap + i / columns * (height + kGap);
    const int64_t left = kGap + i % columns * (width + kGap);
    sheet.narrow(0, top, height).narrow(1, left, width).copy_(enlarged[i]);
  }
  return sheet;
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using reports::DrawnSamples;
using reports::SamplingFile;
using reports::json::kSamplingDocument;

constexpr const char* kRecord = kSamplingFiles[0];
constexpr const char* kSamples = kSamplingFiles[1];
constexpr const char* kSheet = kSamplingFiles[2];
/// A sub-folder for the samples until all of them are written.
using reports::kReplacementFolder;
constexpr size_t kDigits = 5;  // digits of an image's number, at least

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

/// Returns whether nothing is in `folder` but what a sampling writes, whole or killed.
bool holds_only_samples(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == kPicturesFolder && entry.is_directory()) {
      if (!holds_only_pictures(entry.path())) return false;
    } else if (name == kReplacementFolder) {
      if (!holds_only_samples(entry.path())) return false;
    } else if (std::find(kSamplingFiles.begin(), kSamplingFiles.end(), name) ==
               kSamplingFiles.end()) {
      return false;
    }
  }
  return true;
}

/// Puts the written samples in the place of earlier ones. The record goes first and comes last:
/// what is there without it is known to be incomplete.
void put_in_place(const fs::path& folder) {
  fs::remove(folder / kRecord);
  fs::remove_all(folder / kPicturesFolder);
  for (const char* name : {kPicturesFolder, kSheet, kSamples, kRecord}) {
    fs::rename(folder / kReplacementFolder / name, folder / name);
  }
  fs::remove(folder / kReplacementFolder);
}

/// The files are not flushed to the disk one by one, which for thousands of small files takes
/// minutes.
void write_picture(const fs::path& path, const at::Tensor& pixels) {
  const std::string bytes = encode_png(
      {pixels.size(1), pixels.size(0), pixels.size(2),
       std::span(pixels.const_data_ptr<uint8_t>(), static_cast<size_t>(pixels.numel()))});
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) {
    throw reports::not_written(path, errno);
  }
}

void write_pictures(const fs::path& folder, const at::Tensor& samples) {
  const at::Tensor pixels = to_pixels(samples);
  reports::make_folder(folder / kPicturesFolder);
  for (int64_t i = 0; i < pixels.size(0); ++i) {
    write_picture(folder / kPicturesFolder / fmt::format("{:0{}}.png", i, kDigits), pixels[i]);
  }
  write_picture(folder / kSheet, contact_sheet(pixels));
}

std::optional<std::string> known(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

DrawnSamples::Sampler drawn_by(const SampleConfig& sample, int64_t timesteps) {
  if (sample.sampler != "ddim") {
    return {sample.sampler, timesteps, std::nullopt, std::nullopt, sample.ddpm_variance};
  }
  // Left out where it is what it always was, as in a definition's canonical form.
  const bool is_usual = sample.grid == SampleConfig().grid;
  return {sample.sampler, sample.ddim_steps, sample.ddim_eta,
          is_usual ? std::nullopt : std::optional(sample.grid), std::nullopt};
}

DrawnSamples::Noise noise_of(const SamplingRecord& record) {
  if (record.noise_file.empty()) return {"drawn", std::nullopt, record.noise_sha256};
  return {"file", fs::path(record.noise_file).filename().string(), record.noise_sha256};
}

/// Returns the checksum by which distances between sets of images know the contents of this one.
std::string pictures_sha256(const fs::path& folder) {
  return listing_of(find_pictures(folder).pictures).sha256;
}

SamplingFile::Execution execution_of(const SamplingRecord& record) {
  SamplingFile::Execution execution;
  execution.baseline = record.baseline;
  execution.precision = record.precision;
  execution.device = record.device;
  if (const auto& patches = record.patches) {
    execution.patches = patch_words(patches->ranks, patches->options);
  }
  execution.threads = record.threads;
  execution.batch = record.batch;
  execution.sampling_s = record.sampling_s;
  return execution;
}

std::string record_text(const fs::path& folder, const at::Tensor& samples,
                        const SamplingRecord& record) {
  const Definition& definition = record.definition;
  const SamplingWeights& weights = record.weights;
  SamplingFile file;
  file.definition = {definition.id, definition.scale, definition_sha256(definition),
                     definition.custom, definition.overrides};
  file.weights = {fs::path(weights.file).filename().string(),
                  reports::sha256_of_file(weights.file),
                  known(weights.kind),
                  record.weights_sha256,
                  known(weights.step),
                  known(weights.definition_sha256)};
  file.sampler = drawn_by(record.sample, definition.diffusion.timesteps);
  file.seed = record.seed;
  file.noise = noise_of(record);
  file.execution = execution_of(record);
  file.samples = {samples.sizes().vec(), reports::sha256_of_file(folder / kSamples),
                  pictures_sha256(folder / kPicturesFolder),
                  reports::sha256_of_file(folder / kSheet)};
  if (record.patches) file.patches = kept_of(*record.patches);
  return reports::document_text(kSamplingDocument, reports::json::tree_of(file));
}

}  // namespace

void prepare_sampling_folder(const fs::path& folder, bool force) {
  for (const fs::path& place : {folder, folder / kReplacementFolder}) {
    reports::remove_leftovers(place, kSamplingFiles);
  }
  if (!is_free(folder) && !(force && holds_only_samples(folder))) {
    throw bad_input("--out", folder.string(), "is not an empty folder",
                    "a new or empty folder; --force replaces samples");
  }
  reports::make_folder(folder);
}

void write_sampling_folder(const fs::path& folder, const at::Tensor& samples,
                           const SamplingRecord& record) {
  const fs::path written = folder / kReplacementFolder;
  try {
    fs::remove_all(written);
    write_pictures(written, samples);
    write_npy((written / kSamples).string(), samples.to(at::kFloat));
    reports::write_file_atomically(written / kRecord, record_text(written, samples, record));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(written, ignored);
    throw;
  }
  put_in_place(folder);
}

void require_picture_channels(const Definition& definition) {
  const int64_t channels = definition.model.channels;
  if (channels == 1 || channels == 3) return;
  throw bad_input(definition.id, "model.channels", std::to_string(channels), "1 or 3, for images");
}

namespace {

/// "a/pictures/" and "a/pictures" are one folder.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

std::string sampler_words(const DrawnSamples::Sampler& sampler) {
  const bool ddim = sampler.name == "ddim";
  const std::string setting =
      ddim ? Json(sampler.eta.value_or(0)).dump() : sampler.variance.value_or("");
  return fmt::format("{}, {} steps{}, {} {}", sampler.name, sampler.steps,
                     sampler.grid ? fmt::format(" ({} grid)", *sampler.grid) : "",
                     ddim ? "eta" : "variance", setting);
}

std::string weights_words(const DrawnSamples::Weights& weights) {
  const std::string which = !weights.kind           ? ""
                            : weights.kind == "ema" ? "averaged (EMA) "
                                                    : "trained ";
  return which + "weights " + reports::shown_digits(weights.sha256);
}

std::string noise_words(const DrawnSamples& drawn) {
  const std::string seed = fmt::format("seed {}", drawn.seed.value_or(0));
  if (drawn.noise.source == "drawn") return seed;
  return fmt::format("{}, initial noise of a file {}", seed,
                     reports::shown_digits(drawn.noise.sha256));
}

SamplingOrigin origin_of(const SamplingFile& file) {
  SamplingOrigin origin{"", file.drawn()};
  const DrawnSamples& drawn = origin.drawn;
  const std::string& precision = file.execution.precision;
  origin.words =
      fmt::format("{}, {}, {}{}", sampler_words(drawn.sampler), weights_words(drawn.weights),
                  noise_words(drawn), precision.empty() ? "" : ", " + precision);
  if (const auto& patches = file.execution.patches) origin.words += ", " + *patches;
  return origin;
}

/// Throws where sampling.json speaks of something else than what is there.
void require_bound(const SamplingFile::Samples& samples, const fs::path& given,
                   const std::string& sha256) {
  const bool pictures = given.filename() == kPicturesFolder;
  const std::string found = pictures ? sha256 : reports::sha256_of_file(given);
  if ((pictures ? samples.pictures_sha256 : samples.sha256) == found) return;
  throw bad_input(given.string(), "", "other samples than those that sampling.json speaks of",
                  "them unchanged, or no sampling.json beside them");
}

/// Reads sampling.json; empty where it is a file of another form.
std::optional<SamplingFile> read_record(const fs::path& path) {
  const std::string text = reports::read_file(path);
  const auto json = reports::parse_json(text, path.string());
  const nlohmann::json::json_pointer name("/schema/name");
  if (json.contains(name) && json[name] != kSamplingDocument.name) return std::nullopt;
  auto file = reports::read_document<SamplingFile>(text, kSamplingDocument, path.string());
  if (file.samples.shape.empty()) {
    throw bad_input(path.string(), "samples.shape", "[]", "a size for each dimension");
  }
  return file;
}

}  // namespace

std::optional<SamplingOrigin> sampling_origin(const fs::path& samples, int64_t count,
                                              const std::string& sha256) {
  const fs::path given = without_slash(samples);
  const std::string name = given.filename().string();
  const fs::path path = given.parent_path() / kRecord;
  if ((name != kPicturesFolder && name != kSamples) || !fs::exists(path)) return std::nullopt;
  const auto file = read_record(path);
  if (!file || file->samples.shape.front() < count) return std::nullopt;
  require_bound(file->samples, given, sha256);
  return origin_of(*file);
}

}  // namespace noisemark::suite
