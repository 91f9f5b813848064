#pragma once

#include <memory>

#include "baselines/device_graph.h"

namespace noisemark::baselines {

[[nodiscard]] std::unique_ptr<DeviceGraph> make_cuda_graph(c10::Device device);

}  // namespace noisemark::baselines
