#include "suite/data/image_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"
#include "tests/suite/data/image_writer.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

using test::encode_jpeg;
using test::encode_png;
using test::read;
using test::TemporaryFolder;
using test::test_picture;

Definition folder_definition(int64_t channels, int64_t resolution) {
  Definition definition;
  definition.id = "test";
  definition.data.name = "folder";
  definition.model.channels = channels;
  definition.model.resolution = resolution;
  return definition;
}

/// An image of 4 x 4 in one shade, to tell images apart.
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
  const auto dataset = open_image_folder(folder_definition(3, 8), folder.path());
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
  const auto dataset = open_image_folder(folder_definition(1, 4), folder.path());
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
  const auto dataset = open_image_folder(folder_definition(1, 4), folder.path());
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
  const auto gray = open_image_folder(folder_definition(1, 16), folder.path());
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
  const auto files = open_image_folder(folder_definition(3, 4), folder.path())->files();
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
  EXPECT_EQ(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
            (folder.path() / "c.png").string() +
                ": truncated PNG (PNG or JPEG files, at any depth; 2 files are good, 2 not)");
}

TEST(ImageFolder, a_text_named_like_a_picture_is_an_error) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  folder.write("b.JPG", {'h', 'i'});
  EXPECT_EQ(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
            (folder.path() / "b.JPG").string() +
                ": neither PNG nor JPEG (PNG or JPEG files, at any depth; 1 file is good, 1 not)");
}

TEST(ImageFolder, a_damaged_picture_of_any_name_is_an_error) {
  const TemporaryFolder folder;
  auto damaged = shade(3);
  damaged.resize(damaged.size() / 2);
  folder.write("a.png", shade(1));
  folder.write("b", damaged);
  EXPECT_NE(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput)
                .find("b: truncated PNG"),
            std::string::npos);
}

TEST(ImageFolder, a_picture_for_printers_is_an_error_before_anything_is_read) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  folder.write("b.jpg", encode_jpeg(test_picture(8, 8, 4), 90));
  const std::string message =
      message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput);
  EXPECT_NE(message.find("b.jpg: JPEG: CMYK"), std::string::npos) << message;
  EXPECT_NE(message.find("1 file is good, 1 not"), std::string::npos) << message;
}

TEST(ImageFolder, names_what_systems_leave_behind_like_all_that_is_no_picture) {
  const TemporaryFolder folder;
  folder.write("train/a.png", shade(1));
  folder.write("test/c.png", shade(3));
  folder.write("train/Thumbs.db", {1, 2, 3});
  folder.write("train/__MACOSX/._a.png", {1, 2, 3});
  folder.write(".DS_Store", {1, 2, 3});
  EXPECT_EQ(open_image_folder(folder_definition(3, 4), folder.path())->note(),
            "train/Thumbs.db is no image and left out; train/__MACOSX/._a.png is hidden and left "
            "out; .DS_Store is in neither split and left out; beside 2 good images");
}

TEST(ImageFolder, leaves_stray_files_out_and_counts_them) {
  const TemporaryFolder folder;
  folder.write("train/a.png", shade(1));
  folder.write("train/b", shade(2));  // an image by its content
  folder.write("test/c.png", shade(3));
  const auto clean = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(clean->note(), "");
  folder.write("test/labels.csv", {'0', '\n'});
  folder.write("train/README.txt", {'h', 'i'});
  folder.write("train/empty", {});
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->note(),
            "test/labels.csv is no image and left out, as are train/README.txt and train/empty; "
            "beside 3 good images");
  ASSERT_EQ(dataset->files().size(), 2U);
  EXPECT_EQ(dataset->files()[1].name,
            "3 entries are not used: test/labels.csv is no image and left out, as are "
            "train/README.txt and train/empty");
  EXPECT_EQ(dataset->files()[1].pictures, 0);
  EXPECT_EQ(dataset->size(Split::kTrain), 2);
  EXPECT_EQ(dataset->size(Split::kTest), 1);
  EXPECT_EQ(dataset->files()[0].sha256, clean->files()[0].sha256);
}

