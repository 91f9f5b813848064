#include "suite/data/generated.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

#include "suite/data/gaussian_mixture.h"
#include "suite/random/elementary.h"

namespace noisemark::suite {
namespace {

/// position * frequency / resolution turns, in units of 2^-32 turn.
uint32_t turn(int64_t position, int64_t frequency, int64_t resolution) {
  return static_cast<uint32_t>(position * frequency * (int64_t{1} << 32) / resolution);
}

int64_t draw_frequency(CounterRng& rng, int64_t max_frequency) {
  return static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(2 * max_frequency + 1))) -
         max_frequency;
}

}  // namespace

SmoothField::SmoothField(CounterRng& rng, const FieldShape& shape) : shape_(shape) {
  for (int64_t wave = 0; wave < shape.waves; ++wave) {
    const int64_t frequency_x = draw_frequency(rng, shape.max_frequency);
    const int64_t frequency_y = draw_frequency(rng, shape.max_frequency);
    const uint32_t phase = rng.next_u32();
    for (int64_t i = 0; i < shape.resolution; ++i) {
      const SinCos x = sin_cos_turn(turn(i, frequency_x, shape.resolution));
      const SinCos y = sin_cos_turn(turn(i, frequency_y, shape.resolution) + phase);
      cos_x_.push_back(x.cos);
      sin_x_.push_back(x.sin);
      cos_y_.push_back(y.cos);
      sin_y_.push_back(y.sin);
    }
  }
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    double sum = 0;
    for (int64_t wave = 0; wave < shape.waves; ++wave) {
      amplitudes_.push_back(0.25 + 0.75 * rng.next_uniform());
      sum += amplitudes_.back();
    }
    for (auto amplitude = amplitudes_.end() - shape.waves; amplitude != amplitudes_.end();
         ++amplitude) {
      *amplitude /= sum;
    }
  }
}

void SmoothField::row(int64_t channel, int64_t y, std::span<double> out) const {
  std::fill(out.begin(), out.end(), 0.0);
  for (int64_t wave = 0; wave < shape_.waves; ++wave) {
    const int64_t base = wave * shape_.resolution;
    const double amplitude = amplitudes_[channel * shape_.waves + wave];
    const double with_cos = amplitude * cos_y_[base + y];
    const double with_sin = amplitude * sin_y_[base + y];
    for (int64_t x = 0; x < shape_.resolution; ++x) {
      out[x] += with_cos * cos_x_[base + x] - with_sin * sin_x_[base + x];
    }
  }
}

void SmoothField::fill(std::span<double> out) const {
  for (int64_t channel = 0; channel < shape_.channels; ++channel) {
    for (int64_t y = 0; y < shape_.resolution; ++y) {
      const int64_t begin = (channel * shape_.resolution + y) * shape_.resolution;
      row(channel, y, out.subspan(begin, shape_.resolution));
    }
  }
}

namespace {

/// The part that all generated sources share: images exist by index alone, train and test never
/// meet.
class Generated : public Dataset {
 public:
  explicit Generated(const Definition& definition)
      : channels_(definition.model.channels),
        resolution_(definition.model.resolution),
        train_samples_(definition.data.train_samples > 0 ? definition.data.train_samples
                                                         : kGeneratedSamples),
        seed_(static_cast<uint64_t>(definition.data.seed)) {}

  [[nodiscard]] int64_t size(Split split) const final {
    return split == Split::kTrain ? train_samples_ : kGeneratedSamples;
  }
  [[nodiscard]] int64_t channels() const final { return channels_; }
  [[nodiscard]] int64_t resolution() const final { return resolution_; }
  [[nodiscard]] std::vector<reports::DataFile> files() const final { return {}; }
  [[nodiscard]] std::string standing() const final { return "generated"; }

 protected:
  [[nodiscard]] CounterRng rng(Split split, int64_t index) const {
    TORCH_CHECK(index >= 0 && index < size(split), "no image ", index);
    return {seed_, Stream::kData, split == Split::kTrain ? 1U : 2U, static_cast<uint64_t>(index)};
  }

 private:
  int64_t channels_;
  int64_t resolution_;
  int64_t train_samples_;
  uint64_t seed_;
};

class Gmm16 final : public Generated {
 public:
  explicit Gmm16(const Definition& definition)
      : Generated(definition), mixture_(GaussianMixture::gmm16()) {
    TORCH_CHECK(channels() * resolution() * resolution() == mixture_.dimension(),
                "gmm16 has 1 channel of 16 x 16");
  }

  void read(Split split, int64_t index, std::span<float> out) const override {
    mixture_.sample(rng(split, index), out);
  }
  [[nodiscard]] const GaussianMixture* mixture() const override { return &mixture_; }

 private:
  GaussianMixture mixture_;
};

class Synthetic final : public Generated {
 public:
  using Generated::Generated;

  void read(Split split, int64_t index, std::span<float> out) const override {
    CounterRng draws = rng(split, index);
    const SmoothField field(draws, {channels(), resolution(), 6, 4});
    std::vector<double> row(static_cast<size_t>(resolution()));
    auto next = out.begin();
    for (int64_t channel = 0; channel < channels(); ++channel) {
      for (int64_t y = 0; y < resolution(); ++y) {
        field.row(channel, y, row);
        for (const double value : row) *next++ = static_cast<float>(value);
      }
    }
  }
};

}  // namespace

std::shared_ptr<const Dataset> open_gmm16(const Definition& definition) {
  return std::make_shared<Gmm16>(definition);
}

std::shared_ptr<const Dataset> open_synthetic(const Definition& definition) {
  return std::make_shared<Synthetic>(definition);
}

}  // namespace noisemark::suite
