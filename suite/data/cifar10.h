#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"
#include "suite/config/definition.h"
#include "suite/data/dataset.h"

namespace noisemark::suite {

/// One file of CIFAR-10's binary version (Krizhevsky 2009): records of 1 label byte and 3072 bytes
/// of red, green and blue planes, row by row.
struct CifarFile {
  std::string_view name;
  std::string_view sha256;  ///< hash of the official file
};

inline constexpr int64_t kCifarRecordBytes = 1 + 3 * 32 * 32;
inline constexpr int64_t kCifarRecords = 10'000;  ///< records in every official file

/// The five training files in order, then the test file.
inline constexpr std::array<CifarFile, 6> kCifarFiles{{
    {"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
}};

/// Describes a file for result.json: verified when its checksum is the locked one.
[[nodiscard]] reports::DataFile describe_cifar_file(const CifarFile& file,
                                                    const std::string& sha256, int64_t bytes);

/// "official" when these are all files and all are verified, else "unofficial".
[[nodiscard]] std::string cifar_standing(const std::vector<reports::DataFile>& files);

/// "cifar10": `folder` is the one that holds the files above, or its parent when they lie in
/// `cifar-10-batches-bin`. All images are kept in memory as bytes. Files of fewer whole records
/// than the official ones are accepted where all six are such: the data are unofficial, and note()
/// names the files with their sizes. Throws Error, exit code 2, naming the file that is missing, of
/// a wrong size, shorter than the official one beside one that is not (its end was lost), or holds
/// a label above 9; and for another copy of the images (an archive, the Python version, Kaggle's)
/// saying which it is and which is needed.
[[nodiscard]] std::shared_ptr<const Dataset> open_cifar10(const Definition& definition,
                                                          const std::string& folder);

}  // namespace noisemark::suite
