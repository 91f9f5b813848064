#pragma once

#include <string>
#include <vector>

#include "suite/environment/environment.h"
#include "suite/environment/surroundings.h"

/// Diagnoses what of the environment a result will name, what it cannot and why, and what disturbs
/// timing.
namespace noisemark::suite {

enum class Health {
  kFine,      ///< known, and nothing is to be done
  kDisturbs,  ///< known, and it makes times or results harder to repeat
  kMissing,   ///< cannot be known here
};

struct Diagnosis {
  std::string what;  ///< "CPU governor"
  Health health = Health::kFine;
  std::string found;  ///< the value, or why there is none
  std::string to_do;  ///< one sentence; empty where nothing can or need be done
};

/// Diagnoses in a fixed order: source and build, container, processor, GPU, programs. A pure
/// function.
[[nodiscard]] std::vector<Diagnosis> diagnose(const Machine& machine, const Surroundings& around);

/// The text for people: a line each, what to do below it, and how many of each kind.
[[nodiscard]] std::string doctor_text(const std::vector<Diagnosis>& diagnoses);
[[nodiscard]] std::string doctor_json(const std::vector<Diagnosis>& diagnoses);
[[nodiscard]] reports::json::Published doctor_document();

}  // namespace noisemark::suite
