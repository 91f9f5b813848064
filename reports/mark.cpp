#include "reports/mark.h"

#include "reports/sha256.h"

namespace noisemark::reports {
namespace {

constexpr std::string_view kBegin = "<!-- noisemark run_id=";
constexpr std::string_view kMiddle = " result_sha256=";
constexpr std::string_view kEnd = " -->";

}  // namespace

std::string mark_line(const Mark& mark) {
  std::string line(kBegin);
  line += mark.run_id;
  line += kMiddle;
  line += mark.result_sha256;
  return line += kEnd;
}

std::optional<Mark> read_mark(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t middle = line.find(kMiddle);
  if (!line.starts_with(kBegin) || !line.ends_with(kEnd) || middle == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t digest = middle + kMiddle.size();
  Mark mark;
  mark.run_id = line.substr(kBegin.size(), middle - kBegin.size());
  mark.result_sha256 = line.substr(digest, line.size() - kEnd.size() - digest);
  if (mark.run_id.empty() || !is_sha256(mark.result_sha256)) return std::nullopt;
  return mark;
}

}  // namespace noisemark::reports