std::string note_of_folder(const TemporaryFolder& folder) {
  return open_image_folder(folder_definition(3, 4), folder.path())->note();
}

void expect_words(const std::string& text, const std::vector<std::string>& all) {
  for (const std::string& words : all) EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(ImageFolder, linked_folders_and_files_are_read) {
  const TemporaryFolder elsewhere;
  elsewhere.write("cats/0.png", shade(1));
  elsewhere.write("cats/deep/1.png", shade(2));
  elsewhere.write("dog.png", shade(3));
  const TemporaryFolder folder;
  folder.write("birds/0.png", shade(4));
  fs::create_directory_symlink(elsewhere.path() / "cats", folder.path() / "cats");
  fs::create_symlink(elsewhere.path() / "dog.png", folder.path() / "dog.png");
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain) + dataset->size(Split::kTest), 4);
  EXPECT_EQ(dataset->note(), "cats/ is a link to a folder, whose images are used");
}

TEST(ImageFolder, a_file_that_several_paths_lead_to_is_one_picture_and_in_one_split) {
  const TemporaryFolder elsewhere;
  elsewhere.write("cat.png", shade(40));
  elsewhere.write("dogs/0.png", shade(41));
  const TemporaryFolder folder;
  for (uint8_t i = 0; i < 12; ++i) {
    const std::string name = std::to_string(10 + i) + ".png";
    folder.write("all/" + name, shade(i));
    fs::create_symlink("all/" + name, folder.path() / ("again" + name));
  }
  fs::create_symlink(elsewhere.path() / "cat.png", folder.path() / "cat.png");
  fs::create_symlink(elsewhere.path() / "cat.png", folder.path() / "cat_again.png");
  fs::create_symlink(elsewhere.path() / "dogs/0.png", folder.path() / "a_dog.png");
  fs::create_directory_symlink(elsewhere.path() / "dogs", folder.path() / "dogs");
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain) + dataset->size(Split::kTest), 14);
  expect_words(dataset->note(),
               {"a_dog.png is a link to a file that is looked at already and left out, as are "
                "again10.png, again11.png",
                "beside 14 good images"});
  EXPECT_EQ(dataset->note().find(" cat.png"), std::string::npos) << dataset->note();
}

TEST(ImageFolder, every_entry_is_used_or_named_with_the_reason_and_circles_end) {
  const TemporaryFolder folder;
  folder.write("cats/0.png", shade(1));
  folder.write("cats/1.png", shade(2));
  folder.write(".hidden.png", shade(3));
  folder.write(".cache/0.png", shade(3));
  folder.write("cats/0.webp", {'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P'});
  folder.write("cats/1.webp", {'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P'});
  folder.write("icon", {0, 0, 1, 0});
  folder.write("layers.psd", {'8', 'B', 'P', 'S'});
  folder.write("map.ppm", {'P', '6', '\n', '1'});
  fs::create_directory(folder.path() / "empty");
  fs::create_directory_symlink(folder.path(), folder.path() / "circle");
  fs::create_directory_symlink("../cats", folder.path() / "cats" / "again");
  fs::create_directory_symlink("cats", folder.path() / "a_link_to_cats");
  fs::create_symlink("nowhere", folder.path() / "dangling.png");
  fs::create_symlink("itself.png", folder.path() / "itself.png");
  folder.write("more.zip", {'P', 'K', 3, 4});
  folder.write("shard-0001.tar", {'0', '.', 'p', 'n', 'g', 0});
  folder.write("moments.npz", {'P', 'K', 3, 4});
  folder.write("data_batch_1", {0x80, 2});
  folder.write("data_batch_1.bin", {3, 0});
  ASSERT_EQ(mkfifo((folder.path() / "pipe.png").c_str(), 0600), 0);
  expect_words(
      note_of_folder(folder),
      {".cache/ is hidden and left out, as is .hidden.png",
       "a_link_to_cats/ is a folder that is read already and left out, as are cats/again/"
       " and circle/",
       "cats/0.webp is a WebP image, which is neither PNG nor JPEG, and left out, as is "
       "cats/1.webp",
       "icon is an ICO image, which is neither PNG nor JPEG, and left out",
       "layers.psd is a PSD image", "map.ppm is a PPM image",
       "dangling.png is a link to nothing and left out", "empty/ is an empty folder and left out",
       "itself.png is a link that leads to itself and left out",
       "moments.npz is a file of NumPy's arrays, not an image, and left out",
       "data_batch_1 is of CIFAR-10, on whose binary version --set data.name=cifar10 trains, and",
       "data_batch_1.bin is of CIFAR-10, on which --set data.name=cifar10 trains, and left out",
       "more.zip is an archive, which is not unpacked and left out, as is shard-0001.tar",
       "pipe.png is no regular file and left out", "beside 2 good images"});
}

