#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "suite/data/dataset.h"

namespace noisemark::suite {

/// Images of one size, by index, as 8-bit RGB. Immutable.
class ImageSet {
 public:
  virtual ~ImageSet() = default;

  [[nodiscard]] virtual int64_t size() const = 0;
  /// 1 where every image is gray, else 3.
  [[nodiscard]] virtual int64_t channels() const = 0;
  /// Images [begin, end) as uint8 [end - begin, 3, H, W]; gray ones have three equal channels.
  /// Throws Error, exit code 2, naming the file when one is no longer what it was at opening.
  [[nodiscard]] virtual at::Tensor read(int64_t begin, int64_t end) const = 0;
  /// SHA-256 that changes when any image does.
  [[nodiscard]] virtual std::string checksum() const = 0;
  /// Returns what the user should know although it stops nothing; empty: nothing.
  [[nodiscard]] virtual std::string note() const { return ""; }
};

/// Every PNG and JPEG file below `folder`, as they are, in the order of their relative paths
/// (picture_files.h says which files count). Throws Error, exit code 2, for no folder and no
/// images, and naming the file for a damaged one and one of another size than the first.
[[nodiscard]] std::unique_ptr<ImageSet> open_image_set(const std::string& folder);

/// images uint8 [N, C, H, W] or [N, H, W, C] with C 1 or 3. Throws Error, exit code 2, beginning
/// with `where`, for another shape and for none.
[[nodiscard]] std::unique_ptr<ImageSet> open_image_array(const at::Tensor& images,
                                                         const std::string& where);

/// A split of a dataset, its values in [-1, 1] rounded to the nearest of 256 levels (those that
/// were 8-bit pixels come back exactly). `identity` names what generates it; the checksum is made
/// of it and of the dataset's files.
[[nodiscard]] std::unique_ptr<ImageSet> open_dataset_images(std::shared_ptr<const Dataset> dataset,
                                                            Split split,
                                                            const std::string& identity);

}  // namespace noisemark::suite
