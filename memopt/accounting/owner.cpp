#include "memopt/accounting/owner.h"

#include <array>

namespace noisemark::memopt {
namespace {

constexpr std::array<std::string_view, kOwnerCount> kNames = {
    "weights",     "optimizer",      "ema",         "gradients",     "input",     "autocast_cache",
    "encoded",     "rematerialized", "activations", "communication", "workspace", "temporary",
    "unattributed"};
static_assert(kNames.back() == "unattributed", "there is an owner without a name");

}  // namespace

std::string_view owner_name(Owner owner) {
  return kNames[static_cast<size_t>(owner)];
}

std::vector<Owner> all_owners() {
  std::vector<Owner> owners;
  for (int i = 0; i < kOwnerCount - 1; ++i) owners.push_back(static_cast<Owner>(i));
  return owners;
}

}  // namespace noisemark::memopt
