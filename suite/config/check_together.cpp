#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/error.h"
#include "suite/config/draft.h"

namespace noisemark::suite {
namespace {

bool has_once(const std::vector<int64_t>& values, int64_t wanted) {
  return std::count(values.begin(), values.end(), wanted) == 1;
}

/// Timesteps of the validation loss; samples are dealt to them in turn.
constexpr int64_t kEvalTimesteps = 8;

class Checker {
 public:
  explicit Checker(const Draft& draft) : draft_(draft), d_(draft.definition) {}

  void check() const {
    check_model_shape();
    if (d_.model.name == "ho-unet") check_ho();
    check_data();
    check_diffusion();
    check_training();
    if (d_.sample.sampler != "none") check_sampling();
  }

 private:
  void require(bool holds, const std::string& path, const std::string& accepted) const {
    if (holds) return;
    throw bad_input(draft_.place(path), path, value_text(*find_key(path), d_), accepted);
  }

  [[nodiscard]] int64_t stages() const { return static_cast<int64_t>(d_.model.dim_mults.size()); }

  void check_model_shape() const {
    const int64_t factor = int64_t{1} << (stages() - 1);
    require(stages() <= 10, "model.dim_mults", "at most 10 stages");
    require(
        d_.model.resolution % factor == 0, "model.resolution",
        "divisible by " + std::to_string(factor) + ", for " + std::to_string(stages()) + " stages");
    require(d_.model.dim % 2 == 0, "model.dim", "even: half sines, half cosines of the timestep");
  }

  void check_ho() const {
    std::vector<int64_t> resolutions;
    for (int64_t i = 0; i < stages(); ++i) resolutions.push_back(d_.model.resolution >> i);
    for (const int64_t wanted : d_.model.attention_resolutions) {
      require(
          has_once(resolutions, wanted) && has_once(d_.model.attention_resolutions, wanted),
          "model.attention_resolutions",
          fmt::format("resolutions of the stages, each once: {}", fmt::join(resolutions, ", ")));
    }
    for (const int64_t mult : d_.model.dim_mults) {
      require(d_.model.dim * mult % d_.model.groups == 0, "model.groups",
              "a divisor of every stage's channels; " + std::to_string(d_.model.dim * mult) +
                  " is not divisible");
    }
  }

  void check_data() const {
    if (d_.data.name == "gmm16") {
      require(d_.model.channels == 1, "model.channels", "1, for data.name \"gmm16\"");
      require(d_.model.resolution == 16, "model.resolution", "16, for data.name \"gmm16\"");
      require(
          !d_.data.flip, "data.flip",
          "false: a flipped mixture is another distribution than the one whose optimum is known");
    }
    if (d_.data.name == "cifar10") {
      require(d_.model.channels == 3, "model.channels", "3, for data.name \"cifar10\"");
      require(d_.model.resolution == 32, "model.resolution", "32, for data.name \"cifar10\"");
    }
  }

  void check_diffusion() const {
    // The linear schedule ends at beta = 20 / T.
    require(d_.diffusion.schedule != "linear" || d_.diffusion.timesteps > 20, "diffusion.timesteps",
            "above 20, for the linear schedule");
  }

  void check_training() const {
    require(d_.train.batch % d_.train.accumulation == 0, "train.accumulation",
            "a divisor of train.batch, " + std::to_string(d_.train.batch));
    require(d_.eval.samples % kEvalTimesteps == 0, "eval.samples",
            "a multiple of " + std::to_string(kEvalTimesteps) + ", the number of timesteps");
    require(d_.eval.weights == "model" || d_.ema.kind != "none", "eval.weights",
            "\"model\", because ema.kind is \"none\"");
    require(d_.data.train_samples == 0 || d_.data.train_samples >= d_.train.batch ||
                !applies(*find_key("data.train_samples"), d_),
            "data.train_samples", "0, or at least train.batch, " + std::to_string(d_.train.batch));
  }

  void check_sampling() const {
    require(d_.model.channels == 1 || d_.model.channels == 3, "model.channels",
            "1 or 3, for pictures; or sample.sampler \"none\"");
    require(d_.sample.sampler != "ddim" || d_.sample.ddim_steps <= d_.diffusion.timesteps,
            "sample.ddim_steps",
            "at most diffusion.timesteps, " + std::to_string(d_.diffusion.timesteps));
  }

  const Draft& draft_;
  const Definition& d_;
};

}  // namespace

void check_together(const Draft& draft) {
  Checker(draft).check();
}

}  // namespace noisemark::suite
