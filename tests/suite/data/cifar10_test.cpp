#include "suite/data/cifar10.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"
#include "tests/suite/data/image_writer.h"
#include "tests/suite/real_pictures.h"

namespace noisemark::suite {
namespace {

using test::TemporaryFolder;

const std::string kFolder = "cifar-10-batches-bin/";

uint8_t stored(int64_t file, int64_t record, int64_t byte) {
  if (byte == 0) return static_cast<uint8_t>(record % 10);
  return static_cast<uint8_t>((file * 71 + record * 31 + byte * 7 + byte / 256) % 256);
}

std::vector<uint8_t> batch(int64_t file, int64_t records) {
  std::vector<uint8_t> bytes;
  for (int64_t record = 0; record < records; ++record) {
    for (int64_t byte = 0; byte < kCifarRecordBytes; ++byte) {
      bytes.push_back(stored(file, record, byte));
    }
  }
  return bytes;
}

/// Five training files of 1 to 5 records and a test file of 6.
void write_all(const TemporaryFolder& folder) {
  for (int64_t file = 0; file < 6; ++file) {
    folder.write(kFolder + std::string(kCifarFiles[file].name), batch(file, file + 1));
  }
}

std::shared_ptr<const Dataset> open(const std::filesystem::path& folder) {
  return open_cifar10(Definition{}, folder);
}

void expect_refused(const std::filesystem::path& folder, const std::string& expected) {
  EXPECT_EQ(test::outcome([&] { static_cast<void>(open(folder)); }),
            std::pair(ExitCode::kBadInput, expected));
}

constexpr const char* kAccepted =
    " (1 to 10000 records of 3073 bytes; the official file has 30730000 bytes)";

TEST(Cifar10, reads_records_in_file_order_from_the_folder_or_its_parent) {
  const TemporaryFolder folder;
  write_all(folder);
  for (const auto& place : {folder.path(), folder.path() / kFolder}) {
    const auto dataset = open(place);
    ASSERT_EQ(dataset->size(Split::kTrain), 15);
    ASSERT_EQ(dataset->size(Split::kTest), 6);
    std::vector<float> picture(3072);
    dataset->read(Split::kTrain, 4, picture);  // 1 + 2 records come before: it is record 1 of the
                                               // third file
    for (int64_t i = 0; i < 3072; ++i) ASSERT_EQ(picture[i], pixel_value(stored(2, 1, 1 + i)));
    dataset->read(Split::kTest, 5, picture);
    for (int64_t i = 0; i < 3072; ++i) ASSERT_EQ(picture[i], pixel_value(stored(5, 5, 1 + i)));
  }
}

TEST(Cifar10, lists_every_file_with_its_checksum_and_calls_other_bytes_unofficial) {
  const TemporaryFolder folder;
  write_all(folder);
  const auto dataset = open(folder.path());
  EXPECT_EQ(dataset->standing(), "unofficial");
  const auto files = dataset->files();
  ASSERT_EQ(files.size(), 6U);
  for (int64_t file = 0; file < 6; ++file) {
    EXPECT_EQ(files[file].name, kCifarFiles[file].name);
    EXPECT_EQ(files[file].bytes, (file + 1) * kCifarRecordBytes);
    EXPECT_EQ(files[file].pictures, file + 1);
    EXPECT_EQ(files[file].sha256,
              reports::sha256_of_file(folder.path() / kFolder / kCifarFiles[file].name));
    EXPECT_FALSE(files[file].verified);
  }
}

constexpr const char* kNeeded =
    " (the binary version, unpacked: https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz)";

TEST(Cifar10, another_copy_of_the_pictures_is_named_with_what_is_needed) {
  const std::vector<std::pair<std::string, std::string>> kCopies{
      {"cifar-10-batches-py/data_batch_1",
       "cifar-10-batches-py shows that this is the Python version of CIFAR-10"},
      {"data_batch_1", "data_batch_1 shows that this is the Python version of CIFAR-10"},
      {"data_batch_1.mat", "data_batch_1.mat shows that this is the Matlab version of CIFAR-10"},
      {"trainLabels.csv",
       "trainLabels.csv shows that this is Kaggle's copy of CIFAR-10, which is PNG files: on "
       "them, unpacked, --set data.name=folder trains"},
      {"train.7z",
       "train.7z shows that this is Kaggle's copy of CIFAR-10, which is PNG files: on them, "
       "unpacked, --set data.name=folder trains"},
      {"train/1.png",
       "train shows that this is a folder of image files, on which "
       "--set data.name=folder trains"},
      {"plain_text/train-00000-of-00001.parquet",
       "plain_text shows that this is CIFAR-10 as Parquet files"},
      {"data/train-00000-of-00001.parquet",
       "data/train-00000-of-00001.parquet shows that this is CIFAR-10 as Parquet files"},
      {"cifar10/3.0.2/cifar10-train.tfrecord-00000-of-00001",
       "cifar10/3.0.2/cifar10-train.tfrecord-00000-of-00001 shows that this is CIFAR-10 as "
       "TFRecord files"},
      {"cifar10.npz", "cifar10.npz shows that this is CIFAR-10 as NumPy arrays"},
      {"train.bin", "train.bin shows that this is CIFAR-100"},
      {"cifar-10/cifar-10-batches-py/data_batch_1",
       "cifar-10/cifar-10-batches-py shows that this is the Python version of CIFAR-10"},
      {"cifar-10/train/1.png",
       "cifar-10/train shows that this is a folder of image files, on which "
       "--set data.name=folder trains"},
      {"test/1.png",
       "test/1.png shows that this is a folder of image files, on which "
       "--set data.name=folder trains"},
      {"cats/1.JPG",
       "cats/1.JPG shows that this is a folder of image files, on which "
       "--set data.name=folder trains"},
      {"1.png",
       "1.png shows that this is a folder of image files, on which "
       "--set data.name=folder trains"},
      {"cifar-10-binary.tar.gz.part",
       "cifar-10-binary.tar.gz.part is a download that is not whole"},
      {"Unconfirmed 7.crdownload", "Unconfirmed 7.crdownload is a download that is not whole"},
      {"x/DATA_BATCH_1.BIN", "x/DATA_BATCH_1.BIN has another name than data_batch_1.bin"},
      {"cifar-10-binary.tar.xz", "cifar-10-binary.tar.xz was not unpacked"},
      {"cifar-10-binary.tar.bz2", "cifar-10-binary.tar.bz2 was not unpacked"},
      {"x/cifar-10-binary.tar.gz.1", "x/cifar-10-binary.tar.gz.1 was not unpacked"},
      {"cifar-10-binary.tar(1).gz", "cifar-10-binary.tar(1).gz was not unpacked"},
      {"cifar-100-binary/train.bin", "cifar-100-binary shows that this is CIFAR-100"},
      {"cifar-10-python.tar.gz",
       "cifar-10-python.tar.gz shows that this is the Python version of CIFAR-10"},
      {"cifar-10-matlab.tar.gz",
       "cifar-10-matlab.tar.gz shows that this is the Matlab version of CIFAR-10"},
      {"cifar-100-binary.tar.gz", "cifar-100-binary.tar.gz shows that this is CIFAR-100"},
      {"cifar-10-binary.tar.gz", "cifar-10-binary.tar.gz was not unpacked"},
      {"CIFAR-10.ZIP", "CIFAR-10.ZIP was not unpacked"}};
  for (const auto& [name, words] : kCopies) {
    const TemporaryFolder folder;
    folder.write(name, {'x'});
    expect_refused(folder.path(), "--data " + folder.path().string() + ": " + words + kNeeded);
  }
  const TemporaryFolder inner;
  inner.write(kFolder + "data_batch_1", {'x'});
  expect_refused(inner.path(),
                 "--data " + inner.path().string() +
                     ": data_batch_1 shows that this is the Python version of CIFAR-10" + kNeeded);
}

TEST(Cifar10, files_that_lie_deeper_are_named_with_the_folder_to_give) {
  const TemporaryFolder folder;
  folder.write("x/y/z/" + kFolder + "data_batch_1.bin", {'x'});
  const std::string path = folder.path().string();
  expect_refused(folder.path(), "--data " + path + ": the files lie deeper: give --data " + path +
                                    "/x/y/z/cifar-10-batches-bin" + kNeeded);
  const TemporaryFolder linked;
  std::filesystem::create_directory_symlink(folder.path() / "x/y/z" / kFolder,
                                            linked.path() / "cifar-10-batches-bin (1)");
  expect_refused(linked.path(), "--data " + linked.path().string() +
                                    ": the files lie deeper: give --data " +
                                    linked.path().string() + "/cifar-10-batches-bin (1)" + kNeeded);
}

TEST(Cifar10, an_empty_folder_is_said_to_lack_what_is_needed) {
  const TemporaryFolder folder;
  expect_refused(folder.path(),
                 (folder.path() / "data_batch_1.bin").string() + ": missing" + kNeeded);
}

TEST(Cifar10, a_file_given_as_the_folder_is_named_and_an_archive_as_not_unpacked) {
  const TemporaryFolder folder;
  const std::string archive = folder.write("cifar-10-binary.tar.gz", {'x'}).string();
  expect_refused(
      archive,
      "--data " + archive + ": is a file that was not unpacked (tar -xf), not a folder" + kNeeded);
  const std::string file = folder.write("data_batch_1.bin", {'x'}).string();
  expect_refused(file, "--data " + file + ": is a file, not a folder" + kNeeded);
}

TEST(Cifar10, a_copy_beside_the_right_files_does_not_matter) {
  const TemporaryFolder folder;
  write_all(folder);
  folder.write("cifar-10-binary.tar.gz", {'x'});
  folder.write("cifar-10-batches-py/data_batch_1", {'x'});
  EXPECT_EQ(open(folder.path())->size(Split::kTrain), 15);
}

TEST(Cifar10, official_checksums_are_six_different_sha256) {
  std::vector<std::string_view> sums;
  for (const CifarFile& file : kCifarFiles) {
    EXPECT_TRUE(reports::is_sha256(file.sha256)) << file.name;
    sums.push_back(file.sha256);
  }
  std::sort(sums.begin(), sums.end());
  EXPECT_EQ(std::unique(sums.begin(), sums.end()), sums.end());
}

TEST(Cifar10, names_a_missing_file) {
  const TemporaryFolder folder;
  write_all(folder);
  const auto path = folder.path() / (kFolder + "data_batch_3.bin");
  std::filesystem::remove(path);
  expect_refused(folder.path(), path.string() + ": missing" + kNeeded);
  std::filesystem::create_symlink("nowhere", path);
  expect_refused(folder.path(), path.string() + ": cannot be read: a link to nothing" + kAccepted);
}

TEST(Cifar10, names_a_folder_that_is_a_link_to_nothing) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / kFolder).parent_path();
  std::filesystem::create_symlink("nowhere", path);
  expect_refused(folder.path(), path.string() + ": a link to nothing" + kNeeded);
}

