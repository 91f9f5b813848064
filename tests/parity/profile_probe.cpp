// Profiles three steps of a small network, written operator by operator as profile_test.py writes
// it for Python, and prints profile.json. An argument "shapes" has it record shapes.

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <torch/nn/module.h>

#include <cstdio>
#include <string_view>

#include "reports/profile/profile.h"
#include "suite/probes/step_recorder.h"

namespace {

void step(const at::Tensor& filter, const at::Tensor& weight) {
  const at::Tensor x = at::ones({4, 8, 16, 16});
  const at::Tensor h = at::silu(at::group_norm(at::conv2d(x, filter, {}, 1, 1), 4));
  const at::Tensor y = at::linear(h.mean({2, 3}), weight);
  const at::Tensor loss = at::mse_loss(y * y + y, at::ones({4, 5}));
  loss.backward(at::ones({}));
  filter.mutable_grad().reset();
  weight.mutable_grad().reset();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace noisemark;
  const at::Tensor filter = at::ones({8, 8, 3, 3}).requires_grad_();
  const at::Tensor weight = at::ones({5, 8}).requires_grad_();
  suite::RecorderOptions options;
  options.shapes = argc > 1 && std::string_view(argv[1]) == "shapes";
  auto model = std::make_shared<torch::nn::Module>();
  suite::StepRecorder recorder(*model, options);
  step(filter, weight);
  recorder.start();
  for (int i = 0; i < 3; ++i) step(filter, weight);
  reports::Profile profile;
  reports::add_tables(recorder.stop(), profile);
  std::fputs(reports::profile_json(profile).c_str(), stdout);
}
