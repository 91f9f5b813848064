#pragma once

#include <string>
#include <string_view>

namespace noisemark::reports {

/// `text` for an attribute or the content of an element of XML 1.0: markup and white space other
/// than blanks as references, bytes that are not UTF-8 and characters that XML cannot hold as
/// U+FFFD.
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace noisemark::reports