// The first page of a process is mapped nowhere: a file that is there, allowed and cannot be read.
TEST(ImageFolder, a_picture_whose_reading_fails_is_not_called_damaged) {
  for (const char* name : {"1.png", "1"}) {
    const TemporaryFolder folder;
    folder.write("0.png", shade(1));
    fs::create_symlink("/proc/self/mem", folder.path() / name);
    const fs::path file = folder.path() / name;
    expect_words(message_of(folder.path(), folder_definition(3, 4), ExitCode::kCannotRead),
                 {file.string() + ": cannot be read: Input/output error"});
  }
}

TEST(ImageFolder, a_folder_of_links_that_lead_nowhere_says_so) {
  const TemporaryFolder folder;
  fs::create_directory_symlink("nowhere", folder.path() / "cats");
  expect_words(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
               {"no images to train on", "cats is a link to nothing"});
}

TEST(ImageFolder, links_to_the_splits_are_the_splits) {
  const TemporaryFolder folder;
  folder.write("all/0.png", shade(1));
  folder.write("some/1.png", shade(2));
  fs::create_directory_symlink("all", folder.path() / "train");
  fs::create_directory_symlink("some", folder.path() / "test");
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), 1);
  EXPECT_EQ(dataset->size(Split::kTest), 1);
  expect_words(dataset->note(), {"all/ is in neither split and left out, as is some/"});
}

TEST(ImageFolder, splits_that_are_links_to_the_same_folder_are_refused) {
  const std::vector<std::pair<std::string, std::string>> kLinks{
      {"train", "train"}, {"test", "test"}, {"all", "all"}};  // pairs of a folder and the split
                                                              // that it leads to
  for (const auto& [train, test] : kLinks) {
    const TemporaryFolder folder;
    folder.write(train + "/0.png", shade(1));
    folder.write(train + "/1.png", shade(2));
    if (train != "train") fs::create_directory_symlink(train, folder.path() / "train");
    if (test != "test") fs::create_directory_symlink(test, folder.path() / "test");
    expect_words(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
                 {"no images in test/; test/ is of the other split and left out"});
  }
}

TEST(ImageFolder, a_split_that_is_a_link_into_the_other_shares_no_picture_with_it) {
  const std::vector<std::pair<std::string, std::string>> kSplits{{"train", "test"},
                                                                 {"test", "train"}};
  for (const auto& [around, inside] : kSplits) {
    const TemporaryFolder folder;
    folder.write(around + "/0.png", shade(1));
    folder.write(around + "/part/1.png", shade(2));
    fs::create_directory_symlink(around + "/part", folder.path() / inside);
    const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
    EXPECT_EQ(dataset->size(Split::kTrain), 1);
    EXPECT_EQ(dataset->size(Split::kTest), 1);
    expect_words(dataset->note(), {around + "/part/ is of the other split and left out"});
  }
}

