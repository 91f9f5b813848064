#include "reports/ab/same_work.h"

#include <string_view>

#include "reports/compare/comparable.h"
#include "reports/compare/sides.h"

namespace noisemark::reports {
namespace {

constexpr std::string_view kSoftware = "identity.software.";

}  // namespace

Strings same_work(const Result& result) {
  Strings fields = identity_fields(result);
  std::erase_if(fields, [](const auto& field) { return field.first.starts_with(kSoftware); });
  fields["cell"] = cell_name(result.identity);
  fields["seeds.base"] = std::to_string(result.seeds.base);
  fields["provenance.init_weights_sha256"] = result.provenance.init_weights_sha256;
  return fields;
}

Strings about_build(const Result& result) {
  const Provenance& from = result.provenance;
  Strings fields = {{"binary_sha256", from.binary_sha256},
                    {"commit", from.git_commit + (from.git_dirty ? "+" : "")},
                    {"diff_sha256", from.git_diff_sha256}};
  for (const auto& [name, value] : result.identity.software) fields["software." + name] = value;
  for (const auto& [name, value] : from.build) fields["build." + name] = value;
  return fields;
}

}  // namespace noisemark::reports
