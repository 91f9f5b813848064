#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "suite/data/gaussian_mixture.h"
#include "suite/io/numpy.h"
#include "suite/quality/distance/frechet.h"
#include "suite/quality/features.h"
#include "suite/quality/image_set.h"

namespace noisemark::suite {

/// Features that were computed already, in a folder, so that an evaluation that was killed goes on
/// where it was. One safetensors file per range of images, below a folder of the key; written
/// beside its place, flushed and renamed, with the key, the range and a SHA-256 of the values
/// inside, so that half a file, a changed one and one of another set are never taken for features.
class FeatureCache {
 public:
  /// `key` is a SHA-256 of all that the features depend on. Throws Error, exit code 74, when the
  /// folder cannot be made.
  FeatureCache(const std::filesystem::path& folder, std::string key);

  /// [end - begin, d] of images [begin, end), or nothing, also where the file is damaged or not
  /// of this key: it is then computed and written again.
  [[nodiscard]] std::optional<at::Tensor> load(int64_t begin, int64_t end) const;

  /// Throws Error, exit code 74.
  void store(int64_t begin, int64_t end, const at::Tensor& features) const;

  [[nodiscard]] std::filesystem::path file(int64_t begin, int64_t end) const;

 private:
  std::filesystem::path folder_;
  std::string key_;
};

/// Mean and covariance on disk: .npz with `mu` [d] and `sigma` [d, d], which is what pytorch-fid
/// and TTUR write and read. Ours also have `n` (int64) and `extractor` (uint8: JSON), which the
/// peers pass over.
struct StatisticsFile {
  Gaussian gaussian;                       ///< samples 0: the file does not say
  std::optional<ExtractorInfo> extractor;  ///< absent from the peers' files
};

/// Returns whether the file is one of statistics and not of features.
[[nodiscard]] bool has_statistics(const NpzFile& file);

/// Throws Error, exit code 2, naming the file: absent or damaged arrays, shapes that do not fit,
/// values that are not finite, an n below 2.
[[nodiscard]] StatisticsFile read_statistics(const NpzFile& file);

/// Throws Error, exit code 74.
void write_statistics(const std::string& path, const StatisticsFile& statistics);

/// One side of a distance: features, their moments, or both.
struct FeatureSet {
  std::string name;                        ///< name that the user gave
  int64_t samples = 0;                     ///< N; 0: not known, or `exact`
  bool exact = false;                      ///< a distribution itself, not a sample of it
  int64_t channels = 0;                    ///< channels of the images, 1 or 3; 0: not known
  int64_t dimension = 0;                   ///< d
  at::Tensor features;                     ///< [N, d]; undefined where only moments are known
  std::optional<Gaussian> gaussian;        ///< absent where features were kept and N <= d
  std::optional<ExtractorInfo> extractor;  ///< absent where nobody says
  bool extractor_asserted = false;         ///< the user said it, and not who made the features
  std::string contents_sha256;             ///< hash of the images in a folder; empty: not from one
  /// The distribution where the set is `exact`, else null.
  std::shared_ptr<const GaussianMixture> mixture = nullptr;
  std::vector<std::string> notes;  ///< notes for the user, on standard error
};

/// The set's moments, computed where they are absent. Throws Error, exit code 2, of fewer than 2
/// samples.
[[nodiscard]] Gaussian gaussian_of(const FeatureSet& set);

/// Takes the user's word that `set`, of which nobody says so, was made as `like` was, with this
/// resize. Throws Error, exit code 2, unless that of `like` is known and that of `set` is not.
void assert_extractor(FeatureSet& set, const FeatureSet& like, const std::string& resize);

struct FeatureSetOptions {
  std::string extractor = "pixels";
  ExtractorOptions extractor_options;
  std::string data;                                  ///< folder of a dataset's files
  std::string cache;                                 ///< folder of a FeatureCache; empty: none
  int64_t limit = 0;                                 ///< the first images of each set; 0: all
  int64_t batch = 64;                                ///< images that the extractor gets at once
  bool keep_features = false;                        ///< is false where they are kept only for N <=
                                                     ///< d
  std::function<void(const std::string& what)> say;  ///< shows progress; may be empty
};

/// Reads what a user names, and extracts features where that is images. Holds one extractor, made
/// when the first images come.
class FeatureSetReader {
 public:
  explicit FeatureSetReader(FeatureSetOptions options) : options_(std::move(options)) {}

  /// `given` is
  /// - a folder: every image below it;
  /// - FILE.npz with mu and sigma: moments; with one array, or one named "features": as below;
  /// - FILE.npy: float [N, ...]: features; uint8 [N, 3, H, W] or [N, H, W, 3]: images;
  /// - ID:train, ID:test: a split of the data of benchmark ID; gmm16:exact: the mixture's own mean
  ///   and covariance of its 256 values.
  ///
  /// Throws Error: exit code 2 with what is wrong and where, 77 when data or weights are needed and
  /// not given, 74 when the cache cannot be written.
  ///
  /// `keep_features` sets that option for this set alone.
  [[nodiscard]] FeatureSet read(const std::string& given, bool keep_features = false);

  /// The extractor's class logits of a set whose features were kept. Throws Error, exit code 2,
  /// where the set was not made of images by this extractor, or that has no classes.
  [[nodiscard]] at::Tensor logits_of(const FeatureSet& set);

 private:
  [[nodiscard]] FeatureSet read_file(const std::string& path);
  [[nodiscard]] FeatureSet from_array(const std::string& given, const at::Tensor& array);
  [[nodiscard]] FeatureSet from_dataset(const std::string& given, const std::string& id,
                                        const std::string& part);
  [[nodiscard]] FeatureSet from_images(const std::string& given, const ImageSet& pictures);
  [[nodiscard]] FeatureExtractor& extractor();

  FeatureSetOptions options_;
  std::unique_ptr<FeatureExtractor> extractor_;
  bool keep_features_ = false;  ///< features of the set being read are kept
};

}  // namespace noisemark::suite