TEST(ImageFolder, what_links_of_both_splits_lead_to_is_in_one_of_them) {
  const TemporaryFolder elsewhere;
  for (const char* name : {"cats/0.png", "cats/deep/1.png", "2.png", "birds/3.png", "4.png"}) {
    elsewhere.write(name, shade(1));
  }
  const TemporaryFolder folder;
  for (const char* split : {"train", "test"}) {
    folder.write(std::string(split) + "/own.png", shade(2));
    fs::create_directory_symlink(elsewhere.path() / "cats", folder.path() / split / "cats");
    fs::create_symlink(elsewhere.path() / "2.png", folder.path() / split / "2.png");
  }
  fs::create_directory_symlink(elsewhere.path() / "birds", folder.path() / "train" / "birds");
  fs::create_symlink(elsewhere.path() / "birds" / "3.png", folder.path() / "test" / "3.png");
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), 5);
  EXPECT_EQ(dataset->size(Split::kTest), 1);
  expect_words(dataset->note(), {"test/2.png is of the other split and left out, as are test/3.png "
                                 "and test/cats/"});
}

TEST(ImageFolder, a_link_in_one_split_brings_nothing_of_the_other_into_it) {
  const TemporaryFolder folder;
  folder.write("train/a/0.png", shade(1));
  folder.write("val/a/1.png", shade(2));
  folder.write("val/2.png", shade(3));
  const fs::path train = folder.path() / "train";
  fs::create_directory_symlink("..", train / "root");
  fs::create_directory_symlink(fs::canonical(folder.path()).parent_path(), train / "above");
  fs::create_directory_symlink("../val", train / "whole");
  fs::create_directory_symlink("../../val/a", train / "a" / "part");
  fs::create_symlink("../val/2.png", train / "one.png");
  fs::create_directory_symlink("..", folder.path() / "val" / "root");
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), 1);
  EXPECT_EQ(dataset->size(Split::kTest), 2);
  expect_words(dataset->note(),
               {"train/a/part/ is of the other split and left out, as are train/one.png and "
                "train/whole/",
                "train/above/ is a link to a folder around the other split and left out, as are "
                "train/root/ and val/root/"});
}

TEST(ImageFolder, a_split_that_lies_in_the_other_is_read_once) {
  const TemporaryFolder folder;
  folder.write("all/0.png", shade(1));
  folder.write("all/held/1.png", shade(2));
  fs::create_directory_symlink("all", folder.path() / "train");
  fs::create_directory_symlink("all/held", folder.path() / "test");
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), 1);
  EXPECT_EQ(dataset->size(Split::kTest), 1);
  expect_words(dataset->note(), {"train/held/ is of the other split and left out"});
}

TEST(ImageFolder, other_spellings_of_the_splits_are_splits_and_are_named) {
  const std::vector<std::pair<std::string, std::string>> kSpellings{
      {"train", "val"},
      {"train", "valid"},
      {"Train", "Test"},
      {"training", "testing"},
      {"TRAIN", "Validation"},
      {"train", "dev"},
      {"training", "eval"},
      {"train2017", "val2017"},
      {"training_set", "test_set"},
      {"train-images", "TestSet"},
      {"train", "validate"},
      {"train", "holdout"},
      {"train", "hold_out"},
      {"train", "tests"},
      {"trainset", "testset"},
      {"seg_train", "seg_test"},
      {"tr", "te"},
      {"trainA", "testA"},
      {"train_b", "val_b"},
      {"DIV2K_train_HR", "DIV2K_valid_HR"},
      {"images.train", "images.eval"},
      {"imagesTr", "imagesTs"},
      {"scans_tr", "scans_va"},
      {"traindir", "valdir"},
      {"trains", "vals"},
      {"mytrain", "myval"},
      {"ourTrainingset", "ourTestset"},
      {"tr", "val"},
      {"trainval", "test"},
      {"train_val", "test"},
      {"trainval2012", "test2012"},
      {"fit", "predict"}};
  for (const auto& [train, test] : kSpellings) {
    const TemporaryFolder folder;
    for (int i = 0; i < 9; ++i) {
      folder.write(train + "/c/" + std::to_string(i) + ".png", shade(10));
    }
    folder.write(test + "/c/x.png", shade(20));
    folder.write(test + "/c/y.png", shade(20));
    const auto dataset = open_image_folder(folder_definition(1, 4), folder.path());
    ASSERT_EQ(dataset->size(Split::kTrain), 9) << train;
    ASSERT_EQ(dataset->size(Split::kTest), 2) << test;
    EXPECT_EQ(read(*dataset, Split::kTest, 1)[0], pixel_value(20));
    EXPECT_EQ(dataset->note(), train + "/ is the training split, and " + test + "/ the test split");
  }
}

