#include "reports/seeds/looks.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace noisemark::reports {

double alpha_of_a_look(double alpha, int64_t declared) {
  if (declared < 1) throw std::logic_error("looks: fewer than one");
  return alpha / static_cast<double>(declared);
}

double alpha_of_a_family(double alpha, int64_t declared, const std::vector<QualityGate>& gates,
                         const std::vector<QualityRange>& ranges) {
  const bool both = !gates.empty() && !ranges.empty();
  return alpha_of_a_look(alpha, declared) / (both ? 2 : 1);
}

RunIds run_ids_of(const Side& side) {
  RunIds ids;
  for (const NamedResult& run : side.runs) ids.push_back(run.result.run_id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool share_a_run(const RunIds& a, const RunIds& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& id) {
    return std::binary_search(b.begin(), b.end(), id);
  });
}

Looks next_look(const RunIds& runs, int64_t declared, const std::vector<RunIds>& earlier) {
  Looks looks;
  looks.declared = declared;
  // A study grows: whoever shares a run with one of its looks has them all behind him.
  const bool continued = std::any_of(earlier.begin(), earlier.end(),
                                     [&](const RunIds& one) { return share_a_run(one, runs); });
  if (continued) looks.taken = earlier;
  const auto same = std::find(looks.taken.begin(), looks.taken.end(), runs);
  looks.number = (same - looks.taken.begin()) + 1;
  return looks;
}

bool none_is_left(const Looks& looks) {
  return looks.number > looks.declared;
}

void count_look(const RunIds& runs, Looks& looks) {
  if (none_is_left(looks) || looks.number <= static_cast<int64_t>(looks.taken.size())) return;
  looks.taken.push_back(runs);
}

std::string no_look_words(const Looks& looks) {
  return fmt::format(
      "{} declared {} taken: nothing more can be claimed of these runs",
      looks.declared == 1 ? "the one look" : fmt::format("the {} looks", looks.declared),
      looks.declared == 1 ? "was" : "were");
}

bool is_new_look(const Looks& looks, const std::vector<RunIds>& earlier) {
  return std::any_of(looks.taken.begin(), looks.taken.end(), [&](const RunIds& one) {
    return std::find(earlier.begin(), earlier.end(), one) == earlier.end();
  });
}

}  // namespace noisemark::reports
