#include "suite/data/image_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "reports/error.h"
#include "reports/sha256.h"
#include "suite/data/pixels.h"
#include "tests/suite/data/image_writer.h"

namespace noisemark::suite {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::TemporaryFolder;
using test::test_picture;

Definition definition_of(int64_t channels, int64_t resolution) {
  Definition definition;
  definition.id = "test";
  definition.data.name = "folder";
  definition.model.channels = channels;
  definition.model.resolution = resolution;
  return definition;
}

std::vector<float> read(const Dataset& dataset, Split split, int64_t index) {
  std::vector<float> out(
      static_cast<size_t>(dataset.channels() * dataset.resolution() * dataset.resolution()));
  dataset.read(split, index, out);
  return out;
}

/// A picture of 4 x 4 in one shade, to tell pictures apart.
std::vector<uint8_t> shade(uint8_t value) {
  Picture picture{4, 4, 3, std::vector<uint8_t>(48, value)};
  return encode_png(picture);
}

std::string message_of(const std::string& folder, const Definition& definition, ExitCode code) {
  try {
    static_cast<void>(open_image_folder(definition, folder));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(ImageFolder, reads_pixels_by_channel_in_the_peers_range) {
  const TemporaryFolder folder;
  const Picture picture = test_picture(8, 8, 3);
  folder.write("train/a.png", encode_png(picture));
  folder.write("test/b.png", shade(255));
  const auto dataset = open_image_folder(definition_of(3, 8), folder.path());
  const auto values = read(*dataset, Split::kTrain, 0);
  for (size_t i = 0; i < 64; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      ASSERT_EQ(values[c * 64 + i], pixel_value(picture.pixels[3 * i + c]));
    }
  }
  for (const float value : read(*dataset, Split::kTest, 0)) ASSERT_EQ(value, 1.0F);
}

TEST(ImageFolder, train_and_test_subfolders_are_the_splits_in_path_order) {
  const TemporaryFolder folder;
  folder.write("train/z/0.png", shade(10));
  folder.write("train/a/deep/er/1.PNG", shade(20));
  folder.write("train/a/0.jpg", encode_jpeg(Picture{4, 4, 3, std::vector<uint8_t>(48, 30)}, 100));
  folder.write("test/0.png", shade(40));
  folder.write(".hidden/0.png", shade(50));
  folder.write("train/.DS_Store", {1, 2, 3});
  const auto dataset = open_image_folder(definition_of(1, 4), folder.path());
  ASSERT_EQ(dataset->size(Split::kTrain), 3);
  ASSERT_EQ(dataset->size(Split::kTest), 1);
  EXPECT_EQ(read(*dataset, Split::kTrain, 0)[0], pixel_value(30));
  EXPECT_EQ(read(*dataset, Split::kTrain, 1)[0], pixel_value(20));
  EXPECT_EQ(read(*dataset, Split::kTrain, 2)[0], pixel_value(10));
  EXPECT_EQ(read(*dataset, Split::kTest, 0)[0], pixel_value(40));
}

TEST(ImageFolder, without_subfolders_a_tenth_is_the_test_split_and_nothing_is_lost) {
  const TemporaryFolder folder;
  for (int i = 0; i < 40; ++i) {
    folder.write(std::to_string(i) + ".png", shade(static_cast<uint8_t>(i)));
  }
  const auto dataset = open_image_folder(definition_of(1, 4), folder.path());
  ASSERT_EQ(dataset->size(Split::kTrain), 36);
  ASSERT_EQ(dataset->size(Split::kTest), 4);
  std::vector<int> seen(40, 0);
  for (const Split split : {Split::kTrain, Split::kTest}) {
    for (int64_t i = 0; i < dataset->size(split); ++i) {
      const float value = read(*dataset, split, i)[0];
      for (uint8_t level = 0; level < 40; ++level) {
        seen[level] += value == pixel_value(level) ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(40, 1));
}

TEST(ImageFolder, resizes_and_converts_like_its_parts) {
  const TemporaryFolder folder;
  const Picture picture = test_picture(48, 37, 3);
  folder.write("train/a.png", encode_png(picture));
  folder.write("test/a.png", encode_png(picture));
  const auto gray = open_image_folder(definition_of(1, 16), folder.path());
  const Picture expected = resize_and_crop(to_gray(picture), 16);
  const auto values = read(*gray, Split::kTrain, 0);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], pixel_value(expected.pixels[i]));
}

TEST(ImageFolder, checksum_covers_paths_sizes_and_contents) {
  const TemporaryFolder folder;
  const auto first = shade(1);
  const auto second = shade(2);
  folder.write("test/a.png", first);
  folder.write("train/b.png", second);
  const auto line = [](const std::string& name, const std::vector<uint8_t>& bytes) {
    const std::string content(bytes.begin(), bytes.end());
    return name + " " + std::to_string(bytes.size()) + " " + reports::sha256_of(content) + "\n";
  };
  const auto files = open_image_folder(definition_of(3, 4), folder.path())->files();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].name, ".");
  EXPECT_EQ(files[0].bytes, static_cast<int64_t>(first.size() + second.size()));
  EXPECT_EQ(files[0].pictures, 2);
  EXPECT_EQ(files[0].sha256,
            reports::sha256_of(line("test/a.png", first) + line("train/b.png", second)));
  EXPECT_FALSE(files[0].verified);
}

