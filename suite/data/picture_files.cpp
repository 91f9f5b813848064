#include "suite/data/picture_files.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <deque>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "suite/data/image_file.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

bool has_picture_extension(const fs::path& path) {
  const std::string extension = reports::lower_case(path.extension().string());
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

constexpr const char* kOthers = "is of the other split";

/// Both without links.
bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

/// A split beside another one. The two may lie in one another, or be links to the same folder.
struct SplitPlace {
  fs::path own;
  fs::path other;  ///< both without links

  [[nodiscard]] bool is_others(const fs::path& path) const {
    return lies_in(path, other) && !(lies_in(own, other) && lies_in(path, own));
  }
};

/// Lists the files below a folder, or below the two splits one after the other. Folders without
/// links come first, so that links that lead to them again are the ones that are left out. What
/// links of both splits lead to is the first one's. Links to files come last: what one of them
/// leads to is read once.
class Walk {
 public:
  /// `prefix` begins the paths of what is in `folder`; a slash ends it unless it is empty.
  void add(const fs::path& folder, const std::string& prefix, std::optional<SplitPlace> split) {
    split_ = std::move(split);
    ++round_;
    add_folder(folder, prefix);
    while (!links_.empty()) {
      const auto [path, name] = links_.front();
      links_.pop_front();
      if (add_folder(path, name)) linked.push_back(name);
    }
    for (const auto& [path, name] : std::exchange(file_links_, {})) add_linked_file(path, name);
  }

  std::vector<std::string> files;
  std::vector<LeftOut> left_out;
  std::vector<std::string> linked;

 private:
  /// Returns whether the folder was read now, for the first time.
  bool add_folder(const fs::path& folder, const std::string& prefix);
  void add_entry(const fs::directory_entry& entry, const std::string& path);
  void add_file(const fs::directory_entry& entry, const std::string& path);
  void add_linked_file(const fs::path& link, const std::string& path);

  /// Says why a folder at `place`, without links, is not for this split; empty where it is.
  [[nodiscard]] const char* why_not(const fs::path& place, bool is_link) const {
    if (!split_ || place == split_->own) return "";
    if (split_->is_others(place)) return kOthers;
    return is_link && lies_in(split_->other, place) ? "is a link to a folder around the other split"
                                                    : "";
  }

  /// `place` is without links.
  [[nodiscard]] bool is_others_file(const fs::path& place) const {
    return (split_ && split_->is_others(place)) || is_of_earlier_round(linked_files_, place) ||
           is_of_earlier_round(visited_, place.parent_path());
  }

  /// The round in which each was reached first, without links.
  using Rounds = std::map<fs::path, int>;
  [[nodiscard]] bool is_of_earlier_round(const Rounds& rounds, const fs::path& place) const {
    const auto found = rounds.find(place);
    return found != rounds.end() && found->second < round_;
  }

  std::optional<SplitPlace> split_;
  int round_ = 0;
  Rounds visited_;
  Rounds linked_files_;
  std::vector<std::pair<fs::path, std::string>> file_links_;
  std::deque<std::pair<fs::path, std::string>> links_;
};

bool Walk::add_folder(const fs::path& folder, const std::string& prefix) {
  try {
    const fs::path place = fs::canonical(folder);
    std::string reason = why_not(place, fs::is_symlink(folder));
    if (reason.empty() && !visited_.emplace(place, round_).second) {
      reason = is_of_earlier_round(visited_, place) ? kOthers : "is a folder that is read already";
    }
    if (!reason.empty()) {
      left_out.push_back({prefix, reason});
      return false;
    }
    std::vector<fs::directory_entry> entries(fs::directory_iterator(folder), {});
    std::sort(entries.begin(), entries.end());
    if (entries.empty() && !prefix.empty()) left_out.push_back({prefix, "is an empty folder"});
    for (const fs::directory_entry& entry : entries) {
      add_entry(entry, prefix + entry.path().filename().string());
    }
    return true;
  } catch (const fs::filesystem_error& error) {
    throw bad_input(folder.string(), "", error.code().message(), "a folder that can be read");
  }
}

void Walk::add_entry(const fs::directory_entry& entry, const std::string& path) {
  std::error_code error;
  const fs::file_status status = entry.status(error);
  const bool is_folder = fs::is_directory(status);
  if (entry.path().filename().string().starts_with('.')) {
    left_out.push_back({path + (is_folder ? "/" : ""), "is hidden"});
  } else if (is_folder && entry.is_symlink()) {
    links_.emplace_back(entry.path(), path + "/");
  } else if (is_folder) {
    add_folder(entry.path(), path + "/");
  } else if (fs::is_regular_file(status)) {
    add_file(entry, path);
  } else if (status.type() == fs::file_type::not_found) {
    left_out.push_back({path, "is a link to nothing"});
  } else if (error == std::errc::too_many_symbolic_link_levels) {
    left_out.push_back({path, "is a link that leads to itself"});
  } else if (error) {
    left_out.push_back({path, "cannot be reached (" + error.message() + ")"});
  } else {
    left_out.push_back({path, "is no regular file"});
  }
}

void Walk::add_file(const fs::directory_entry& entry, const std::string& path) {
  if (entry.is_symlink()) {
    file_links_.emplace_back(entry.path(), path);
  } else if (!linked_files_.empty() && is_others_file(fs::canonical(entry.path()))) {
    left_out.push_back({path, kOthers});
  } else {
    files.push_back(path);
  }
}

void Walk::add_linked_file(const fs::path& link, const std::string& path) {
  std::error_code error;
  const fs::path place = fs::canonical(link, error);
  if (error) return left_out.push_back({path, "cannot be reached (" + error.message() + ")"});
  if (is_others_file(place)) return left_out.push_back({path, kOthers});
  const bool hidden = place.filename().string().starts_with('.');
  const bool is_read = visited_.contains(place.parent_path()) && !hidden;
  if (is_read || !linked_files_.emplace(place, round_).second) {
    return left_out.push_back({path, "is a link to a file that is looked at already"});
  }
  files.push_back(path);
}

struct Facts {
  std::string reason;  ///< why the file is left out; empty: it is an image
  PictureFile file;    ///< has no path yet; nothing where the file is left out
};

constexpr const char* kReadable = "a readable file";

/// Reads as many bytes as a format is known by, or fewer of a shorter file.
std::vector<uint8_t> read_beginning(const fs::path& path) {
  constexpr size_t kLongest = 32;
  std::vector<uint8_t> bytes(kLongest);
  bytes.resize(reports::InputFile(path, kReadable)
                   .read_some(reinterpret_cast<char*>(bytes.data()), bytes.size()));
  return bytes;
}

/// A data set in another form than image files, known by how the name begins and ends.
struct OtherForm {
  std::string_view begins;
  std::string_view ends;
  const char* words;
};

constexpr const char* kNumPy = "is a file of NumPy's arrays, not an image,";
constexpr const char* kPyTorch = "is a file of PyTorch's tensors, not an image,";
constexpr const char* kTables = "is a table, whose images are to be saved as files,";
constexpr std::array kOtherForms{
    OtherForm{"", ".npy", kNumPy},
    OtherForm{"", ".npz", kNumPy},
    OtherForm{"", ".pt", kPyTorch},
    OtherForm{"", ".pth", kPyTorch},
    OtherForm{"", ".ckpt", kPyTorch},
    OtherForm{"", ".parquet", kTables},
    OtherForm{"", ".tfrecord", kTables},
    OtherForm{"data_batch_", ".bin", "is of CIFAR-10, on which --set data.name=cifar10 trains,"},
    OtherForm{"data_batch_", "",
              "is of CIFAR-10, on whose binary version --set data.name=cifar10 trains,"}};

/// Returns no text for what may be an archive, or anything else.
std::string other_form(const fs::path& path) {
  const std::string name = reports::lower_case(path.filename().string());
  const auto found =
      std::find_if(kOtherForms.begin(), kOtherForms.end(), [&](const OtherForm& form) {
        return name.starts_with(form.begins) && name.ends_with(form.ends);
      });
  return found == kOtherForms.end() ? "" : found->words;
}

Facts inspect(const fs::path& path) {
  if (!has_picture_extension(path)) {
    const auto beginning = read_beginning(path);  // reads no more, because an archive may lie here
    if (!is_image(beginning)) {
      const std::string other = other_form(path);
      if (!other.empty()) return {other, {}};
      if (is_archive(beginning) || is_archive_name(path.filename().string())) {
        return {"is an archive, which is not unpacked", {}};
      }
      const std::string format = foreign_format(beginning);
      return {format.empty() ? "is no image" : "is " + format + ", which is neither PNG nor JPEG,",
              {}};
    }
  }
  const auto bytes = read_bytes(path);
  reports::Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  PictureFile file;
  file.bytes = static_cast<int64_t>(bytes.size());
  file.sha256 = hash.hex();
  try {
    const DecodedImage image = decode_image(bytes);
    file.remark = image.remark;
    file.channels = image.channels;
    file.width = image.picture.width;
    file.height = image.picture.height;
  } catch (const ImageError& error) {
    file.damage = error.what();
  }
  return {"", std::move(file)};
}

/// Facts of every file, in the order of `paths`, read by several threads. Throws what the first
/// failing one threw.
std::vector<Facts> inspect_all(const fs::path& folder, const std::vector<std::string>& paths) {
  std::vector<Facts> facts(paths.size());
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failing;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < paths.size(); i = next++) facts[i] = inspect(folder / paths[i]);
    } catch (...) {
      const std::scoped_lock lock(failing);
      if (!failure) failure = std::current_exception();
      next = paths.size();
    }
  };
  {
    const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8);
    std::vector<std::jthread> helpers;
    try {
      for (size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // fewer threads do where no more are to be had
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return facts;
}

std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// A note names so many and counts the rest; a result names every one.
constexpr size_t kInNote = 10;
constexpr size_t kInResult = std::numeric_limits<size_t>::max();

/// "a", "a and b", "a, b, c and 4 more".
std::string listed(const std::vector<std::string>& names, size_t most) {
  std::string words;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    const bool last = i + 1 == names.size();
    words += (i == 0 ? "" : last ? " and " : ", ") + names[i];
  }
  if (names.size() > most) words += " and " + std::to_string(names.size() - most) + " more";
  return words;
}

