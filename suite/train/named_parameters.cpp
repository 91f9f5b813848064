#include "suite/train/named_parameters.h"

namespace noisemark::suite {

NamedTensors named_parameters(const Denoiser& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

}  // namespace noisemark::suite
