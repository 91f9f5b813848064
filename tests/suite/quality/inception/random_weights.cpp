#include "tests/suite/quality/inception/random_weights.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <cmath>
#include <string>

namespace noisemark::suite::inception::test {
namespace {

at::Tensor scaled(const std::string& name, const at::Tensor& normal) {
  if (name.ends_with("conv.weight") || name == "fc.weight") {
    const auto inputs = static_cast<double>(normal.numel() / normal.size(0));
    return normal * std::sqrt(2 / inputs);
  }
  if (name.ends_with("bn.weight") || name.ends_with("bn.running_var")) {
    return (normal * 0.2 + 1).abs().clamp_min(0.2);
  }
  return normal * 0.2;
}

}  // namespace

const NamedTensors& random_tensors() {
  static const NamedTensors all = [] {
    const at::Generator generator = at::detail::createCPUGenerator(1);
    NamedTensors tensors;
    for (const auto& [name, shape] : tensor_shapes()) {
      tensors.emplace_back(name, scaled(name, at::randn(shape, generator)));
    }
    return tensors;
  }();
  return all;
}

Weights random_weights() {
  return weights_of({random_tensors(), {}}, "random");
}

}  // namespace noisemark::suite::inception::test
