#include "suite/data/split_folders.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "reports/base/error.h"

namespace noisemark::suite {
namespace {

using Names = std::vector<std::string>;

struct Spelling {
  std::string_view word;
  SplitRole role;
};

constexpr std::array kSpellings{
    Spelling{"train", SplitRole::kTrain},
    Spelling{"training", SplitRole::kTrain},
    Spelling{"trn", SplitRole::kTrain},
    Spelling{"test", SplitRole::kTest},
    Spelling{"tests", SplitRole::kTest},
    Spelling{"testing", SplitRole::kTest},
    Spelling{"tst", SplitRole::kTest},
    Spelling{"eval", SplitRole::kTest},
    Spelling{"evaluate", SplitRole::kTest},
    Spelling{"evaluation", SplitRole::kTest},
    Spelling{"hold", SplitRole::kTest},
    Spelling{"held", SplitRole::kTest},
    Spelling{"holdout", SplitRole::kTest},
    Spelling{"heldout", SplitRole::kTest},
    Spelling{"unseen", SplitRole::kTest},
    Spelling{"val", SplitRole::kValidation},
    Spelling{"valid", SplitRole::kValidation},
    Spelling{"validate", SplitRole::kValidation},
    Spelling{"validating", SplitRole::kValidation},
    Spelling{"validation", SplitRole::kValidation},
    Spelling{"dev", SplitRole::kValidation},
    Spelling{"development", SplitRole::kValidation},
};
// These mean other things too, as "tr" and "te" languages: they count beside a partner alone.
constexpr std::array kOnlyInPairs{
    Spelling{"tr", SplitRole::kTrain},      Spelling{"fit", SplitRole::kTrain},
    Spelling{"te", SplitRole::kTest},       Spelling{"ts", SplitRole::kTest},
    Spelling{"va", SplitRole::kValidation}, Spelling{"predict", SplitRole::kTest},
};
// People write these beside a split's name, and they tell no pair of splits from another.
constexpr std::array<std::string_view, 12> kFillers{"images",  "image", "imgs",   "img",
                                                    "dataset", "data",  "split",  "set",
                                                    "out",     "dir",   "folder", "s"};

/// The place of the split's word in what its name is beside it.
constexpr std::string_view kPlace = "*";

bool is_filler(std::string_view word) {
  return std::find(kFillers.begin(), kFillers.end(), word) != kFillers.end();
}

template <size_t N>
SplitRole role_in(const std::array<Spelling, N>& spellings, std::string_view word) {
  const auto* const found =
      std::find_if(spellings.begin(), spellings.end(),
                   [&](const Spelling& spelling) { return spelling.word == word; });
  return found == spellings.end() ? SplitRole::kNone : found->role;
}

/// Splits a name into words in small letters: at what is no letter, and before a capital that
/// follows a small letter ("DIV2K_trainA": "div", "k", "train", "a").
Names words_in(const std::string& name) {
  Names words;
  bool inside = false;
  bool small = false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = std::isalpha(byte) != 0;
    if (letter && (!inside || (small && std::isupper(byte) != 0))) words.emplace_back();
    if (letter) words.back() += static_cast<char>(std::tolower(byte));
    inside = letter;
    small = std::islower(byte) != 0;
  }
  return words;
}

/// "trainset" is "train".
std::string without_filler(const std::string& word) {
  for (const std::string_view filler : kFillers) {
    if (word.size() > filler.size() && word.ends_with(filler)) {
      return word.substr(0, word.size() - filler.size());
    }
  }
  return word;
}

SplitRole role_of_word(const std::string& word) {
  const SplitRole role = role_in(kSpellings, word);
  if (role != SplitRole::kNone) return role;
  const std::string stem = without_filler(word);
  return stem == word ? SplitRole::kNone : role_of_word(stem);
}

/// One way to read a folder's name. The splits of one data set share what else their names say:
/// "seg_train" and "seg_test" the word "seg", "trainB" and "testB" the word "b".
struct Reading {
  SplitRole role = SplitRole::kNone;
  std::string shared;
  bool only_in_pairs = false;
};

/// Takes the first word that is a split's.
Reading plain_reading(const std::string& name) {
  Reading reading;
  for (const std::string& word : words_in(name)) {
    const SplitRole role = role_of_word(word);
    if (role != SplitRole::kNone && reading.role == SplitRole::kNone) {
      reading.role = role;
    } else if (!is_filler(word)) {
      reading.shared += word + " ";
    }
  }
  return reading;
}

/// Says what a name is beside the part of its word `at` between `before` and `after`. What a
/// validation's word adds to a training split ("trainval") tells it from no other.
std::string beside(const Names& words, size_t at, SplitRole role, const std::string& before,
                   const std::string& after) {
  const auto is_silent = [&](const std::string& word) {
    return is_filler(word) ||
           (role == SplitRole::kTrain && role_in(kSpellings, word) == SplitRole::kValidation);
  };
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i == at) {
      text += before + std::string(kPlace) + (is_silent(after) ? "" : after) + " ";
    } else if (!is_silent(words[i])) {
      text += words[i] + " ";
    }
  }
  return text;
}

