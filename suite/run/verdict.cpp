#include "suite/run/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "reports/gate.h"
#include "reports/quantity.h"
#include "reports/warmup.h"

namespace noisemark::suite {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

std::string figures(const reports::Result& result) {
  std::string text;
  const auto add = [&text](const std::string& figure) {
    text += (text.empty() ? ": " : ", ") + figure;
  };
  const auto value = [&result](const char* name) {
    const reports::Metric* metric = reports::find_metric(result, name);
    return metric != nullptr ? metric->value : std::nullopt;
  };
  if (const auto rate = value("images_per_s")) {
    add(fmt::format("{:.1f} images/s{}", *rate,
                    reports::rate_caveat(result.protocol.warmup_stable)));
  }
  if (const auto peak = value("peak_bytes")) {
    add("peak " + reports::format_bytes(static_cast<int64_t>(*peak)));
  }
  if (const auto loss = value("val_loss")) {
    add(fmt::format("validation loss {:.4f} (at the start {:.4f})", *loss,
                    value("val_loss_initial").value_or(*loss)));
  }
  if (const auto excess = value("excess_loss")) {
    add(fmt::format("{:.1f} % above the Bayes-optimal loss", 100 * *excess));
  }
  return text;
}

}  // namespace

std::string verdict_text(const reports::Result& result, const std::filesystem::path& folder) {
  const reports::Identity& id = result.identity;
  std::string text = fmt::format("{} {}@{} {} {} {}{}\n", upper(result.exit.status), id.benchmark,
                                 id.scale, id.mode, id.baseline, id.precision, figures(result));
  for (const std::string& reason : result.exit.reasons) text += "  " + reason + "\n";
  return text + "  report: " + (folder / "report.md").string() + "\n";
}

}  // namespace noisemark::suite
