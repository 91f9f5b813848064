#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "suite/io/safetensors.h"

/// The Inception network that FID is defined with (Heusel et al. 2017), which TensorFlow published
/// on 2015-12-05. It is Szegedy et al. 2015 (Inception v3) with 1008 classes, without the auxiliary
/// classifier, and with poolings of its own (extractor.cpp). Names, shapes and order are those of
/// the state dict that pytorch-fid 0.3.0 and torch-fidelity 0.4.0 load.
namespace noisemark::suite::inception {

/// Height and width of the network's input.
inline constexpr int64_t kInputSize = 299;
inline constexpr int64_t kFeatures = 2048;  ///< channels after the last pooling
inline constexpr int64_t kClasses = 1008;
/// Every batch norm adds it to the variance.
inline constexpr double kNormEps = 0.001;

/// A convolution without bias, then its batch norm, then ReLU. The tensors are NAME.conv.weight
/// [out, in, kernel_height, kernel_width] and NAME.bn.{weight,bias,running_mean,running_var} [out].
struct Convolution {
  std::string_view name;
  int64_t in = 0;
  int64_t out = 0;
  int64_t kernel_height = 1;
  int64_t kernel_width = 1;
  int64_t stride = 1;
  bool padded = true;  ///< adds (kernel - 1) / 2 zeros on each side, so that stride 1 keeps the
                       ///< size
};

inline constexpr std::array<Convolution, 94> kConvolutions{{
    {"Conv2d_1a_3x3", 3, 32, 3, 3, 2, false},
    {"Conv2d_2a_3x3", 32, 32, 3, 3, 1, false},
    {"Conv2d_2b_3x3", 32, 64, 3, 3},
    {"Conv2d_3b_1x1", 64, 80, 1, 1},
    {"Conv2d_4a_3x3", 80, 192, 3, 3, 1, false},
    {"Mixed_5b.branch1x1", 192, 64, 1, 1},
    {"Mixed_5b.branch5x5_1", 192, 48, 1, 1},
    {"Mixed_5b.branch5x5_2", 48, 64, 5, 5},
    {"Mixed_5b.branch3x3dbl_1", 192, 64, 1, 1},
    {"Mixed_5b.branch3x3dbl_2", 64, 96, 3, 3},
    {"Mixed_5b.branch3x3dbl_3", 96, 96, 3, 3},
    {"Mixed_5b.branch_pool", 192, 32, 1, 1},
    {"Mixed_5c.branch1x1", 256, 64, 1, 1},
    {"Mixed_5c.branch5x5_1", 256, 48, 1, 1},
    {"Mixed_5c.branch5x5_2", 48, 64, 5, 5},
    {"Mixed_5c.branch3x3dbl_1", 256, 64, 1, 1},
    {"Mixed_5c.branch3x3dbl_2", 64, 96, 3, 3},
    {"Mixed_5c.branch3x3dbl_3", 96, 96, 3, 3},
    {"Mixed_5c.branch_pool", 256, 64, 1, 1},
    {"Mixed_5d.branch1x1", 288, 64, 1, 1},
    {"Mixed_5d.branch5x5_1", 288, 48, 1, 1},
    {"Mixed_5d.branch5x5_2", 48, 64, 5, 5},
    {"Mixed_5d.branch3x3dbl_1", 288, 64, 1, 1},
    {"Mixed_5d.branch3x3dbl_2", 64, 96, 3, 3},
    {"Mixed_5d.branch3x3dbl_3", 96, 96, 3, 3},
    {"Mixed_5d.branch_pool", 288, 64, 1, 1},
    {"Mixed_6a.branch3x3", 288, 384, 3, 3, 2, false},
    {"Mixed_6a.branch3x3dbl_1", 288, 64, 1, 1},
    {"Mixed_6a.branch3x3dbl_2", 64, 96, 3, 3},
    {"Mixed_6a.branch3x3dbl_3", 96, 96, 3, 3, 2, false},
    {"Mixed_6b.branch1x1", 768, 192, 1, 1},
    {"Mixed_6b.branch7x7_1", 768, 128, 1, 1},
    {"Mixed_6b.branch7x7_2", 128, 128, 1, 7},
    {"Mixed_6b.branch7x7_3", 128, 192, 7, 1},
    {"Mixed_6b.branch7x7dbl_1", 768, 128, 1, 1},
    {"Mixed_6b.branch7x7dbl_2", 128, 128, 7, 1},
    {"Mixed_6b.branch7x7dbl_3", 128, 128, 1, 7},
    {"Mixed_6b.branch7x7dbl_4", 128, 128, 7, 1},
    {"Mixed_6b.branch7x7dbl_5", 128, 192, 1, 7},
    {"Mixed_6b.branch_pool", 768, 192, 1, 1},
    {"Mixed_6c.branch1x1", 768, 192, 1, 1},
    {"Mixed_6c.branch7x7_1", 768, 160, 1, 1},
    {"Mixed_6c.branch7x7_2", 160, 160, 1, 7},
    {"Mixed_6c.branch7x7_3", 160, 192, 7, 1},
    {"Mixed_6c.branch7x7dbl_1", 768, 160, 1, 1},
    {"Mixed_6c.branch7x7dbl_2", 160, 160, 7, 1},
    {"Mixed_6c.branch7x7dbl_3", 160, 160, 1, 7},
    {"Mixed_6c.branch7x7dbl_4", 160, 160, 7, 1},
    {"Mixed_6c.branch7x7dbl_5", 160, 192, 1, 7},
    {"Mixed_6c.branch_pool", 768, 192, 1, 1},
    {"Mixed_6d.branch1x1", 768, 192, 1, 1},
    {"Mixed_6d.branch7x7_1", 768, 160, 1, 1},
    {"Mixed_6d.branch7x7_2", 160, 160, 1, 7},
    {"Mixed_6d.branch7x7_3", 160, 192, 7, 1},
    {"Mixed_6d.branch7x7dbl_1", 768, 160, 1, 1},
    {"Mixed_6d.branch7x7dbl_2", 160, 160, 7, 1},
    {"Mixed_6d.branch7x7dbl_3", 160, 160, 1, 7},
    {"Mixed_6d.branch7x7dbl_4", 160, 160, 7, 1},
    {"Mixed_6d.branch7x7dbl_5", 160, 192, 1, 7},
    {"Mixed_6d.branch_pool", 768, 192, 1, 1},
    {"Mixed_6e.branch1x1", 768, 192, 1, 1},
    {"Mixed_6e.branch7x7_1", 768, 192, 1, 1},
    {"Mixed_6e.branch7x7_2", 192, 192, 1, 7},
    {"Mixed_6e.branch7x7_3", 192, 192, 7, 1},
    {"Mixed_6e.branch7x7dbl_1", 768, 192, 1, 1},
    {"Mixed_6e.branch7x7dbl_2", 192, 192, 7, 1},
    {"Mixed_6e.branch7x7dbl_3", 192, 192, 1, 7},
    {"Mixed_6e.branch7x7dbl_4", 192, 192, 7, 1},
    {"Mixed_6e.branch7x7dbl_5", 192, 192, 1, 7},
    {"Mixed_6e.branch_pool", 768, 192, 1, 1},
    {"Mixed_7a.branch3x3_1", 768, 192, 1, 1},
    {"Mixed_7a.branch3x3_2", 192, 320, 3, 3, 2, false},
    {"Mixed_7a.branch7x7x3_1", 768, 192, 1, 1},
    {"Mixed_7a.branch7x7x3_2", 192, 192, 1, 7},
    {"Mixed_7a.branch7x7x3_3", 192, 192, 7, 1},
    {"Mixed_7a.branch7x7x3_4", 192, 192, 3, 3, 2, false},
    {"Mixed_7b.branch1x1", 1280, 320, 1, 1},
    {"Mixed_7b.branch3x3_1", 1280, 384, 1, 1},
    {"Mixed_7b.branch3x3_2a", 384, 384, 1, 3},
    {"Mixed_7b.branch3x3_2b", 384, 384, 3, 1},
    {"Mixed_7b.branch3x3dbl_1", 1280, 448, 1, 1},
    {"Mixed_7b.branch3x3dbl_2", 448, 384, 3, 3},
    {"Mixed_7b.branch3x3dbl_3a", 384, 384, 1, 3},
    {"Mixed_7b.branch3x3dbl_3b", 384, 384, 3, 1},
    {"Mixed_7b.branch_pool", 1280, 192, 1, 1},
    {"Mixed_7c.branch1x1", 2048, 320, 1, 1},
    {"Mixed_7c.branch3x3_1", 2048, 384, 1, 1},
    {"Mixed_7c.branch3x3_2a", 384, 384, 1, 3},
    {"Mixed_7c.branch3x3_2b", 384, 384, 3, 1},
    {"Mixed_7c.branch3x3dbl_1", 2048, 448, 1, 1},
    {"Mixed_7c.branch3x3dbl_2", 448, 384, 3, 3},
    {"Mixed_7c.branch3x3dbl_3a", 384, 384, 1, 3},
    {"Mixed_7c.branch3x3dbl_3b", 384, 384, 3, 1},
    {"Mixed_7c.branch_pool", 2048, 192, 1, 1},
}};

/// Describes each convolution; the linear layer at the end has two more, fc.weight [1008, 2048] and
/// fc.bias [1008].
inline constexpr std::array<std::string_view, 4> kNormTensors{"weight", "bias", "running_mean",
                                                              "running_var"};

/// The name of FID's own weights in provenance. A distance on any other weights is not to be called
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

/// The advice to whoever has none.
inline constexpr std::string_view kHowToGetWeights =
    "the Inception weights of FID, made by baselines/peers/convert_inception.py of the peers' "
    "pt_inception-2015-12-05-6726825d.pth; suite/quality/inception/README.md says where that is";

struct Weights {
  NamedTensors tensors;        ///< the 472 of tensor_shapes(), in that order, float32, on the CPU
  std::string file_sha256;     ///< hash of the safetensors file
  std::string tensors_sha256;  ///< tensors_sha256() in the order of their names
  /// SHA-256 of the peers' file, as the converter recorded it; empty: unknown.
  std::string source_sha256;

