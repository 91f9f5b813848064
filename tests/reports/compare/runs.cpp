#include "tests/reports/compare/runs.h"

#include <fmt/format.h>

#include <stdexcept>

#include "tests/reports/sample_result.h"

namespace noisemark::reports::test {
namespace {

void add_exact(Result& result, const std::string& name, const std::string& unit, double value) {
  result.metrics.push_back({name, unit, Direction::kLower, value, "", "exact", {}, 1, ""});
}

Result run_of(const Result& model, const std::string& side, size_t number, double rate) {
  Result result = model;
  size_t letters = 0;
  for (const char letter : side) letters = 31 * letters + static_cast<unsigned char>(letter);
  result.run_id = fmt::format("{:08x}{:08x}", letters % 0xffffffff, number);
  result.created_utc = fmt::format("2026-01-02T03:{:02}:{:02}Z", number / 60, number % 60);
  result.provenance.git_commit = side + std::string(40 - side.size(), '0');
  result.provenance.git_dirty = false;
  metric(result, "images_per_s").value = rate;
  return result;
}

}  // namespace

Metric& metric(Result& result, const std::string& name) {
  for (Metric& metric : result.metrics) {
    if (metric.name == name) return metric;
  }
  throw std::logic_error("no metric " + name);
}

std::vector<double> rates_around(double centre, size_t count) {
  std::vector<double> rates;
  for (size_t i = 0; i < count; ++i) {
    rates.push_back(centre * (1 + 0.003 * (static_cast<double>(i * 5 % 7) / 3 - 1)));
  }
  return rates;
}

Side stored(Side side) {
  for (NamedResult& run : side.runs) {
    std::string& made = run.result.created_utc;
    made = "2026-01-01" + made.substr(made.find('T'));
  }
  return side;
}

Side side(const std::string& name, const std::vector<double>& rates, const Change& change) {
  Result model = full_result();
  model.exit = {0, "pass", {}};
  add_exact(model, "peak_bytes", "bytes", static_cast<double>(model.memory.peak_bytes));
  add_exact(model, "saved_bytes", "bytes", static_cast<double>(model.memory.saved_bytes));
  add_exact(model, "leaked_bytes", "bytes", 0);
  add_exact(model, "parameters", "count", static_cast<double>(model.utilization.parameters));
  Side side{name, {}};
  for (size_t i = 0; i < rates.size(); ++i) {
    Result result = run_of(model, name, i, rates[i]);
    if (change) change(result, i);
    side.runs.push_back({fmt::format("{}/{}", name, i), std::move(result)});
  }
  return side;
}

}  // namespace noisemark::reports::test