/// Words what was left out, one part for every reason, in the order in which they first appear.
std::string words_of(const std::vector<LeftOut>& left_out, size_t most) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const LeftOut& entry : left_out) {
    const auto same = [&](const auto& reason) { return reason.first == entry.reason; };
    auto found = std::find_if(reasons.begin(), reasons.end(), same);
    if (found == reasons.end()) found = reasons.insert(found, {entry.reason, {}});
    found->second.push_back(entry.path);
  }
  std::string words;
  for (const auto& [reason, paths] : reasons) {
    const std::vector<std::string> others(paths.begin() + 1, paths.end());
    words += (words.empty() ? "" : "; ") + paths.front() + " " + reason + " and left out";
    if (!others.empty())
      words += (others.size() == 1 ? ", as is " : ", as are ") + listed(others, most);
  }
  return words;
}

/// Counts and names the images that are odd but whole.
std::string remarks_of(const std::vector<PictureFile>& pictures, size_t most) {
  std::vector<std::string> names;
  for (const PictureFile& file : pictures) {
    if (!file.remark.empty()) names.push_back(file.path + " (" + file.remark + ")");
  }
  if (names.empty()) return "";
  return counted(names.size(), "image") + (names.size() == 1 ? " is" : " are") +
         " odd but whole and read as Pillow does: " + listed(names, most);
}