TEST(ImageFolder, of_languages_has_classes_and_no_splits) {
  const TemporaryFolder folder;
  for (const char* language : {"de", "te", "tr"}) {
    for (int i = 0; i < 4; ++i) {
      folder.write(std::string(language) + "/" + std::to_string(i) + ".png", shade(10));
    }
  }
  const auto dataset = open_image_folder(folder_definition(1, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain) + dataset->size(Split::kTest), 12);
  expect_words(dataset->note(), {"te/ is no split", "tr/ and te/ may be meant as splits"});
}

TEST(ImageFolder, folders_that_may_be_meant_as_splits_are_named_where_they_are_none) {
  const std::vector<std::vector<std::string>> kNames{
      {"train_A", "test_B"}, {"fit", "predict", "loose"}, {"lang_tr", "lang_te", "lang_de"}};
  for (const auto& names : kNames) {
    const TemporaryFolder folder;
    for (const std::string& name : names) folder.write(name + "/0.png", shade(1));
    const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
    EXPECT_EQ(dataset->size(Split::kTrain) + dataset->size(Split::kTest), std::ssize(names));
    expect_words(dataset->note(), {names[1] + "/ is no split",
                                   names[0] + "/ and " + names[1] + "/ may be meant as splits"});
    EXPECT_EQ(dataset->files().at(1).name, dataset->note());
  }
}

TEST(ImageFolder, of_a_whole_and_a_joined_training_split_the_whole_one_is_taken) {
  const TemporaryFolder folder;
  for (const char* name : {"train", "trainval", "val", "test"}) {
    folder.write(std::string(name) + "/0.png", shade(1));
  }
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), 1);
  expect_words(dataset->note(), {"trainval/ is in neither split and left out, as is val/"});
}

TEST(ImageFolder, with_splits_everything_beside_them_is_named) {
  const TemporaryFolder folder;
  folder.write("train/0.png", shade(1));
  folder.write("test/0.png", shade(2));
  folder.write("val/0.png", shade(3));
  folder.write("extra.png", shade(4));
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), 1);
  expect_words(dataset->note(), {"extra.png is in neither split and left out, as is val/"});
}

TEST(ImageFolder, two_folders_for_one_split_are_an_error) {
  const TemporaryFolder folder;
  folder.write("train/0.png", shade(1));
  folder.write("Training/0.png", shade(1));
  folder.write("val/0.png", shade(2));
  expect_words(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
               {"Training/ and train/ could both be the training split"});
}

TEST(ImageFolder, a_test_folder_without_training_folder_is_pictures_like_others_and_named) {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) folder.write("cats/" + std::to_string(i) + ".png", shade(1));
  folder.write("test/0.png", shade(1));
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain) + dataset->size(Split::kTest), 6);
  expect_words(dataset->note(), {"test/ is no split, because splits are two folders"});
}

TEST(ImageFolder, splits_that_lie_deeper_are_named) {
  const TemporaryFolder folder;
  folder.write("archive/train/0.png", shade(1));
  folder.write("archive/val/0.png", shade(1));
  expect_words(note_of_folder(folder),
               {"archive/val/ is no split, because splits are two folders"});
  fs::remove_all(folder.path() / "archive");
  folder.write("archive/imagesTr/0.png", shade(1));
  folder.write("archive/imagesTs/0.png", shade(1));
  expect_words(note_of_folder(folder),
               {"archive/imagesTs/ is no split, because splits are two folders"});
}

TEST(ImageFolder, classes_that_are_called_nearly_like_splits_are_classes) {
  const TemporaryFolder folder;
  for (const char* name : {"cats/0.png", "valley/0.png", "protest/0.png", "trainer/0.png"}) {
    folder.write(name, shade(1));
  }
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain) + dataset->size(Split::kTest), 4);
  EXPECT_EQ(dataset->note(), "");
}

