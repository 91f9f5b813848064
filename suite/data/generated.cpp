#include "suite/data/generated.h"

#include <c10/util/Exception.h>

#include <vector>

#include "suite/data/gaussian_mixture.h"
#include "suite/data/smooth_field.h"

namespace noisemark::suite {
namespace {

/// What all generated sources share: pictures exist by index alone, train and test never meet.
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
    TORCH_CHECK(index >= 0 && index < size(split), "no picture ", index);
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
