#include "suite/models/denoiser.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <string_view>

#include "reports/base/error.h"
#include "suite/models/ho_unet.h"
#include "suite/models/layers.h"
#include "suite/models/lucid_unet.h"

namespace noisemark::suite {
namespace {

template <typename Model>
std::shared_ptr<Denoiser> make(const ModelConfig& config, const baselines::Ops& ops) {
  return std::make_shared<Model>(config, ops);
}

struct DenoiserEntry {
  std::string_view name;
  std::shared_ptr<Denoiser> (*make)(const ModelConfig&, const baselines::Ops&);
  int64_t first_kernel;
};

constexpr std::array kDenoisers{
    DenoiserEntry{"lucid-unet", make<lucid::Unet>, lucid::Unet::kFirstKernel},
    DenoiserEntry{"ho-unet", make<ho::Unet>, ho::Unet::kFirstKernel},
};

const DenoiserEntry& entry_of(const ModelConfig& config) {
  std::string accepted = "one of:";
  for (const DenoiserEntry& entry : kDenoisers) {
    if (entry.name == config.name) return entry;
    accepted.append(" ").append(entry.name);
  }
  throw bad_input("model.name", "", config.name, accepted);
}

}  // namespace

at::Tensor Denoiser::forward(const at::Tensor& x, const at::Tensor& t) {
  check_input(x, t, channels_, factor_);
  Flow flow{x, t, {}, {}};
  for (const Part& part : parts_) part.run(flow);
  return flow.h;
}

std::shared_ptr<Denoiser> make_denoiser(const ModelConfig& config, const baselines::Ops& ops) {
  return entry_of(config).make(config, ops);
}

int64_t first_kernel_of(const ModelConfig& config) {
  return entry_of(config).first_kernel;
}

void place_model(Denoiser& model, at::Device device, at::ScalarType dtype, bool channels_last) {
  model.to(device, dtype);
  if (!channels_last) return;
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model.parameters()) {
    if (parameter.dim() == 4) {
      parameter.set_data(parameter.detach().contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

}  // namespace noisemark::suite
