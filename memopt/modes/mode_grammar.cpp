#include "memopt/modes/mode_grammar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "memopt/codecs/codecs.h"
#include "memopt/modes/policies.h"

namespace noisemark::memopt {
namespace {

using Place = ModeWord::Place;

constexpr std::string_view kPool = "tensors go to the host's memory, whose pool the host keeps";
constexpr std::string_view kRandom =
    "values are rounded at random, by the number of the step, which the host gives";

/// A rounding's bound of the gradient's error is twice what it may do to one value, or more where
/// the trainings of the suites showed more. "Measured" is the range over the first seeds of
/// gmm16-ho@cpu and gmm16-ho-relu@cpu, under the rounding alone and behind echo.
constexpr ModeWord kModeWords[] = {
    {.place = Place::kReplay,
     .word = "mirror",
     .summary = "keep what crosses blocks, recompute blocks in backward",
     .budget_rank = 4,
     .may_replay = is_any_operator,
     .keeps_what_crosses = true},
    {.place = Place::kReplay,
     .word = "mirror:sqrt",
     .summary = "mirror, in the square root of n segments of equal bytes",
     .may_replay = is_any_operator,
     .keeps_what_crosses = true,
     .equal_segments = true},
    {.place = Place::kReplay,
     .word = "mirror+echo",
     .summary = "mirror, whose recomputed blocks keep what echo keeps",
     .budget_rank = 3,
     .may_replay = is_any_operator,
     .light = is_cheap,
     .keeps_what_crosses = true},
    {.place = Place::kReplay,
     .word = "mirror:sqrt+echo",
     .may_replay = is_any_operator,
     .light = is_cheap,
     .keeps_what_crosses = true,
     .equal_segments = true},
    {.place = Place::kReplay,
     .word = "echo",
     .summary = "recompute norms, activations, cat, upsampling and element-wise operators",
     .budget_rank = 1,
     .may_replay = is_cheap},
    {.place = Place::kReplay,
     .word = "echo+attn",
     .summary = "echo, and attention with its projections",
     .budget_rank = 2,
     .may_replay = is_cheap_or_in_attention},
    {.place = Place::kGist,
     .word = "gist",
     .summary = "ReLU's signs and masks in 1 bit, pooling maps in 4, sparse storage",
     .needs_host = "the host reads whether sparse tensors found room"},
    {.place = Place::kRounding,
     .word = "dpr16",
     .summary = "floating tensors as float16",
     .budget_rank = 1,
     .bits = 16,
     // 10 bits of mantissa: 2^-11 of a value; measured 0.00020 to 0.00025
     .gradient_bound = 0x1p-10,
     .make_codec = [] { return make_reduced_codec(16, RoundedValues::kFinite); }},
    {.place = Place::kRounding,
     .word = "dpr10",
     .summary = "floating tensors in 10 bits, three in a word",
     .budget_rank = 2,
     .bits = 32.0 / 3,
     // 4 bits: 2^-5; measured 0.013 to 0.016
     .gradient_bound = 0x1p-4,
     .make_codec = [] { return make_reduced_codec(10, RoundedValues::kFinite); }},
    {.place = Place::kRounding,
     .word = "dpr8",
     .summary = "floating tensors in 8 bits",
     .budget_rank = 3,
     .bits = 8,
     // 3 bits: 2^-4; measured 0.016 to 0.042
     .gradient_bound = 0x1p-3,
     .make_codec = [] { return make_reduced_codec(8, RoundedValues::kFinite); },
     .compares_blocks = true},
    {.place = Place::kRounding,
     .word = "q4",
     .summary = "floating tensors in 4 bits, groups of 256 rounded at random",
     .needs_host = kRandom,
     .budget_rank = 4,
     .bits = 4.125,
     // 15 steps between the extremes of 256 values: 0.15 of their deviation; measured 0.090 to
     // 0.159
     .gradient_bound = 0.3,
     .make_codec = [] { return make_grouped_codec(4, RoundedValues::kFinite); }},
    {.place = Place::kRounding,
     .word = "q2",
     .summary = "floating tensors in 2 bits, groups of 256 rounded at random",
     .needs_host = kRandom,
     .budget_rank = 5,
     .bits = 2.125,
     // 3 steps: 0.7 of their deviation; measured 0.35 to 0.48
     .gradient_bound = kLoosestGradientBound,
     .make_codec = [] { return make_grouped_codec(2, RoundedValues::kFinite); }},
    {.place = Place::kOffload,
     .word = "offload",
     .summary = "convolution inputs in host memory",
     .needs_host = kPool,
     .goes_to_host = is_saved_by_convolution},
    {.place = Place::kOffload,
     .word = "offload:all",
     .summary = "every saved tensor in host memory",
     .needs_host = kPool,
     .goes_to_host = is_any_value},
};

/// It stands behind a composition that offloads.
constexpr std::string_view kHost = ",host=";

/// Each of `all`, with no word of the place and with every one of it.
std::vector<ModeComposition> with_each_of(Place place, const std::vector<ModeComposition>& all) {
  std::vector<ModeComposition> longer;
  for (const ModeComposition& parts : all) {
    longer.push_back(parts);
    for (const ModeWord& part : kModeWords) {
      if (part.place == place) longer.push_back(parts.with(part));
    }
  }
  return longer;
}

std::vector<ModeComposition> make_all() {
  std::vector<ModeComposition> all = {{}};
  for (const Place place : {Place::kReplay, Place::kGist, Place::kRounding, Place::kOffload}) {
    all = with_each_of(place, all);
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
  for (const ModeComposition& parts : all_compositions()) {
    std::string candidate = spelling_of(parts);
    if (words_in(candidate) == words) return candidate;
    const size_t distance = edit_distance(candidate, spelling);
    if (distance >= least) continue;
    least = distance;
    nearest = std::move(candidate);
  }
  return nearest;
}

/// "none, or some of mirror, echo, ...; gist; dpr16, ..., at most one of each group, ..."
std::string accepted_words() {
  std::string text = "none, or some of ";
  const ModeWord* before = nullptr;
  for (const ModeWord& part : kModeWords) {
    if (before != nullptr) text += before->place == part.place ? ", " : "; ";
    text += part.word;
    before = &part;
  }
  return text + ", at most one of each group, joined by + in this order, or budget:SIZE";
}

ModeComposition parse_composition(std::string_view spelling) {
  for (const ModeComposition& parts : all_compositions()) {
    if (spelling_of(parts) == spelling) return parts;
  }
  throw std::invalid_argument("\"" + std::string(spelling) + "\" (nearest: \"" +
                              nearest_to(spelling) + "\"; accepted: " + accepted_words() + ")");
}

}  // namespace

std::span<const ModeWord> mode_words() {
  return kModeWords;
}

ModeComposition ModeComposition::with(const ModeWord& part) const {
  ModeComposition parts = *this;
  parts.words[static_cast<size_t>(part.place)] = &part;
  return parts;
}

ModeComposition ModeComposition::without(ModeWord::Place place) const {
  ModeComposition parts = *this;
  parts.words[static_cast<size_t>(place)] = nullptr;
  return parts;
}

std::string spelling_of(const ModeComposition& parts) {
  std::string spelling;
  for (const ModeWord* part : parts.words) {
    if (part == nullptr) continue;
    if (!spelling.empty()) spelling += '+';
    spelling += part->word;
  }
  if (parts.host_bytes) spelling.append(kHost).append(spell_bytes(*parts.host_bytes));
  return spelling.empty() ? "none" : spelling;
}

std::vector<std::vector<std::string_view>> mode_alternatives() {
  std::vector<std::vector<std::string_view>> words(ModeComposition::kPlaces);
  for (const ModeWord& part : kModeWords) {
    words[static_cast<size_t>(part.place)].push_back(part.word);
  }
  return words;
}

std::vector<std::string> modes_meant_by(const std::vector<std::string>& names) {
  std::vector<std::string> meant;
  for (const std::string& name : names) {
    const size_t before = meant.size();
    for (const ModeWord& part : kModeWords) {
      const std::string_view kind = part.place == Place::kRounding ? "lossy" : "lossless";
      if (name == "every" || name == kind) meant.emplace_back(part.word);
    }
    if (meant.size() == before) meant.push_back(name);
  }
  return meant;
}

const std::vector<ModeComposition>& all_compositions() {
  static const std::vector<ModeComposition> all = make_all();
  return all;
}

std::vector<const ModeWord*> budget_words(ModeWord::Place place) {
  std::vector<const ModeWord*> tried;
  for (const ModeWord& part : kModeWords) {
    if (part.place == place && part.budget_rank > 0) tried.push_back(&part);
  }
  std::sort(tried.begin(), tried.end(),
            [](const ModeWord* a, const ModeWord* b) { return a->budget_rank < b->budget_rank; });
  return tried;
}

ModeComposition parse_mode(std::string_view spelling) {
  const size_t end = std::min(spelling.find(kHost), spelling.size());
  ModeComposition parts = parse_composition(spelling.substr(0, end));
  if (end == spelling.size()) return parts;
  parts.host_bytes = parse_bytes(spelling.substr(end + kHost.size()));
  if (parts.host_bytes && parts.offload() != nullptr) return parts;
  throw std::invalid_argument("\"" + std::string(spelling) +
                              "\" (expected: ,host=SIZE behind offload or offload:all; " +
                              std::string(kSizeForms) + ")");
}

namespace {

struct Unit {
  std::string_view name;
  int64_t bytes;
};
/// The largest comes first.
constexpr std::array<Unit, 4> kUnits = {
    {{"GiB", int64_t{1} << 30}, {"MiB", int64_t{1} << 20}, {"KiB", int64_t{1} << 10}, {"", 1}}};

/// The most decimals with which a product with the largest unit fits 63 bits.
constexpr size_t kMostDecimals = 9;

struct Decimal {
  int64_t whole = 0;
  int64_t part = 0;  ///< part of the memory, counted in units of 1 / one
  int64_t one = 1;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes it off the front of `text`. It is empty where there is none.
std::optional<Decimal> take_decimal(std::string_view& text) {
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  Decimal number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.whole);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.starts_with('.')) return number;
  text.remove_prefix(1);
  size_t decimals = 0;
  for (; decimals < text.size() && is_digit(text[decimals]); ++decimals) {
    if (decimals == kMostDecimals) return std::nullopt;
    number.part = number.part * 10 + (text[decimals] - '0');
    number.one *= 10;
  }
  if (decimals == 0) return std::nullopt;
  text.remove_prefix(decimals);
  return number;
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  const std::optional<Decimal> number = take_decimal(text);
  if (!number) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (unit.name != text) continue;
    if (unit.bytes == 1 && number->one > 1) return std::nullopt;
    const int64_t part = (number->part * unit.bytes + number->one - 1) / number->one;
    if (number->whole > (std::numeric_limits<int64_t>::max() - part) / unit.bytes) {
      return std::nullopt;
    }
    const int64_t bytes = number->whole * unit.bytes + part;
    return bytes > 0 ? std::optional(bytes) : std::nullopt;
  }
  return std::nullopt;
}

std::string spell_bytes(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes % unit.bytes == 0) {
      return std::to_string(bytes / unit.bytes).append(unit.name);
    }
  }
  return {};
}

std::string spell_at_least(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes < unit.bytes) continue;
    const int64_t rest = bytes % unit.bytes;
    const int64_t hundredths =
        bytes / unit.bytes * 100 + (rest * 100 + unit.bytes - 1) / unit.bytes;
    std::string text = std::to_string(hundredths / 100);
    if (const int64_t decimals = hundredths % 100; decimals > 0) {
      text.append(decimals < 10 ? ".0" : ".").append(std::to_string(decimals));
    }
    return text.append(unit.name);
  }
  return {};
}

}  // namespace noisemark::memopt
