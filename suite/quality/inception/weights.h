#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "suite/io/safetensors.h"

namespace noisemark::suite::inception {

/// What provenance calls FID's own weights. A distance on any other weights is not to be called
/// FID.
inline constexpr std::string_view kOfficialName = "inception-2015-12-05";

/// SHA-256 of the file that pytorch-fid (`pt_inception-2015-12-05-6726825d.pth`) and torch-fidelity
/// (`weights-inception-2015-12-05-6726825d.pth`) download. Both put its first eight digits into the
/// file's name; the others are what all who published the digest of a download agree on.
inline constexpr std::string_view kOfficialSourceSha256 =
    "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2";

/// The name under which a data folder holds the weights, made of that file by
/// baselines/peers/convert_inception.py.
inline constexpr std::string_view kFileName = "inception-2015-12-05.safetensors";

/// For whoever has none.
inline constexpr std::string_view kHowToGetWeights =
    "the Inception weights of FID, made by baselines/peers/convert_inception.py of the peers' "
    "pt_inception-2015-12-05-6726825d.pth; suite/quality/inception/README.md says where that is";

struct Weights {
  NamedTensors tensors;        ///< the 472 of tensor_shapes(), in that order, float32, on the CPU
  std::string file_sha256;     ///< of the safetensors file
  std::string tensors_sha256;  ///< tensors_sha256() in the order of their names
  /// SHA-256 of the peers' file, as the converter recorded it; empty: unknown.
  std::string source_sha256;

  /// Whether the converter made these tensors of the official file: it records that file's SHA-256
  /// and that of the tensors that it found there, and both are right.
  [[nodiscard]] bool is_official() const { return source_sha256 == kOfficialSourceSha256; }
  /// kOfficialName, or "inception-" and the first eight digits of `tensors_sha256`.
  [[nodiscard]] std::string name() const;
};

/// Names and shapes, in the order of the peers' state dict (without `num_batches_tracked`, which
/// nothing reads).
[[nodiscard]] std::vector<std::pair<std::string, std::vector<int64_t>>> tensor_shapes();

/// Where the weights are: `given` if it says so, else kFileName in `data_folder`. Throws Error with
/// what to put there and how to get it: exit code 2 when `given` is no file, 77 when none is given
/// and the folder has none.
[[nodiscard]] std::string find_weights(const std::string& given, const std::string& data_folder);

/// Throws Error, exit code 2, naming the file and what is wrong with it: no safetensors file, or
/// what weights_of() refuses.
[[nodiscard]] Weights read_weights(const std::string& path);

/// What was read from `path`, without `file_sha256`. Throws Error, exit code 2, for names that are
/// missing or unexpected, other shapes or types, values that are not finite, tensors other than
/// those that the converter recorded.
[[nodiscard]] Weights weights_of(const SafetensorsFile& file, const std::string& path);

}  // namespace noisemark::suite::inception