/// Names the folders that lie elsewhere.
std::string links_of(const std::vector<std::string>& linked) {
  if (linked.empty()) return "";
  return listed(linked, kInNote) +
         (linked.size() == 1 ? " is a link to a folder" : " are links to folders") +
         ", whose images are used";
}

}  // namespace

bool is_archive_name(const std::string& name) {
  constexpr std::array<std::string_view, 10> kEndings{".tar", ".tgz", ".txz", ".gz",  ".bz2",
                                                      ".xz",  ".zst", ".zip", ".rar", ".7z"};
  const std::string whole = reports::lower_case(name);
  const std::string stem = whole.substr(0, whole.find_last_not_of(".0123456789()") + 1);
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    return whole.ends_with(ending) || stem.ends_with(ending);
  });
}

std::string why_no_folder(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return "";
  std::error_code unknown;
  if (status.type() != fs::file_type::not_found) {
    if (error) return error.message();
    return is_archive_name(path.filename().string()) ? "is an archive that was not unpacked"
                                                     : "is a file, not a folder";
  }
  return fs::is_symlink(path, unknown) ? "is a link to nothing" : "no such folder";
}

void require_picture_folder(const fs::path& folder, const std::string& where) {
  const std::string why = why_no_folder(folder);
  if (!why.empty()) throw bad_input(where, "", why, kPictureFiles);
}