TEST(ImageFolder, a_training_folder_without_partner_is_pictures_like_others_and_named) {
  for (const char* other : {"extra", "seg_test_b", "steam_train"}) {
    const TemporaryFolder folder;
    folder.write("train/0.png", shade(1));
    folder.write("train/1.png", shade(2));
    folder.write(std::string(other) + "/0.png", shade(3));
    const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
    EXPECT_EQ(dataset->size(Split::kTrain) + dataset->size(Split::kTest), 3);
    expect_words(dataset->note(), {"/ is no split, because splits are two folders side by side"});
    const auto files = dataset->files();
    ASSERT_EQ(files.size(), 2U) << other;
    EXPECT_EQ(files[1].name, dataset->note());
    EXPECT_GT(files[1].pictures, 0);
    EXPECT_LT(files[1].pictures, files[0].pictures);
  }
}

TEST(ImageFolder, a_training_folder_alone_is_all_there_is) {
  const TemporaryFolder folder;
  folder.write("train/0.png", shade(1));
  folder.write("train/1.png", shade(2));
  EXPECT_EQ(open_image_folder(folder_definition(3, 4), folder.path())->note(), "");
}

TEST(ImageFolder, of_several_pairs_the_plain_one_is_the_splits) {
  const TemporaryFolder folder;
  for (const char* name : {"train", "test", "train_masks", "test_masks"}) {
    folder.write(std::string(name) + "/0.png", shade(1));
  }
  expect_words(note_of_folder(folder), {"test_masks/ is in neither split and left out"});
  fs::remove_all(folder.path() / "train");
  folder.write("trainA/0.png", shade(1));
  folder.write("testA/0.png", shade(1));
  expect_words(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
               {"trainA/ and train_masks/ could both be the training split"});
}

TEST(ImageFolder, a_split_without_pictures_is_an_error) {
  const TemporaryFolder folder;
  folder.write("train/0.png", shade(1));
  folder.write("val/labels.csv", {'x'});
  expect_words(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
               {"no images in val/", "val/labels.csv is no image"});
}

TEST(ImageFolder, counts_and_names_what_is_odd_but_whole) {
  const TemporaryFolder folder;
  auto odd = shade(1);
  odd.push_back('x');
  folder.write("train/a.png", odd);
  folder.write("train/b.png", shade(2));
  auto unfinished = shade(3);
  unfinished.resize(unfinished.size() - 12);
  folder.write("test/c.png", unfinished);
  const auto dataset = open_image_folder(folder_definition(1, 4), folder.path());
  EXPECT_EQ(dataset->note(),
            "2 images are odd but whole and read as Pillow does: test/c.png (no end after the"
            " pixels) and train/a.png (bytes after the end)");
  const auto files = dataset->files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].pictures, 3);
  EXPECT_EQ(files[1].name, dataset->note());
  EXPECT_EQ(files[1].pictures, 2);
  EXPECT_EQ(files[1].bytes, static_cast<int64_t>(odd.size() + unfinished.size()));
  EXPECT_EQ(read(*dataset, Split::kTest, 0)[0], pixel_value(3));
}

TEST(ImageFolder, names_the_first_of_many_in_a_note_and_every_one_in_the_result) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  for (int i = 10; i < 30; ++i) folder.write(std::to_string(i) + ".txt", {'x'});
  expect_words(note_of_folder(folder), {"10.txt is no image and left out, as are 11.txt, 12.txt,",
                                        "19.txt, 20.txt and 9 more; beside 1 good image"});
  const auto files = open_image_folder(folder_definition(1, 4), folder.path())->files();
  ASSERT_EQ(files.size(), 2U);
  for (int i = 10; i < 30; ++i) expect_words(files[1].name, {std::to_string(i) + ".txt"});
}

TEST(ImageFolder, strays_do_not_move_pictures_between_the_splits) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i) + ".png", shade(1));
  const auto clean = open_image_folder(folder_definition(3, 4), folder.path());
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i) + ".txt", {'x'});
  const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
  EXPECT_EQ(dataset->size(Split::kTrain), clean->size(Split::kTrain));
  EXPECT_EQ(dataset->size(Split::kTest), clean->size(Split::kTest));
}