TEST(ImageFolder, names_a_damaged_file_and_counts_the_good_ones) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  folder.write("b.png", shade(2));
  auto damaged = shade(3);
  damaged.resize(damaged.size() / 2);
  folder.write("c.png", damaged);
  folder.write("d.jpeg", {'h', 'i'});
  EXPECT_EQ(message_of(folder.path(), definition_of(3, 4), ExitCode::kBadInput),
            (folder.path() / "c.png").string() +
                ": truncated PNG (PNG or JPEG files, at any depth; 2 files are good, 2 not)");
}

TEST(ImageFolder, a_text_named_like_a_picture_is_an_error) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  folder.write("b.JPG", {'h', 'i'});
  EXPECT_EQ(
      message_of(folder.path(), definition_of(3, 4), ExitCode::kBadInput),
      (folder.path() / "b.JPG").string() +
          ": neither PNG nor JPEG (PNG or JPEG files, at any depth; 1 files are good, 1 not)");
}

TEST(ImageFolder, a_damaged_picture_of_any_name_is_an_error) {
  const TemporaryFolder folder;
  auto damaged = shade(3);
  damaged.resize(damaged.size() / 2);
  folder.write("a.png", shade(1));
  folder.write("b", damaged);
  EXPECT_NE(
      message_of(folder.path(), definition_of(3, 4), ExitCode::kBadInput).find("b: truncated PNG"),
      std::string::npos);
}

TEST(ImageFolder, a_picture_for_printers_is_an_error_before_anything_is_read) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  folder.write("b.jpg", encode_jpeg(test_picture(8, 8, 4), 90));
  const std::string message = message_of(folder.path(), definition_of(3, 4), ExitCode::kBadInput);
  EXPECT_NE(message.find("b.jpg: JPEG: CMYK"), std::string::npos) << message;
  EXPECT_NE(message.find("1 files are good, 1 not"), std::string::npos) << message;
}

TEST(ImageFolder, leaves_stray_files_out_and_counts_them) {
  const TemporaryFolder folder;
  folder.write("train/a.png", shade(1));
  folder.write("train/b", shade(2));  // a picture by its content
  folder.write("test/c.png", shade(3));
  const auto clean = open_image_folder(definition_of(3, 4), folder.path());
  EXPECT_EQ(clean->note(), "");
  folder.write("train/Thumbs.db", {1, 2, 3});
  folder.write("test/desktop.ini", {'x'});
  folder.write("train/__MACOSX/._a.png", {1, 2, 3});
  EXPECT_EQ(open_image_folder(definition_of(3, 4), folder.path())->note(), "");
  folder.write("test/labels.csv", {'0', '\n'});
  folder.write("train/README.txt", {'h', 'i'});
  folder.write("train/empty", {});
  const auto dataset = open_image_folder(definition_of(3, 4), folder.path());
  EXPECT_EQ(
      dataset->note(),
      "test/labels.csv is no picture and left out, as are 2 other files; beside 3 good pictures");
  EXPECT_EQ(dataset->size(Split::kTrain), 2);
  EXPECT_EQ(dataset->size(Split::kTest), 1);
  EXPECT_EQ(dataset->files()[0].sha256, clean->files()[0].sha256);
}

