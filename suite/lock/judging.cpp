#include "suite/lock/judging.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "reports/compare/stochastic_tier.h"
#include "reports/sha256.h"
#include "reports/warmup.h"

namespace noisemark::suite {
namespace {

/// What step times may show, relative to a steady step.
struct Shape {
  int64_t steps = 0;
  double rise = 0;   ///< of the first step, which dies away
  double drift = 0;  ///< of the last step
  double noise = 0;  ///< at most
};

constexpr double kDecay = 0.8;  // of the rise, a step

/// Splitmix64 (Steele et al. 2014), uniform in [-1, 1): its numbers depend on `index` alone.
double noise_at(uint64_t index) {
  uint64_t bits = (index + 1) * 0x9E3779B97F4A7C15U;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-52 - 1;
}

std::vector<double> step_times(const Shape& shape) {
  std::vector<double> step_s;
  double rise = shape.rise;
  for (int64_t i = 0; i < shape.steps; ++i) {
    const double progress = static_cast<double>(i) / static_cast<double>(shape.steps);
    step_s.push_back(1 + rise + shape.drift * progress +
                     shape.noise * noise_at(static_cast<uint64_t>(i)));
    rise *= kDecay;
  }
  return step_s;
}

/// Enough of them that each constant of the rule decides about some.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int64_t steps : {15, 16, 24, 40, 100, 400}) {
    for (const double rise : {0.0, 0.02, 0.06, 0.3, 2.0}) {
      for (const double drift : {0.0, 0.018, 0.022, 0.1}) {
        for (const double noise : {0.0, 0.004, 0.02, 0.1, 0.4}) {
          all.push_back({steps, rise, drift, noise});
        }
      }
    }
  }
  return all;
}

}  // namespace

std::string judging_text() {
  std::string text;
  for (const Shape& shape : shapes()) {
    const reports::Warmup warmup = reports::detect_warmup(step_times(shape));
    text += fmt::format("warm-up of {} steps, rise {}, drift {}, noise {}: {} {}\n", shape.steps,
                        shape.rise, shape.drift, shape.noise, warmup.steps,
                        warmup.stable ? "stable" : "not stable");
  }
  for (const reports::GatedMetric& gated : reports::gated_metrics()) {
    text += fmt::format("{}: margin {}\n", gated.name, gated.margin_frac);
  }
  text += fmt::format("widest margin {}\nalpha {}\n", reports::kWidestMarginFrac,
                      reports::StochasticOptions{}.alpha);
  return text;
}

std::string judging_sha256() {
  return reports::sha256_of(judging_text());
}

}  // namespace noisemark::suite
