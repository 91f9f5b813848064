#include "memopt/plan/error_model.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace noisemark::memopt {
namespace {

using Rounding = ModeParts::Rounding;

/// By which the blocks are told apart: its errors are neither lost in rounding nor so large that
/// they no longer add up.
constexpr Rounding kProbe = Rounding::kDpr8;
constexpr size_t kKeep = 0;
/// Of an even share. No block is taken to be without error: it may be another time.
constexpr double kLeastShare = 1e-3;

bool holds_everything(const BlockOption& option) {
  return option.parts.replay == ModeParts::Replay::kNothing;
}

class Measurement {
 public:
  Measurement(const BlockOptions& options, const MeasureError& error_of)
      : options_(options), error_of_(error_of) {}

  /// Of everything rounded in this way.
  double of_all(size_t option) const {
    return squared_error(std::vector<size_t>(options_.blocks(), option));
  }

  /// By block, of the sum over the blocks.
  std::vector<double> shares(size_t option) const {
    std::vector<double> shares(options_.blocks(), 0);
    for (size_t block = 0; block < shares.size(); ++block) {
      std::vector<size_t> chosen(shares.size(), kKeep);
      chosen[block] = option;
      shares[block] = squared_error(chosen);
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    const double least = kLeastShare / static_cast<double>(shares.size());
    for (double& share : shares) share = std::max(sum > 0 ? share / sum : 1, least);
    return shares;
  }

 private:
  /// Exact plans are not measured.
  [[nodiscard]] double squared_error(const std::vector<size_t>& chosen) const {
    auto plan = std::make_shared<const TreatmentPlan>(options_.plan(chosen));
    bool rounds = false;
    for (size_t block = 0; block < chosen.size(); ++block) {
      rounds = rounds || options_.rounds_in(block, *plan);
    }
    if (!rounds) return 0;
    const double error = error_of_(plan);
    return error * error;
  }

  const BlockOptions& options_;
  const MeasureError& error_of_;
};

}  // namespace

double ErrorModel::of(const std::vector<size_t>& chosen) const {
  double sum = 0;
  for (size_t block = 0; block < chosen.size(); ++block) sum += of(block, chosen[block]);
  return sum;
}

void ErrorModel::scale(double factor) {
  for (std::vector<double>& block : squared) {
    for (double& error : block) error *= factor;
  }
}

void ErrorModel::forbid_rounding(const std::vector<BlockOption>& options) {
  for (std::vector<double>& block : squared) {
    for (size_t o = 0; o < block.size(); ++o) {
      block[o] = options[o].parts.rounding == Rounding::kNothing ? 0 : 2 * limit_squared;
    }
  }
}

ErrorModel measured_error_model(const BlockOptions& options, const MeasureError& error_of,
                                double limit) {
  const Measurement measurement(options, error_of);
  std::map<Rounding, double> of_all;
  std::vector<double> shares;
  for (size_t o = 0; o < options.options().size(); ++o) {
    const BlockOption& option = options.options()[o];
    const Rounding rounding = option.parts.rounding;
    if (rounding == Rounding::kNothing || !holds_everything(option)) continue;
    of_all[rounding] = measurement.of_all(o);
    if (rounding == kProbe) shares = measurement.shares(o);
  }
  ErrorModel model;
  model.limit_squared = limit * limit;
  for (size_t block = 0; block < options.blocks(); ++block) {
    model.squared.emplace_back();
    for (const BlockOption& option : options.options()) {
      const Rounding rounding = option.parts.rounding;
      const bool exact = rounding == Rounding::kNothing;
      model.squared.back().push_back(exact ? 0 : of_all.at(rounding) * shares.at(block));
    }
  }
  return model;
}

}  // namespace noisemark::memopt
