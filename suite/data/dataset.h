#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reports/result/result.h"
#include "suite/config/definition.h"

namespace noisemark::suite {

class GaussianMixture;

enum class Split { kTrain, kTest };

/// Images of one shape, by index. Immutable after construction, so that every thread may read it.
class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual int64_t size(Split split) const = 0;
  /// Writes image `index` of `split` as C*H*W floats in [-1, 1], not flipped. Throws Error (exit
  /// code 2) naming the file when an image cannot be decoded.
  virtual void read(Split split, int64_t index, std::span<float> out) const = 0;

  [[nodiscard]] virtual int64_t channels() const = 0;
  [[nodiscard]] virtual int64_t resolution() const = 0;  ///< height and width
  /// Lists what was read, with checksums; empty for generated data.
  [[nodiscard]] virtual std::vector<reports::DataFile> files() const = 0;
  /// "official" (every checksum is the locked one), "unofficial" or "generated".
  [[nodiscard]] virtual std::string standing() const = 0;
  /// Returns what the user should know of the data although it stops nothing; empty: nothing.
  [[nodiscard]] virtual std::string note() const { return ""; }
  /// Says what data would have `count` images in the test split; empty: no data of the user's.
  [[nodiscard]] virtual std::string needed_for_test(int64_t /*count*/) const { return ""; }
  /// The exact distribution of the images where it is known, else null. The dataset owns it.
  [[nodiscard]] virtual const GaussianMixture* mixture() const { return nullptr; }
};

/// Opens what `data.name` says, at the model's channels and resolution; `folder` is --data (ignored
/// by generated data). Throws Error, exit code 2, with what is missing or malformed and where it
/// was looked for; exit code 77 when files are needed and no folder was given.
[[nodiscard]] std::shared_ptr<const Dataset> open_dataset(const Definition& definition,
                                                          const std::string& folder);

}  // namespace noisemark::suite
