#include "memopt/plan/price_limits.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <utility>

namespace noisemark::memopt {
namespace {

/// Of the bytes.
constexpr std::array<double, 2> kParts = {1.0 / 3, 2.0 / 3};
/// So much more must a byte cost that is held than one that is freed.
constexpr double kClearlyMore = 1.25;

/// Of several storages together.
struct Sum {
  double bytes = 0;
  double ns = 0;

  void add(const FreedStorage& freed) {
    bytes += static_cast<double>(freed.bytes);
    ns += freed.ns;
  }
};

/// The price at which so much can be freed.
double price_of_part(const std::vector<FreedStorage>& by_price, double part) {
  Sum all;
  for (const FreedStorage& freed : by_price) all.add(freed);
  Sum taken;
  for (const FreedStorage& freed : by_price) {
    taken.add(freed);
    if (taken.bytes >= part * all.bytes) return freed.ns_per_byte();
  }
  return 0;
}

PriceLimit limit_at(double most_ns_per_byte, const std::vector<FreedStorage>& all) {
  PriceLimit limit{most_ns_per_byte, {}};
  for (const FreedStorage& freed : all) {
    if (freed.ns_per_byte() > most_ns_per_byte) limit.held.push_back(freed.storage);
  }
  return limit;
}

bool tells_apart(double most_ns_per_byte, const std::vector<FreedStorage>& all) {
  Sum cheap;
  Sum dear;
  for (const FreedStorage& freed : all) {
    (freed.ns_per_byte() > most_ns_per_byte ? dear : cheap).add(freed);
  }
  return dear.bytes > 0 && dear.ns * cheap.bytes >= kClearlyMore * cheap.ns * dear.bytes;
}

}  // namespace

std::vector<PriceLimit> price_limits(const std::vector<FreedStorage>& freed) {
  std::vector<FreedStorage> by_price = freed;
  std::stable_sort(by_price.begin(), by_price.end(),
                   [](const FreedStorage& a, const FreedStorage& b) {
                     return a.ns_per_byte() < b.ns_per_byte();
                   });
  std::vector<PriceLimit> limits;
  for (const double part : kParts) {
    const double most = price_of_part(by_price, part);
    if (!tells_apart(most, freed)) continue;
    PriceLimit limit = limit_at(most, freed);
    if (!limits.empty() && limits.back().held == limit.held) continue;
    limits.push_back(std::move(limit));
  }
  return limits;
}

std::string words_of(const PriceLimit& limit) {
  std::ostringstream words;
  words << "up to ";
  if (limit.most_ns_per_byte >= 10) words << std::fixed << std::setprecision(0);
  if (limit.most_ns_per_byte < 10) words << std::setprecision(2);
  words << limit.most_ns_per_byte << " ns/B";
  return words.str();
}

}  // namespace noisemark::memopt
