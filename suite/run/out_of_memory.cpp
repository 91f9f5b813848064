#include "suite/run/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

#include "suite/run/device_failure.h"

namespace noisemark::suite {
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

}  // namespace noisemark::suite