TEST(Cifar10, names_a_truncated_file_and_its_size) {
  const TemporaryFolder folder;
  write_all(folder);
  const auto path = folder.path() / (kFolder + "test_batch.bin");
  std::filesystem::resize_file(path, 6 * kCifarRecordBytes - 1);
  expect_refused(folder.path(), path.string() + ": size: 18437 bytes" + kAccepted);
  std::filesystem::resize_file(path, 0);
  expect_refused(folder.path(), path.string() + ": size: 0 bytes" + kAccepted);
}

TEST(Cifar10, refuses_a_file_with_more_records_than_the_official_one) {
  const TemporaryFolder folder;
  write_all(folder);
  const auto path = folder.path() / (kFolder + "data_batch_1.bin");
  std::filesystem::resize_file(path, 10'001 * kCifarRecordBytes);  // sparse: costs no disk
  expect_refused(folder.path(), path.string() + ": size: 30733073 bytes" + kAccepted);
}

TEST(Cifar10, names_every_file_of_a_small_set_with_its_size) {
  const TemporaryFolder folder;
  write_all(folder);
  EXPECT_EQ(open(folder.path())->note(),
            "shorter than the official files of 30730000 bytes: data_batch_1.bin has 3073, "
            "data_batch_2.bin has 6146, data_batch_3.bin has 9219, data_batch_4.bin has 12292, "
            "data_batch_5.bin has 15365, test_batch.bin has 18438");
}

TEST(Cifar10, refuses_a_file_that_lost_its_end_beside_whole_ones) {
  const TemporaryFolder folder;
  write_all(folder);
  // Zeros of a sparse file: labels 0, black images.
  for (const CifarFile& file : kCifarFiles) {
    std::filesystem::resize_file(folder.path() / (kFolder + std::string(file.name)), 30'730'000);
  }
  EXPECT_EQ(open(folder.path())->note(), "") << "of the official size, though with other bytes";
  const auto path = folder.path() / (kFolder + "data_batch_4.bin");
  std::filesystem::resize_file(path, 9'999 * kCifarRecordBytes);
  expect_refused(folder.path(),
                 path.string() +
                     ": size: 30726927 bytes, where other files are whole (1 to 10000 "
                     "records of 3073 bytes; the official file has 30730000 bytes, and "
                     "all or none are shorter)");
}

TEST(Cifar10, names_a_label_that_is_no_class) {
  const TemporaryFolder folder;
  write_all(folder);
  auto bytes = batch(4, 5);
  bytes[3 * kCifarRecordBytes] = 10;
  const auto path = folder.write(kFolder + "data_batch_5.bin", bytes);
  expect_refused(folder.path(), path.string() + ": label of record 3: 10 (0 to 9)");
}

TEST(Cifar10, says_what_a_download_left_in_place_of_a_file) {
  const TemporaryFolder folder;
  write_all(folder);
  const auto put = [&](const std::string& text) {
    return folder.write(kFolder + "data_batch_2.bin", {text.begin(), text.end()}).string();
  };
  const std::string pointer = put("version https://git-lfs.github.com/spec/v1\n");
  expect_refused(folder.path(), pointer + ": size: 43 bytes of a pointer of Git LFS" + kAccepted);
  expect_refused(folder.path(),
                 put("<html>no</html>") + ": size: 15 bytes of a page of HTML" + kAccepted);
}

TEST(Cifar10, says_when_there_is_no_such_folder) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("nowhere", folder.path() / "link");
  expect_refused(folder.path() / "link",
                 "--data " + (folder.path() / "link").string() +
                     ": is a link to nothing (a folder with cifar-10-batches-bin)");
  const auto path = folder.path() / "nowhere";
  expect_refused(
      path, "--data " + path.string() + ": no such folder (a folder with cifar-10-batches-bin)");
}

/// Bits of torch: (tensor([0, 1, 127, 128, 255]).float().div(255) * 2 - 1).
TEST(Cifar10, pixels_have_the_peers_bits) {
  EXPECT_EQ(pixel_value(0), -1.0F);
  EXPECT_EQ(pixel_value(1), -0x1.fbfbfcp-1F);
  EXPECT_EQ(pixel_value(127), -0x1.0101p-8F);
  EXPECT_EQ(pixel_value(128), 0x1.0102p-8F);
  EXPECT_EQ(pixel_value(255), 1.0F);
}

TEST(Cifar10, is_official_only_when_every_file_has_the_locked_checksum) {
  std::vector<reports::DataFile> files;
  for (const CifarFile& file : kCifarFiles) {
    files.push_back(describe_cifar_file(file, std::string(file.sha256), 30'730'000));
    EXPECT_TRUE(files.back().verified) << file.name;
  }
  EXPECT_EQ(cifar_standing(files), "official");
  for (size_t i = 0; i < files.size(); ++i) {
    auto other = files;
    const std::string wrong(kCifarFiles[(i + 1) % files.size()].sha256);
    other[i] = describe_cifar_file(kCifarFiles[i], wrong, 30'730'000);
    EXPECT_FALSE(other[i].verified);
    EXPECT_EQ(cifar_standing(other), "unofficial") << files[i].name;
  }
  files.pop_back();
  EXPECT_EQ(cifar_standing(files), "unofficial");
}

TEST(Cifar10, opens_the_real_pictures) {
  const char* folder = test::real_pictures();
  if (folder == nullptr && test::pictures_are_required()) FAIL() << test::kPicturesMissing;
  if (folder == nullptr) GTEST_SKIP() << test::kNoPictures;
  const auto dataset = open(folder);
  ASSERT_GE(dataset->size(Split::kTrain), 1);
  std::vector<float> picture(3072);
  double sum = 0;
  const int64_t count = std::min<int64_t>(1000, dataset->size(Split::kTrain));
  for (int64_t i = 0; i < count; ++i) {
    dataset->read(Split::kTrain, i, picture);
    for (const float value : picture) sum += value;
  }
  // The mean of CIFAR-10 is 0.473 in [0, 1]; 1000 images with a standard deviation of about 0.12
  // between image means stay within 0.03 (in [-1, 1]: 0.06) by a wide margin.
  if (count == 1000) {
    EXPECT_NEAR(sum / (3072.0 * 1000), 2 * 0.473 - 1, 0.06);
  }
  const std::filesystem::path given = folder;
  const bool is_parent = std::filesystem::is_directory(given / kFolder);
  bool all_official = true;
  for (const CifarFile& file : kCifarFiles) {
    const auto path = (is_parent ? given / kFolder : given) / file.name;
    all_official = all_official && reports::sha256_of_file(path) == file.sha256;
  }
  EXPECT_EQ(dataset->standing(), all_official ? "official" : "unofficial");
}

}  // namespace
}  // namespace noisemark::suite
