#include "reports/table_cells.h"

#include <fmt/format.h>

#include "reports/gate.h"
#include "reports/quantity.h"
#include "reports/report.h"
#include "reports/warmup.h"

namespace noisemark::reports {

std::string rate_cell(const Result& result) {
  const Metric* rate = find_metric(result, "images_per_s");
  if (rate == nullptr || !rate->value) return "none";
  const std::string_view caveat = rate_caveat(result.protocol.warmup_stable);
  if (!rate->ci95) return fmt::format("{}{}", format_per_s(*rate->value), caveat);
  return fmt::format("{} [{}, {}]{}", format_per_s(*rate->value), format_per_s(rate->ci95->low),
                     format_per_s(rate->ci95->high), caveat);
}

std::string bytes_cell(const Result& result, int64_t MemorySection::*figure, const char* metric) {
  if (result.memory.measured) return format_bytes(result.memory.*figure);
  const Metric* bytes = find_metric(result, metric);
  if (bytes == nullptr || !bytes->value) return "none";
  return format_bytes(static_cast<int64_t>(*bytes->value));
}

std::string verdict_cell(const Result& result) {
  const std::string words = verdict_words(result);
  return words.substr(0, words.find(" ("));
}

}  // namespace noisemark::reports
