#pragma once

#include <memory>
#include <string>

#include "suite/config/definition.h"
#include "suite/data/dataset.h"

namespace noisemark::suite {

/// "folder": every PNG and JPEG file below `folder`, at any depth, in the order of their relative
/// paths (bytewise). When `folder` has both `train/` and `test/`, they are the two splits;
/// otherwise the test split is the tenth of the pictures (rounded down, at least 1 of 2) whose
/// relative path has the largest SHA-256. Hidden files and folders (their name begins with a dot)
/// and what systems leave behind (Thumbs.db, desktop.ini, __MACOSX) are ignored. Other files that
/// are no PNG or JPEG by their content and have another extension than png, jpg and jpeg are left
/// out: note() names the first, and counts them and the good ones.
///
/// Opening reads every file once, on several threads, for its checksum and to see that it is a
/// whole PNG or JPEG that can be decoded by its header; decoding happens in read(). A picture is
/// converted to the model's channels (RGB, or gray by ITU-R 601), its shorter side resized to the
/// model's resolution, and its centre cut out, as torchvision's Resize and CenterCrop do with
/// Pillow. Pixels are stored as 8 bits in between.
///
/// files() has one row, "." : the SHA-256 over one line "path bytes sha256\n" per file in order.
/// standing() is "unofficial". Throws Error, exit code 2, for a folder without pictures or that
/// cannot be read, and for a file that is damaged or only named like a picture: named, with the
/// count of good ones.
[[nodiscard]] std::shared_ptr<const Dataset> open_image_folder(const Definition& definition,
                                                               const std::string& folder);

}  // namespace noisemark::suite
