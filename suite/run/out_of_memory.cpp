#include "suite/run/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

namespace noisemark::suite {

std::optional<std::string> failed_allocation(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "host memory is used up";
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr) return std::nullopt;
  const std::string text = torch_error->what_without_backtrace();
  // The CPU allocator has no error type of its own, only this text (c10/core/impl/alloc_cpu.cpp).
  const bool host = text.find("can't allocate memory") != std::string::npos;
  const bool device = dynamic_cast<const c10::OutOfMemoryError*>(torch_error) != nullptr;
  if (!host && !device) return std::nullopt;
  return text.substr(0, text.find('\n'));
}

}  // namespace noisemark::suite
