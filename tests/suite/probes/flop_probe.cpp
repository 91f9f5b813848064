// Counts the FLOPs of one network's forward and backward for flop_parity_test.py. One argument, a
// request in JSON: {"model": {"name": "lucid-unet", "dim": 64, ...}, "batch": 2}. Answers in JSON.

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "baselines/ops.h"
#include "suite/models/denoiser.h"
#include "suite/probes/flop_counter.h"

namespace noisemark::suite {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ModelConfig, name, channels, resolution, dim,
                                                dim_mults, dropout, attn_heads, attn_dim_head,
                                                res_blocks, attention_resolutions, groups,
                                                activation, downsample)
namespace {

nlohmann::json count(const nlohmann::json& request) {
  const auto config = request.at("model").get<ModelConfig>();
  const auto batch = request.at("batch").get<int64_t>();
  const auto model = make_denoiser(config, baselines::plain_ops());
  const at::Tensor x = at::zeros({batch, config.channels, config.resolution, config.resolution});
  const at::Tensor t = at::full({batch}, 7, at::kLong);
  FlopCounter counter;
  const at::Tensor loss = model->forward(x, t).square().sum();
  counter.on_phase_begin(Phase::kBackward);
  loss.backward();
  return {{"forward", counter.of(Phase::kForward)},
          {"backward", counter.of(Phase::kBackward)},
          {"by_operator", counter.by_operator()}};
}

}  // namespace
}  // namespace noisemark::suite

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::invalid_argument("expected one argument, a request in JSON");
    std::puts(noisemark::suite::count(nlohmann::json::parse(argv[1])).dump().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