/// Takes every word that begins or ends as a split's: "mytrain", "traindir", "trainval".
std::vector<Reading> loose_readings(const std::string& name) {
  std::vector<Reading> readings;
  const Names words = words_in(name);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const SplitRole whole = role_in(kOnlyInPairs, word);
    if (whole != SplitRole::kNone)
      readings.push_back({whole, beside(words, i, whole, "", ""), true});
    for (const auto& [spelling, role] : kSpellings) {
      const size_t rest = word.size() - std::min(word.size(), spelling.size());
      if (word.starts_with(spelling)) {
        readings.push_back({role, beside(words, i, role, "", word.substr(spelling.size()))});
      }
      if (word.ends_with(spelling)) {
        readings.push_back({role, beside(words, i, role, word.substr(0, rest), "")});
      }
    }
  }
  return readings;
}

/// Folders of one data set that are called like splits.
struct Named {
  std::set<std::string> train;
  std::set<std::string> test;
  std::set<std::string> validation;
  bool only_in_pairs = false;

  void add(const std::string& name, const Reading& reading) {
    if (reading.role == SplitRole::kTrain) train.insert(name);
    if (reading.role == SplitRole::kTest) test.insert(name);
    if (reading.role == SplitRole::kValidation) validation.insert(name);
    only_in_pairs = only_in_pairs || reading.only_in_pairs;
  }
  [[nodiscard]] const std::set<std::string>& held_out() const {
    return test.empty() ? validation : test;
  }
  [[nodiscard]] bool is_pair() const { return !train.empty() && !held_out().empty(); }
};

/// The folders by what their names share; those that share nothing come first.
using Groups = std::map<std::string, Named>;

Groups plain_groups(const Names& folders) {
  Groups groups;
  for (const std::string& name : folders) {
    const Reading reading = plain_reading(name);
    groups[reading.shared].add(name, reading);
  }
  return groups;
}

Groups loose_groups(const Names& folders) {
  Groups groups;
  for (const std::string& name : folders) {
    for (const Reading& reading : loose_readings(name)) groups[reading.shared].add(name, reading);
  }
  return groups;
}

bool is_plain(const std::string& shared) {
  return shared.empty() || shared == std::string(kPlace) + " ";
}

/// Says whether a folder has another word in the split's place, of two letters as a language has,
/// or where the names share nothing any word.
bool has_another_word_there(const Names& folders, const std::string& shared) {
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& name) {
    const Names words = words_in(name);
    if (!loose_readings(name).empty()) return false;
    for (size_t i = 0; i < words.size(); ++i) {
      if (!is_plain(shared) && words[i].size() != 2) continue;
      if (beside(words, i, SplitRole::kNone, "", "") == shared) return true;
    }
    return false;
  });
}

/// The pair whose names share nothing, or else all pairs together.
Named pairs_of(const Groups& groups) {
  Named all;
  for (const auto& [shared, named] : groups) {
    if (!named.is_pair()) continue;
    all.train.insert(named.train.begin(), named.train.end());
    all.test.insert(named.held_out().begin(), named.held_out().end());
    if (is_plain(shared)) break;
  }
  return all;
}

Named pairs_among(const Names& folders) {
  const Named plain = pairs_of(plain_groups(folders));
  if (plain.is_pair()) return plain;
  Groups loose = loose_groups(folders);
  std::erase_if(loose, [&](const auto& group) {
    return group.second.only_in_pairs && has_another_word_there(folders, group.first);
  });
  return pairs_of(loose);
}

std::optional<SplitFolders> first_of(const Named& pairs) {
  if (!pairs.is_pair()) return std::nullopt;
  return SplitFolders{*pairs.train.begin(), *pairs.held_out().begin()};
}

std::string only_one(const std::filesystem::path& parent, const std::set<std::string>& names,
                     const std::string& split) {
  if (names.size() == 1) return *names.begin();
  throw bad_input("--data " + parent.string(), "",
                  *names.begin() + "/ and " + *std::next(names.begin()) + "/ could both be the " +
                      split + " split",
                  "one folder for each split");
}

}  // namespace

SplitRole split_role(const std::string& name) {
  return plain_reading(name).role;
}

std::optional<SplitFolders> find_splits(const std::filesystem::path& parent, const Names& folders) {
  const Named pairs = pairs_among(folders);
  if (!pairs.is_pair()) return std::nullopt;
  return SplitFolders{only_one(parent, pairs.train, "training"),
                      only_one(parent, pairs.held_out(), "test")};
}

std::optional<SplitFolders> first_splits(const Names& folders) {
  return first_of(pairs_among(folders));
}

std::optional<SplitFolders> doubtful_splits(const Names& folders) {
  if (pairs_among(folders).is_pair()) return std::nullopt;
  if (const auto kept_apart = first_of(pairs_of(loose_groups(folders)))) return kept_apart;
  Named plain;
  for (const std::string& name : folders) plain.add(name, plain_reading(name));
  return first_of(plain);
}

}  // namespace noisemark::suite