TEST(ImageFolder, strays_do_not_move_pictures_between_the_splits) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i) + ".png", shade(1));
  const auto clean = open_image_folder(definition_of(3, 4), folder.path());
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i) + ".txt", {'x'});
  const auto dataset = open_image_folder(definition_of(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), clean->size(Split::kTrain));
  EXPECT_EQ(dataset->size(Split::kTest), clean->size(Split::kTest));
}

/// Not root while alive: permissions do not bind root.
class AsNobody {
 public:
  AsNobody() : as_nobody_(geteuid() != 0 || seteuid(kNobody) == 0) {}
  ~AsNobody() {
    if (getuid() == 0 && seteuid(0) != 0) std::abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  [[nodiscard]] explicit operator bool() const { return as_nobody_; }

 private:
  static constexpr uid_t kNobody = 65534;
  bool as_nobody_;
};

TEST(ImageFolder, names_a_folder_that_cannot_be_read) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  folder.write("closed/b.png", shade(2));
  const fs::path closed = folder.path() / "closed";
  fs::permissions(folder.path(), fs::perms{0755});
  fs::permissions(closed, fs::perms::none);
  {
    const AsNobody nobody;
    if (!nobody) GTEST_SKIP() << "root cannot become another user here";
    if (eaccess(folder.path().c_str(), R_OK | X_OK) != 0) {
      GTEST_SKIP() << "the temporary folder is root's alone";
    }
    EXPECT_EQ(message_of(folder.path(), definition_of(3, 4), ExitCode::kBadInput),
              closed.string() + ": Permission denied (a folder that can be read)");
    EXPECT_EQ(message_of(closed / "deeper", definition_of(3, 4), ExitCode::kBadInput),
              "--data " + (closed / "deeper").string() +
                  ": Permission denied (PNG or JPEG files, at any depth)");
  }
  fs::permissions(closed, fs::perms::owner_all);
}

TEST(ImageFolder, a_file_given_as_the_folder_is_named) {
  const TemporaryFolder folder;
  const std::string file = folder.write("notes.txt", {'h', 'i'}).string();
  EXPECT_EQ(message_of(file, definition_of(3, 4), ExitCode::kBadInput),
            "--data " + file + ": is a file, not a folder (PNG or JPEG files, at any depth)");
}

TEST(ImageFolder, a_file_damaged_inside_is_named_when_it_is_read) {
  const TemporaryFolder folder;
  auto damaged = encode_jpeg(test_picture(64, 64, 3), 90);
  damaged.erase(damaged.end() - 402, damaged.end() - 2);
  folder.write("train/a.jpg", damaged);
  folder.write("train/b.png", shade(1));
  folder.write("test/c.png", shade(1));
  const auto dataset = open_image_folder(definition_of(3, 16), folder.path());
  try {
    read(*dataset, Split::kTrain, 0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    const std::string what = error.what();
    EXPECT_NE(what.find("train/a.jpg: JPEG: "), std::string::npos) << what;
    EXPECT_NE(what.find("2 other files"), std::string::npos) << what;
  }
}

TEST(ImageFolder, refuses_a_folder_without_pictures_or_that_is_missing) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of(folder.path(), definition_of(3, 4), ExitCode::kBadInput),
            "--data " + folder.path().string() +
                ": no pictures to train on (PNG or JPEG files, at any depth)");
  folder.write("a.txt", {'h', 'i'});
  EXPECT_EQ(message_of(folder.path(), definition_of(3, 4), ExitCode::kBadInput),
            "--data " + folder.path().string() +
                ": no pictures to train on; a.txt is no picture and left out; beside 0 good"
                " pictures (PNG or JPEG files, at any depth)");
  const std::string missing = (folder.path() / "missing").string();
  EXPECT_EQ(message_of(missing, definition_of(3, 4), ExitCode::kBadInput),
            "--data " + missing + ": no such folder (PNG or JPEG files, at any depth)");
}

TEST(ImageFolder, refuses_other_numbers_of_channels) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  EXPECT_EQ(message_of(folder.path(), definition_of(4, 4), ExitCode::kBadInput),
            "test: model.channels: 4 (1 or 3, for data.name \"folder\")");
}

}  // namespace
}  // namespace noisemark::suite
