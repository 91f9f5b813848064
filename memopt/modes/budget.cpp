#include "memopt/modes/budget.h"

#include <array>
#include <charconv>
#include <stdexcept>

#include "memopt/modes/policies.h"

namespace noisemark::memopt {
namespace {

constexpr std::string_view kSaved = "saved=";
constexpr std::string_view kError = ",error";
constexpr std::string_view kStrict = ",strict";

std::optional<double> read_error(std::string_view text) {
  if (text.empty()) return kDefaultError;
  if (!text.starts_with('=')) return std::nullopt;
  text.remove_prefix(1);
  double error = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), error);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // More than the gradient itself is no bound.
  if (!(error > 0 && error <= 1)) return std::nullopt;
  return error;
}

std::string spell(const Budget& budget, const std::string& size) {
  std::string spelling(kBudgetPrefix);
  if (budget.target == BudgetTarget::kPeakSaved) spelling += kSaved;
  spelling += size;
  if (budget.error) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), *budget.error).ptr;
    spelling.append(kError).append("=").append(digits.data(), end);
  }
  if (budget.strict) spelling += kStrict;
  return spelling;
}

}  // namespace

std::string budget_forms() {
  return "SIZE or saved=SIZE, behind it ,error=E where rounding is allowed, 0 < E <= 1, and "
         ",strict where a step over the budget is an error; " +
         std::string(kSizeForms);
}

std::optional<Budget> read_budget(std::string_view text) {
  Budget budget;
  if (text.starts_with(kSaved)) {
    text.remove_prefix(kSaved.size());
    budget.target = BudgetTarget::kPeakSaved;
  }
  if (text.ends_with(kStrict)) {
    budget.strict = true;
    text.remove_suffix(kStrict.size());
  }
  if (const size_t comma = text.find(kError); comma != std::string_view::npos) {
    budget.error = read_error(text.substr(comma + kError.size()));
    if (!budget.error) return std::nullopt;
    text = text.substr(0, comma);
  }
  const std::optional<int64_t> bytes = parse_bytes(text);
  if (!bytes) return std::nullopt;
  budget.bytes = *bytes;
  return budget;
}

Budget parse_budget(std::string_view spelling) {
  std::optional<Budget> budget;
  if (spelling.starts_with(kBudgetPrefix)) {
    budget = read_budget(spelling.substr(kBudgetPrefix.size()));
  }
  if (budget) return *budget;
  throw std::invalid_argument("\"" + std::string(spelling) + "\" (expected: budget: and then " +
                              budget_forms() + ")");
}

std::string spell_budget(const Budget& budget) {
  return spell(budget, spell_bytes(budget.bytes));
}

std::string spell_budget_of_at_least(const Budget& budget, int64_t bytes) {
  return spell(budget, spell_at_least(bytes));
}

namespace {

using Place = ModeWord::Place;

/// The ways in which a budget may recompute values in a block: none, or that of a word.
std::vector<ModeComposition> replays() {
  std::vector<ModeComposition> all = {{}};
  for (const ModeWord* part : budget_words(Place::kReplay))
    all.push_back(ModeComposition{}.with(*part));
  return all;
}

/// The word of the forms alone, without that of what is recomputed; "" where they are exact.
std::string forms_of(const ModeComposition& parts) {
  const ModeComposition forms = parts.without(Place::kReplay);
  return forms == ModeComposition{} ? "" : spelling_of(forms);
}

BlockOption lossless_option(const ModeComposition& parts) {
  return {parts == ModeComposition{} ? "keep" : spelling_of(parts), policy_of(parts),
          forms_of(parts), "", parts.replay() != nullptr};
}

/// The forms in which a mode that recomputes values holds the others.
CodecChoice forms_beside_replay(const ModeComposition& parts) {
  return codec_choice(parts.with(*budget_words(Place::kReplay).front()));
}

/// Keeps everything, in the forms that the modes have which recompute values.
BlockOption exact_option() {
  BlockOption option = lossless_option({});
  option.name = "exact";
  option.policy.codec = forms_beside_replay({});
  return option;
}

BlockOption rounding_option(const ModeComposition& replay, const ModeWord& rounding) {
  const ModeComposition parts = replay.with(rounding);
  BlockOption option{spelling_of(parts), policy_of(parts),          forms_of(parts),
                     forms_of(parts),    parts.replay() != nullptr, rounding.compares_blocks};
  if (parts.replay() == nullptr) option.policy.codec = forms_beside_replay(parts);
  return option;
}

}  // namespace

std::vector<BlockOption> lossless_options() {
  const ModeWord& gist = *parse_mode("gist").gist();
  std::vector<BlockOption> options;
  for (const ModeComposition& parts : replays()) {
    options.push_back(lossless_option(parts));
    if (parts.replay() == nullptr) options.push_back(exact_option());
    options.push_back(lossless_option(parts.with(gist)));
  }
  return options;
}

std::vector<BlockOption> all_options() {
  std::vector<BlockOption> options = lossless_options();
  for (const ModeWord* rounding : budget_words(Place::kRounding)) {
    for (const ModeComposition& parts : replays())
      options.push_back(rounding_option(parts, *rounding));
  }
  return options;
}

}  // namespace noisemark::memopt