/// While alive, the process is not root's: permissions do not bind root.
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
    EXPECT_EQ(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
              closed.string() + ": Permission denied (a folder that can be read)");
    EXPECT_EQ(message_of(closed / "deeper", folder_definition(3, 4), ExitCode::kBadInput),
              "--data " + (closed / "deeper").string() +
                  ": Permission denied (PNG or JPEG files, at any depth)");
  }
  fs::permissions(closed, fs::perms::owner_all);
}

TEST(ImageFolder, is_read_where_no_more_threads_are_to_be_had) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i) + ".png", shade(1));
  fs::permissions(folder.path(), fs::perms{0755});
  const auto read_without_threads = [&] {
    constexpr uid_t kUserOfNothing = 54'321;  // limits do not bind root
    const rlimit none{1, 1};
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setuid(kUserOfNothing) != 0)) {
      std::_Exit(2);
    }
    if (eaccess(folder.path().c_str(), R_OK | X_OK) != 0) std::_Exit(2);
    try {
      const auto dataset = open_image_folder(folder_definition(3, 4), folder.path());
      std::_Exit(dataset->size(Split::kTrain) == 18 ? 0 : 1);
    } catch (const std::exception&) {
      std::_Exit(1);
    }
  };
  const pid_t child = fork();
  if (child == 0) read_without_threads();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no other user can be taken here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ImageFolder, a_file_given_as_the_folder_is_named) {
  const TemporaryFolder folder;
  const std::string file = folder.write("notes.txt", {'h', 'i'}).string();
  EXPECT_EQ(message_of(file, folder_definition(3, 4), ExitCode::kBadInput),
            "--data " + file + ": is a file, not a folder (PNG or JPEG files, at any depth)");
  const std::string archive = folder.write("pictures.zip", {'P', 'K', 3, 4}).string();
  EXPECT_EQ(message_of(archive, folder_definition(3, 4), ExitCode::kBadInput),
            "--data " + archive +
                ": is an archive that was not unpacked (PNG or JPEG files, at any depth)");
}

TEST(ImageFolder, a_file_damaged_inside_is_named_when_the_folder_is_opened) {
  const TemporaryFolder folder;
  auto damaged = encode_jpeg(test_picture(64, 64, 3), 90);
  damaged.erase(damaged.end() - 402, damaged.end() - 2);
  folder.write("train/a.jpg", damaged);
  folder.write("train/b.png", shade(1));
  folder.write("test/c.png", shade(1));
  const std::string what = message_of(folder.path(), folder_definition(3, 16), ExitCode::kBadInput);
  EXPECT_NE(what.find("train/a.jpg: JPEG: "), std::string::npos) << what;
  EXPECT_NE(what.find("2 files are good, 1 not"), std::string::npos) << what;
}

TEST(ImageFolder, refuses_a_folder_without_pictures_or_that_is_missing) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
            "--data " + folder.path().string() +
                ": no images to train on (PNG or JPEG files, at any depth)");
  folder.write("a.txt", {'h', 'i'});
  EXPECT_EQ(message_of(folder.path(), folder_definition(3, 4), ExitCode::kBadInput),
            "--data " + folder.path().string() +
                ": no images to train on; a.txt is no image and left out; beside 0 good"
                " images (PNG or JPEG files, at any depth)");
  const std::string missing = (folder.path() / "missing").string();
  EXPECT_EQ(message_of(missing, folder_definition(3, 4), ExitCode::kBadInput),
            "--data " + missing + ": no such folder (PNG or JPEG files, at any depth)");
}

TEST(ImageFolder, refuses_other_numbers_of_channels) {
  const TemporaryFolder folder;
  folder.write("a.png", shade(1));
  EXPECT_EQ(message_of(folder.path(), folder_definition(4, 4), ExitCode::kBadInput),
            "test: model.channels: 4 (1 or 3, for data.name \"folder\")");
}

}  // namespace
}  // namespace noisemark::suite
