#include "suite/data/cifar10.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"
#include "suite/data/picture_files.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSubfolder = "cifar-10-batches-bin";
constexpr int64_t kPixels = kCifarRecordBytes - 1;
constexpr int64_t kFileBytes = kCifarRecords * kCifarRecordBytes;  ///< size of every official file

using Bytes = std::vector<uint8_t>;

std::string accepted_size() {
  return "1 to " + std::to_string(kCifarRecords) + " records of " +
         std::to_string(kCifarRecordBytes) + " bytes; the official file has " +
         std::to_string(kFileBytes) + " bytes";
}

/// Knows the endings of browsers, curl, aria2 and transmission.
bool is_half_a_download(const std::string& name) {
  constexpr std::array<std::string_view, 6> kEndings{".part",     ".partial", ".crdownload",
                                                     ".download", ".aria2",   ".tmp"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

constexpr const char* kNeeded =
    "the binary version, unpacked: https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";

constexpr std::string_view kPictures =
    "a folder of image files, on which --set data.name=folder trains";
constexpr std::string_view kKaggle =
    "Kaggle's copy of CIFAR-10, which is PNG files: on them, unpacked, --set data.name=folder "
    "trains";

/// A copy in a form that is not read, known by the name of something in it.
struct OtherCopy {
  std::string_view name;  ///< is in lower case; a star at an end stands for any more letters
  std::string_view what;
};

constexpr std::array kOtherCopies{
    OtherCopy{"cifar-10-batches-py", "the Python version of CIFAR-10"},
    OtherCopy{"cifar-10-python*", "the Python version of CIFAR-10"},
    OtherCopy{"data_batch_1", "the Python version of CIFAR-10"},
    OtherCopy{"cifar-10-batches-mat", "the Matlab version of CIFAR-10"},
    OtherCopy{"cifar-10-matlab*", "the Matlab version of CIFAR-10"},
    OtherCopy{"data_batch_1.mat", "the Matlab version of CIFAR-10"},
    OtherCopy{"trainlabels.csv", kKaggle},
    OtherCopy{"train.7z", kKaggle},
    OtherCopy{"plain_text", "CIFAR-10 as Parquet files"},
    OtherCopy{"*.parquet", "CIFAR-10 as Parquet files"},
    OtherCopy{"*.tfrecord*", "CIFAR-10 as TFRecord files"},
    OtherCopy{"*.npz", "CIFAR-10 as NumPy arrays"},
    OtherCopy{"*.npy", "CIFAR-10 as NumPy arrays"},
    OtherCopy{"cifar-100-*", "CIFAR-100"},
    OtherCopy{"fine_label_names.txt", "CIFAR-100"},
    OtherCopy{"train.bin", "CIFAR-100"},
    OtherCopy{"train", kPictures},
    OtherCopy{"*.png", kPictures},
    OtherCopy{"*.jpg", kPictures},
    OtherCopy{"*.jpeg", kPictures},
};

bool is_named(const std::string& name, std::string_view pattern) {
  const bool any_before = pattern.starts_with('*');
  const bool any_after = pattern.ends_with('*');
  if (any_before) pattern.remove_prefix(1);
  if (any_after) pattern.remove_suffix(1);
  if (any_before && any_after) return name.find(pattern) != std::string::npos;
  if (any_before) return name.ends_with(pattern);
  return any_after ? name.starts_with(pattern) : name == pattern;
}

/// The paths in `folder` relative to it, sorted, at most kDepth deep; of a large folder some.
std::vector<fs::path> paths_in(const fs::path& folder) {
  constexpr int kDepth = 5;
  constexpr size_t kMost = 10'000;
  std::vector<fs::path> paths;
  std::error_code unreadable;
  // The search goes into links to folders too; those that lead back end at the depth.
  const auto options = fs::directory_options::skip_permission_denied |
                       fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator entry(folder, options, unreadable), end;
       !unreadable && entry != end && paths.size() < kMost; entry.increment(unreadable)) {
    paths.push_back(entry->path().lexically_relative(folder));
    if (entry.depth() + 1 >= kDepth) entry.disable_recursion_pending();
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

template <typename Names>
std::optional<fs::path> find_named(const std::vector<fs::path>& paths, const Names& names) {
  const auto found = std::find_if(paths.begin(), paths.end(), [&](const fs::path& path) {
    return names(reports::lower_case(path.filename().string()));
  });
  return found == paths.end() ? std::nullopt : std::optional(*found);
}

/// Says where in `folder` the files lie, which other copy it holds, or which archive; empty: none.
std::string what_is_in(const fs::path& folder) {
  const std::vector<fs::path> paths = paths_in(folder);
  const auto first =
      find_named(paths, [](const std::string& name) { return name == kCifarFiles.front().name; });
  if (first && first->filename() != kCifarFiles.front().name) {
    return fmt::format("{} has another name than {}", first->string(), kCifarFiles.front().name);
  }
  if (first) return "the files lie deeper: give --data " + (folder / *first).parent_path().string();
  for (const OtherCopy& copy : kOtherCopies) {
    const auto found =
        find_named(paths, [&](const std::string& name) { return is_named(name, copy.name); });
    if (found) return found->string() + " shows that this is " + std::string(copy.what);
  }
  if (const auto half = find_named(paths, is_half_a_download)) {
    return half->string() + " is a download that is not whole";
  }
  const auto archive = find_named(paths, is_archive_name);
  return archive ? archive->string() + " was not unpacked" : "";
}

/// The folder that holds the files: `folder`, or the one in it that is named as the archive names
/// it.
fs::path batches_folder(const fs::path& folder) {
  const std::string where = "--data " + folder.string();
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::is_regular_file(status)) {
    throw bad_input(where, "",
                    is_archive_name(folder.filename().string())
                        ? "is a file that was not unpacked (tar -xf), not a folder"
                        : "is a file, not a folder",
                    kNeeded);
  }
  if (!fs::is_directory(status)) {
    throw bad_input(where, "", why_no_folder(folder), "a folder with " + std::string(kSubfolder));
  }
  const fs::path inner = folder / kSubfolder;
  fs::path batches = fs::is_directory(inner, error) ? inner : folder;
  if (fs::exists(batches / kCifarFiles.front().name, error)) return batches;
  for (const fs::path& place : {batches, folder}) {
    const std::string found = what_is_in(place);
    if (!found.empty()) throw bad_input(where, "", found, kNeeded);
  }
  if (reports::why_no_file(inner) == reports::kLinkToNothing) {
    throw bad_input(inner.string(), "", std::string(reports::kLinkToNothing), kNeeded);
  }
  return batches;
}

void check_labels(const fs::path& path, const Bytes& bytes) {
  for (size_t begin = 0; begin < bytes.size(); begin += kCifarRecordBytes) {
    if (bytes[begin] <= 9) continue;
    throw bad_input(path.string(), "label of record " + std::to_string(begin / kCifarRecordBytes),
                    std::to_string(bytes[begin]), "0 to 9");
  }
}

/// Says what a download left in place of the file, where its beginning tells.
std::string what_came(reports::InputFile& file) {
  std::array<char, 64> bytes{};
  const std::string came =
      reports::stand_in({bytes.data(), file.read_some(bytes.data(), bytes.size())});
  return came.empty() ? "" : " of " + came;
}

Bytes read_batch(const fs::path& path) {
  if (reports::why_no_file(path) == reports::kNotThere) {
    throw bad_input(path.string(), "", "missing", kNeeded);
  }
  reports::InputFile file(path, accepted_size());
  const auto size = static_cast<int64_t>(file.size());
  if (size == 0 || size % kCifarRecordBytes != 0 || size > kFileBytes) {
    throw bad_input(path.string(), "size", std::to_string(size) + " bytes" + what_came(file),
                    accepted_size());
  }
  Bytes bytes(static_cast<size_t>(size));
  file.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  check_labels(path, bytes);
  return bytes;
}

bool is_short(const reports::DataFile& file) {
  return file.bytes < kFileBytes;
}

/// A small set is made by cutting all files; one alone was cut by accident.
void check_lengths(const fs::path& folder, const std::vector<reports::DataFile>& files) {
  const auto first = std::find_if(files.begin(), files.end(), is_short);
  if (first == files.end() || std::all_of(files.begin(), files.end(), is_short)) return;
  throw bad_input((folder / first->name).string(), "size",
                  std::to_string(first->bytes) + " bytes, where other files are whole",
                  accepted_size() + ", and all or none are shorter");
}

std::string note_of(const std::vector<reports::DataFile>& files) {
  std::string note;
  for (const reports::DataFile& file : files) {
    if (!is_short(file)) continue;
    note += (note.empty() ? "" : ", ") + file.name + " has " + std::to_string(file.bytes);
  }
  if (note.empty()) return note;
  return "shorter than the official files of " + std::to_string(kFileBytes) + " bytes: " + note;
}

class Cifar10 final : public Dataset {
 public:
  explicit Cifar10(const fs::path& folder) {
    for (const CifarFile& file : kCifarFiles) {
      const Bytes bytes = read_batch(folder / file.name);
      reports::Sha256 hash;
      hash.update(std::as_bytes(std::span(bytes)));
      const std::string sha256 = hash.hex();
      files_.push_back(describe_cifar_file(file, sha256, static_cast<int64_t>(bytes.size())));
      Bytes& records = &file == &kCifarFiles.back() ? test_ : train_;
      records.insert(records.end(), bytes.begin(), bytes.end());
    }
    check_lengths(folder, files_);
  }

  [[nodiscard]] int64_t size(Split split) const override {
    return static_cast<int64_t>(records(split).size()) / kCifarRecordBytes;
  }

  void read(Split split, int64_t index, std::span<float> out) const override {
    TORCH_CHECK(index >= 0 && index < size(split), "no image ", index);
    TORCH_CHECK(static_cast<int64_t>(out.size()) == kPixels, "an image has 3 x 32 x 32 values");
    const uint8_t* pixels = records(split).data() + index * kCifarRecordBytes + 1;
    std::transform(pixels, pixels + kPixels, out.begin(), pixel_value);
  }

  [[nodiscard]] int64_t channels() const override { return 3; }
  [[nodiscard]] int64_t resolution() const override { return 32; }
  [[nodiscard]] std::vector<reports::DataFile> files() const override { return files_; }
  [[nodiscard]] std::string standing() const override { return cifar_standing(files_); }
  [[nodiscard]] std::string note() const override { return note_of(files_); }
  [[nodiscard]] std::string needed_for_test(int64_t count) const override {
    return "at least " + std::to_string(count) + " records in " +
           std::string(kCifarFiles.back().name);
  }

 private:
  [[nodiscard]] const Bytes& records(Split split) const {
    return split == Split::kTrain ? train_ : test_;
  }

  Bytes train_;
  Bytes test_;
  std::vector<reports::DataFile> files_;
};

}  // namespace

reports::DataFile describe_cifar_file(const CifarFile& file, const std::string& sha256,
                                      int64_t bytes) {
  return {std::string(file.name), sha256, bytes, sha256 == file.sha256, bytes / kCifarRecordBytes};
}

std::string cifar_standing(const std::vector<reports::DataFile>& files) {
  const bool official =
      files.size() == kCifarFiles.size() &&
      std::all_of(files.begin(), files.end(), [](const auto& file) { return file.verified; });
  return official ? "official" : "unofficial";
}

std::shared_ptr<const Dataset> open_cifar10(const Definition& definition,
                                            const std::string& folder) {
  TORCH_CHECK(definition.model.channels == 3 && definition.model.resolution == 32,
              "cifar10 has 3 channels of 32 x 32");
  return std::make_shared<Cifar10>(batches_folder(folder));
}

}  // namespace noisemark::suite
