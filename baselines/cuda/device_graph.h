#pragma once

#include <memory>

#include "baselines/device_graph.h"

namespace noisemark::baselines {

/// For make_device_graph(): a graph of the work that is issued to a CUDA device, recorded on a
/// stream of its own.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_cuda_graph(c10::Device device);

}  // namespace noisemark::baselines