std::vector<uint8_t> read_bytes(const fs::path& path) {
  reports::InputFile file(path, kReadable);
  std::vector<uint8_t> bytes(file.size());
  file.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  return bytes;
}

PictureFiles find_pictures(const fs::path& folder,
                           const std::optional<std::pair<std::string, std::string>>& splits) {
  Walk walk;
  if (splits) {
    const auto& [a, b] = *splits;
    const fs::path place_a = fs::weakly_canonical(folder / a);
    const fs::path place_b = fs::weakly_canonical(folder / b);
    walk.add(folder / a, a + "/", SplitPlace{place_a, place_b});
    walk.add(folder / b, b + "/", SplitPlace{place_b, place_a});
  } else {
    walk.add(folder, "", std::nullopt);
  }
  std::vector<std::string> paths = std::move(walk.files);
  PictureFiles found{{}, std::move(walk.left_out), std::move(walk.linked)};
  std::sort(paths.begin(), paths.end());
  auto facts = inspect_all(folder, paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!facts[i].reason.empty()) {
      found.left_out.push_back({paths[i], facts[i].reason});
      continue;
    }
    facts[i].file.path = paths[i];
    found.pictures.push_back(std::move(facts[i].file));
  }
  std::sort(found.left_out.begin(), found.left_out.end(),
            [](const LeftOut& a, const LeftOut& b) { return a.path < b.path; });
  return found;
}

std::string note_of(const PictureFiles& found) {
  std::string left_out = words_of(found.left_out, kInNote);
  if (!left_out.empty()) left_out += "; beside " + counted(found.pictures.size(), "good image");
  std::string note;
  for (const std::string& words :
       {left_out, links_of(found.linked), remarks_of(found.pictures, kInNote)}) {
    if (!words.empty()) note += (note.empty() ? "" : "; ") + words;
  }
  return note;
}

void require_undamaged(const fs::path& folder, const std::vector<PictureFile>& pictures) {
  const auto damaged = [](const PictureFile& file) { return !file.damage.empty(); };
  const auto first = std::find_if(pictures.begin(), pictures.end(), damaged);
  if (first == pictures.end()) return;
  const int64_t bad = std::count_if(pictures.begin(), pictures.end(), damaged);
  const int64_t good = static_cast<int64_t>(pictures.size()) - bad;
  throw bad_input((folder / first->path).string(), "", first->damage,
                  std::string(kPictureFiles) + "; " + counted(good, "file") +
                      (good == 1 ? " is" : " are") + " good, " + std::to_string(bad) + " not");
}

reports::DataFile listing_of(const std::vector<PictureFile>& pictures) {
  reports::Sha256 hash;
  int64_t bytes = 0;
  for (const PictureFile& file : pictures) {
    hash.update(file.path + " " + std::to_string(file.bytes) + " " + file.sha256 + "\n");
    bytes += file.bytes;
  }
  return {".", hash.hex(), bytes, false, static_cast<int64_t>(pictures.size())};
}

std::optional<reports::DataFile> listing_of_odd(const std::vector<PictureFile>& pictures) {
  std::vector<PictureFile> odd;
  std::copy_if(pictures.begin(), pictures.end(), std::back_inserter(odd),
               [](const PictureFile& file) { return !file.remark.empty(); });
  if (odd.empty()) return std::nullopt;
  reports::DataFile row = listing_of(odd);
  row.name = remarks_of(odd, kInResult);
  return row;
}

std::optional<reports::DataFile> listing_of_left_out(const PictureFiles& found) {
  if (found.left_out.empty()) return std::nullopt;
  reports::Sha256 hash;
  for (const LeftOut& entry : found.left_out) hash.update(entry.path + " " + entry.reason + "\n");
  reports::DataFile row;
  row.name = std::to_string(found.left_out.size()) +
             (found.left_out.size() == 1 ? " entry is" : " entries are") +
             " not used: " + words_of(found.left_out, kInResult);
  row.sha256 = hash.hex();
  row.pictures = 0;
  return row;
}

}  // namespace noisemark::suite
