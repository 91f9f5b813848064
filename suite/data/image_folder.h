#pragma once

#include <memory>
#include <string>

#include "suite/config/definition.h"
#include "suite/data/dataset.h"

namespace noisemark::suite {

/// "folder": the images below `folder` that picture_files.h finds. The folders "train" (or
/// "training") and "test" ("testing", "eval", "evaluation"), else "val" ("valid", "validation",
/// "dev"), are the two splits, in letters of either case and with what people put behind
/// ("train2017", "test_images"); then nothing else in `folder` is used, and note() names it.
/// Without such a pair the test split is the tenth of the images (rounded down, at least 1 of 2)
/// whose relative path has the largest SHA-256.
///
/// Opening decodes every file once, on several threads, so that what is damaged is known before
/// anything runs. An image is converted to the model's channels (RGB, or gray by ITU-R 601), its
/// shorter side resized to the model's resolution, and its centre cut out, as torchvision's Resize
/// and CenterCrop do with Pillow. Pixels are stored as 8 bits in between.
///
/// files() has one row, "." : the SHA-256 over one line "path bytes sha256\n" per file in order;
/// another for the images that are odd but whole, and one for what was left out, where there are
/// any. standing() is "unofficial". Throws Error, exit code 2, for a folder or a split without
/// images, for two folders that could be the same split, for what cannot be read, and for a file
/// that is damaged or only named like an image: named, with the count of good ones.
[[nodiscard]] std::shared_ptr<const Dataset> open_image_folder(const Definition& definition,
                                                               const std::string& folder);

}  // namespace noisemark::suite
