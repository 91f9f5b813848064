#include "suite/run/identity.h"

#include "suite/config/canonical.h"

namespace noisemark::suite {

reports::Identity identity_of(const PlannedRun& plan, const Dataset& dataset) {
  const Definition& definition = plan.definition;
  const Variant& variant = plan.variant;
  reports::Identity identity;
  identity.benchmark = definition.id;
  identity.scale = definition.scale;
  identity.version = definition.version;
  identity.overrides = definition.overrides;
  identity.custom = definition.custom;
  identity.definition_sha256 = definition_sha256(definition);
  identity.mode = variant.mode;
  identity.baseline = variant.baseline;
  identity.precision = variant.precision.name;
  identity.device = variant.device.str();
  identity.framework = "noisemark";
  identity.threads = variant.threads;
  identity.data = dataset.standing();
  return identity;
}

}  // namespace noisemark::suite
