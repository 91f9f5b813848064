#include "memopt/plan/error_model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace noisemark::memopt {
namespace {

constexpr size_t kKeep = 0;
/// The least error of a block, as a part of an even share. No block is taken to be without error:
/// it may have one another time.
constexpr double kLeastShare = 1e-3;
/// Stands for a gradient that is not finite, which no budget allows.
constexpr double kMostError = 1e6;

class Measurement {
 public:
  Measurement(const BlockOptions& options, const MeasureError& error_of)
      : options_(options), error_of_(error_of) {}

  /// The squared error when everything is rounded in this way.
  double of_all(size_t option) const {
    return squared_error(std::vector<size_t>(options_.blocks(), option));
  }

  /// Returns what each block has of the sum over the blocks.
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
    const double error = std::min(error_of_(plan), kMostError);
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

void ErrorModel::take_larger(const ErrorModel& other) {
  for (size_t block = 0; block < squared.size(); ++block) {
    for (size_t option = 0; option < squared[block].size(); ++option) {
      squared[block][option] = std::max(squared[block][option], other.of(block, option));
    }
  }
}

void ErrorModel::forbid_rounding(const std::vector<BlockOption>& options) {
  for (std::vector<double>& block : squared) {
    for (size_t o = 0; o < block.size(); ++o) {
      block[o] = options[o].rounding.empty() ? 0 : 2 * limit_squared;
    }
  }
}

ErrorModel measured_error_model(const BlockOptions& options, const MeasureError& error_of,
                                double limit) {
  const Measurement measurement(options, error_of);
  std::map<std::string, double> of_all;
  std::vector<double> shares;
  for (size_t o = 0; o < options.options().size(); ++o) {
    const BlockOption& option = options.options()[o];
    if (option.rounding.empty() || option.recomputes) continue;
    of_all[option.rounding] = measurement.of_all(o);
    if (option.compares_blocks) shares = measurement.shares(o);
  }
  ErrorModel model;
  model.limit_squared = limit * limit;
  for (size_t block = 0; block < options.blocks(); ++block) {
    model.squared.emplace_back();
    for (const BlockOption& option : options.options()) {
      const bool exact = option.rounding.empty();
      model.squared.back().push_back(exact ? 0 : of_all.at(option.rounding) * shares.at(block));
    }
  }
  return model;
}

}  // namespace noisemark::memopt