  /// Returns whether the converter made these tensors of the official file: it records that file's
  /// SHA-256 and that of the tensors that it found there, and both are right.
  [[nodiscard]] bool is_official() const { return source_sha256 == kOfficialSourceSha256; }
  /// kOfficialName, or "inception-" and the first eight digits of `tensors_sha256`.
  [[nodiscard]] std::string name() const;
};

/// Names and shapes, in the order of the peers' state dict (without `num_batches_tracked`, which
/// nothing reads).
[[nodiscard]] std::vector<std::pair<std::string, std::vector<int64_t>>> tensor_shapes();

/// Finds the weights: `given` if it says so, else kFileName in `data_folder`. Throws Error with
/// what to put there and how to get it: exit code 2 when `given` is no file, 77 when none is given
/// and the folder has none.
[[nodiscard]] std::string find_weights(const std::string& given, const std::string& data_folder);

/// Throws Error, exit code 2, naming the file and what is wrong with it: no safetensors file, or
/// what weights_of() refuses.
[[nodiscard]] Weights read_weights(const std::string& path);

/// Checks what was read from `path`, and leaves `file_sha256` empty. Throws Error, exit code 2, for
/// names that are missing or unexpected, other shapes or types, values that are not finite, tensors
/// other than those that the converter recorded.
[[nodiscard]] Weights weights_of(const SafetensorsFile& file, const std::string& path);

}  // namespace noisemark::suite::inception
