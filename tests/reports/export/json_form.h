#pragma once

#include <string>

namespace noisemark::reports::test {

/// Whether `text` follows the JSON Schema in the file schema/NAME.schema.json beside these tests.
[[nodiscard]] bool follows(const std::string& name, const std::string& text);

}  // namespace noisemark::reports::test
