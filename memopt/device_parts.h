#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "memopt/allocation_source.h"
#include "memopt/codecs/codec_device.h"
#include "memopt/device_clock.h"
#include "memopt/replay/kernels/norm_chain.h"
#include "memopt/replay/sample_device.h"

/// What differs between devices. device_parts.cpp is the one file that knows which were built.
namespace noisemark::memopt {

/// Throws c10::Error for a device that this build or machine does not support.
[[nodiscard]] std::unique_ptr<DeviceClock> make_device_clock(c10::Device device);

/// Null when the device's allocations cannot be followed.
[[nodiscard]] AllocationSource* find_allocation_source(c10::Device device);

/// What libraries keep of the device's allocator from one call to the next, as tensors that own
/// nothing: of CUDA the workspaces of cuBLAS and cuBLASLt, one per stream. Empty of a CPU, whose
/// libraries have allocators of their own.
[[nodiscard]] std::vector<at::Tensor> library_workspaces(c10::Device device);

/// What times that were measured on the device hold for: a GPU's name; of a CPU, the instruction
/// set of the kernels, since a process runs on no other processor; of any other device what it is
/// called.
[[nodiscard]] std::string device_model(c10::Device device);

/// Null when this build has no codecs for the device.
[[nodiscard]] const codecs::CodecDevice* find_codec_device(c10::Device device);

/// Null when this build has no group norm from saved statistics for the device.
[[nodiscard]] replay::NormChainOnDevice find_norm_chain(c10::DeviceType device);

/// Null when this build compares no values on the device.
[[nodiscard]] const replay::SampleDevice* find_sample_device(c10::DeviceType device);

}  // namespace noisemark::memopt
