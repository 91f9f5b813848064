#include "reports/base/error.h"

namespace noisemark {

Error bad_input(const std::string& where, const std::string& what, const std::string& found,
                const std::string& accepted) {
  std::string text = where;
  for (const std::string& part : {what, found}) {
    if (part.empty()) continue;
    if (!text.empty()) text += ": ";
    text += part;
  }
  if (!accepted.empty()) text += " (" + accepted + ")";
  return {ExitCode::kBadInput, text};
}

}  // namespace noisemark
