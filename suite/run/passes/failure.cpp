#include "suite/run/passes/failure.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <new>
#include <string_view>
#include <system_error>

#include "memopt/modes/budget_mode.h"
#include "reports/base/error.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kLittle = int64_t{64} << 20;

/// LibTorch's allocator, once it was used, and the current GPU.
struct CurrentGpu {
  c10::DeviceAllocator* allocator;
  c10::DeviceIndex index;
};

/// Empty without CUDA in this build, before a GPU was used, and where an earlier error has stopped
/// it.
std::optional<CurrentGpu> current_gpu() {
  try {
    c10::DeviceAllocator* allocator = c10::getDeviceAllocator(c10::kCUDA);
    if (!allocator->initialized()) return std::nullopt;
    return CurrentGpu{allocator, c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index()};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_short(const DeviceRoom& room) {
  return room.refusals > 0 || room.free_bytes < kLittle;
}

std::optional<DeviceRoom> room_on_gpu() {
  const auto gpu = current_gpu();
  if (!gpu) return std::nullopt;
  try {
    return DeviceRoom{static_cast<int64_t>(gpu->allocator->getMemoryInfo(gpu->index).first),
                      gpu->allocator->getDeviceStats(gpu->index).num_ooms};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

void forget_refusals_of_gpu() {
  const auto gpu = current_gpu();
  if (gpu) gpu->allocator->resetAccumulatedStats(gpu->index);
}

namespace {

struct Meaning {
  std::string_view phrase;  ///< part of CUDA's, cuBLAS's, cuDNN's or LibTorch's text
  ExitCode code;
  std::string_view words;
};

constexpr ExitCode kHere = ExitCode::kCannotRunHere;
constexpr std::string_view kTooOld = "install a newer driver, or build with an older toolkit";
constexpr std::string_view kNoDevice = "see `noisemark doctor`";
constexpr std::string_view kFull = "no room on the GPU";
// CUDA has one text for both.
constexpr std::string_view kFullOrNoPages =
    "no room on the GPU, or none on the host for pages that stay in place";
// LibTorch's words where none of cuDNN's plans for a convolution could be run.
constexpr std::string_view kNoEngine = "unable to find an engine to execute this computation";
constexpr std::string_view kNoEngineForWantOfRoom =
    "no room on the GPU for what cuDNN's algorithms need";
constexpr std::string_view kNoEngineAtAll =
    "cuDNN has no algorithm for this type, shape and GPU, of those that may be used "
    "(`--deterministic` and a limit of the workspace leave fewer)";
constexpr std::string_view kKernel =
    "a kernel failed, maybe long before it was noticed: with CUDA_LAUNCH_BLOCKING=1 it is noticed "
    "where it happens, and compute-sanitizer names the access";

// The first that is in the text counts.
constexpr std::array kMeanings{
    Meaning{"busy or unavailable", kHere,
            "another program has the GPU for itself (exclusive compute mode), or it may not be "
            "used; see `nvidia-smi`"},
    Meaning{"driver on your system is too old", kHere, kTooOld},
    Meaning{"CUDA driver version is insufficient", kHere, kTooOld},
    Meaning{"Found no NVIDIA driver", kHere, kNoDevice},
    Meaning{"no CUDA-capable device is detected", kHere, kNoDevice},
    Meaning{"system not yet initialized", kHere, "NVIDIA's fabric manager has not started"},
    Meaning{"no kernel image is available", kHere,
            "this program has no code for this GPU; build it with its architecture in CUDAARCHS"},
    Meaning{"STATUS_ALLOC_FAILED", ExitCode::kOutOfMemory, kFull},
    Meaning{"DEVICE_ALLOCATION_FAILED", ExitCode::kOutOfMemory, kFull},
    Meaning{"HOST_ALLOCATION_FAILED", ExitCode::kOutOfMemory, "no room on the host"},
    Meaning{"CUDA error: out of memory", ExitCode::kOutOfMemory, kFullOrNoPages},
    Meaning{"CUDA driver error: out of memory", ExitCode::kOutOfMemory, kFullOrNoPages},
    Meaning{"uncorrectable ECC error", ExitCode::kInternal, "the GPU's memory is faulty"},
    Meaning{"illegal memory access", ExitCode::kInternal, kKernel},
    Meaning{"misaligned address", ExitCode::kInternal, kKernel},
    Meaning{"illegal instruction", ExitCode::kInternal, kKernel},
    Meaning{"unspecified launch failure", ExitCode::kInternal, kKernel},
    Meaning{"device-side assert", ExitCode::kInternal, kKernel},
    Meaning{"the launch timed out", ExitCode::kInternal,
            "a display's watchdog ended a kernel; use a GPU without a display"}};

/// LibTorch explains an error of CUDA over many lines, of which the first says what it was.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

DeviceFailure told(ExitCode code, const std::string& text, std::string_view words) {
  return {code, first_line(text) + ": " + std::string(words)};
}

}  // namespace

std::optional<DeviceFailure> device_failure(const std::string& text,
                                            const std::optional<DeviceRoom>& room) {
  if (text.find(kNoEngine) != std::string::npos) {
    return room && is_short(*room) ? told(ExitCode::kOutOfMemory, text, kNoEngineForWantOfRoom)
                                   : told(ExitCode::kInternal, text, kNoEngineAtAll);
  }
  const bool of_a_gpu =
      text.find("CUDA") != std::string::npos || text.find("NVIDIA") != std::string::npos ||
      text.find("CUBLAS") != std::string::npos || text.find("CUDNN") != std::string::npos;
  if (!of_a_gpu) return std::nullopt;
  for (const Meaning& meaning : kMeanings) {
    if (text.find(meaning.phrase) == std::string::npos) continue;
    return told(meaning.code, text, meaning.words);
  }
  return std::nullopt;
}

namespace {

// The CPU allocator has no error type of its own, only this text (c10/core/impl/alloc_cpu.cpp).
constexpr const char* kHostText = "DefaultCPUAllocator: can't allocate memory";

}  // namespace

std::optional<std::string> failed_allocation(const std::exception& error,
                                             std::optional<DeviceRoom> (*room)()) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "host memory is used up";
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr) return std::nullopt;
  const std::string text = torch_error->what_without_backtrace();
  const bool host = text.find(kHostText) != std::string::npos;
  const bool device = dynamic_cast<const c10::OutOfMemoryError*>(torch_error) != nullptr;
  if (host || device) {
    const size_t begin = host ? text.find(kHostText) : 0;  // drops the place in LibTorch's sources
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  const auto failure = device_failure(text, room());
  if (!failure || failure->code != ExitCode::kOutOfMemory) return std::nullopt;
  return failure->reason;
}

namespace {

Failure known_failure(ExitCode code, const std::string& reason) {
  return {code, error_status(code), reason, reason};
}

Failure unexpected(ExitCode code, const std::string& reason) {
  const std::string status = error_status(code);
  return {code, status, reason, status + ": " + reason};
}

}  // namespace

Failure failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return known_failure(known->code(), known->what());
  }
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) {
    return unexpected(ExitCode::kOutOfMemory, error.what());
  }
  if (dynamic_cast<const NonFinite*>(&error) != nullptr) {
    return known_failure(ExitCode::kFailed, error.what());
  }
  if (dynamic_cast<const memopt::BudgetTooSmall*>(&error) != nullptr) {
    return known_failure(ExitCode::kBadInput, error.what());
  }
  if (dynamic_cast<const memopt::BudgetNotKept*>(&error) != nullptr) {
    return known_failure(ExitCode::kFailed, error.what());
  }
  if (const auto what = failed_allocation(error)) {
    return unexpected(ExitCode::kOutOfMemory, *what);
  }
  if (const auto* of_system = dynamic_cast<const std::system_error*>(&error)) {
    const Error told = reports::error_of(*of_system);
    if (told.code() == ExitCode::kInternal) return unexpected(told.code(), told.what());
    return known_failure(told.code(), told.what());
  }
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string reason =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  if (const auto of_device = device_failure(reason)) {
    return unexpected(of_device->code, of_device->reason);
  }
  return unexpected(ExitCode::kInternal, reason);
}

}  // namespace noisemark::suite
