#pragma once

#include <string>

#include "suite/config/definition.h"

namespace noisemark::suite {

/// The resolved definition as one line of JSON: fixed key order, only keys that apply, numbers in
/// their shortest exact form. What is only shown (title, why) or chosen per run (modes) is left
/// out, so that rewording does not change the hash; so is a key that came later (Key::later) while
/// it has its default.
[[nodiscard]] std::string canonical_json(const Definition& definition);

/// SHA-256 of canonical_json(): two runs with the same hash did the same work.
[[nodiscard]] std::string definition_sha256(const Definition& definition);

}  // namespace noisemark::suite
