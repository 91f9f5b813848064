#include "memopt/mode_grammar.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "memopt/budget.h"

namespace noisemark::memopt {
namespace {

using Replay = ModeParts::Replay;
using Rounding = ModeParts::Rounding;
using Offload = ModeParts::Offload;

/// In the order of the enumerations.
constexpr std::array<std::string_view, 7> kReplays = {
    "", "mirror", "mirror:sqrt", "mirror+echo", "mirror:sqrt+echo", "echo", "echo+attn"};
constexpr std::string_view kGist = "gist";
constexpr std::array<std::string_view, 6> kRoundings = {"", "dpr16", "dpr10", "dpr8", "q4", "q2"};
constexpr std::array<std::string_view, 3> kOffloads = {"", "offload", "offload:all"};
/// Behind a composition that offloads.
constexpr std::string_view kHost = ",host=";

template <typename Part, size_t N>
std::string_view word_of(const std::array<std::string_view, N>& words, Part part) {
  return words[static_cast<size_t>(part)];
}

/// Without the empty word, which stands for nothing.
template <size_t N>
std::vector<std::string_view> spelled(const std::array<std::string_view, N>& words) {
  return {words.begin() + 1, words.end()};
}

std::vector<ModeParts> make_all() {
  std::vector<ModeParts> all;
  for (size_t replay = 0; replay < kReplays.size(); ++replay) {
    for (const bool gist : {false, true}) {
      for (size_t rounding = 0; rounding < kRoundings.size(); ++rounding) {
        for (size_t offload = 0; offload < kOffloads.size(); ++offload) {
          all.push_back({static_cast<Replay>(replay), gist, static_cast<Rounding>(rounding),
                         static_cast<Offload>(offload)});
        }
      }
    }
  }
  return all;
}

std::set<std::string, std::less<>> words_in(std::string_view spelling) {
  std::set<std::string, std::less<>> words;
  while (!spelling.empty()) {
    const size_t end = std::min(spelling.find('+'), spelling.size());
    if (spelling.substr(0, end) != "none") words.emplace(spelling.substr(0, end));
    spelling.remove_prefix(std::min(end + 1, spelling.size()));
  }
  return words;
}

/// Levenshtein's distance, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// First by words, then by letters.
std::string nearest_to(std::string_view spelling) {
  const auto words = words_in(spelling);
  std::string nearest;
  size_t least = std::string::npos;
  for (const ModeParts& parts : all_mode_parts()) {
    std::string candidate = spelling_of(parts);
    if (words_in(candidate) == words) return candidate;
    const size_t distance = edit_distance(candidate, spelling);
    if (distance >= least) continue;
    least = distance;
    nearest = std::move(candidate);
  }
  return nearest;
}

ModeParts parse_composition(std::string_view spelling) {
  for (const ModeParts& parts : all_mode_parts()) {
    if (spelling_of(parts) == spelling) return parts;
  }
  throw std::invalid_argument("\"" + std::string(spelling) + "\" (nearest valid: \"" +
                              nearest_to(spelling) + "\")");
}

}  // namespace

std::string spelling_of(const ModeParts& parts) {
  std::string spelling;
  for (const std::string_view word :
       {word_of(kReplays, parts.replay), parts.gist ? kGist : std::string_view(),
        word_of(kRoundings, parts.rounding), word_of(kOffloads, parts.offload)}) {
    if (word.empty()) continue;
    if (!spelling.empty()) spelling += '+';
    spelling += word;
  }
  if (parts.host_bytes) spelling.append(kHost).append(spell_bytes(*parts.host_bytes));
  return spelling.empty() ? "none" : spelling;
}

std::vector<std::vector<std::string_view>> mode_alternatives() {
  return {spelled(kReplays), {kGist}, spelled(kRoundings), spelled(kOffloads)};
}

const std::vector<ModeParts>& all_mode_parts() {
  static const std::vector<ModeParts> all = make_all();
  return all;
}

ModeParts parse_mode(std::string_view spelling) {
  const size_t end = std::min(spelling.find(kHost), spelling.size());
  ModeParts parts = parse_composition(spelling.substr(0, end));
  if (end == spelling.size()) return parts;
  parts.host_bytes = parse_bytes(spelling.substr(end + kHost.size()));
  if (parts.host_bytes && parts.offload != Offload::kNothing) return parts;
  throw std::invalid_argument("\"" + std::string(spelling) +
                              "\" (expected: ,host=SIZE behind offload or offload:all; " +
                              std::string(kSizeForms) + ")");
}

}  // namespace noisemark::memopt
