#include "suite/run/build_memory.h"

#include <c10/util/Exception.h>

#include <exception>

#include "memopt/device_parts.h"
#include "suite/run/owners.h"

namespace noisemark::suite {
namespace {

/// Null also in a program that does not follow the CPU's allocations.
memopt::AllocationSource* source_of(c10::Device device) {
  try {
    return memopt::find_allocation_source(device);
  } catch (const c10::Error&) {
    return nullptr;
  }
}

}  // namespace

BuildMemory::BuildMemory(c10::Device device)
    : source_(source_of(device)),
      thread_(std::this_thread::get_id()),
      exceptions_(std::uncaught_exceptions()) {
  if (source_ != nullptr) before_bytes_ = source_->attach(*this).live_bytes;
}

BuildMemory::~BuildMemory() {
  if (source_ != nullptr) source_->detach();
}

void BuildMemory::on_allocate(const memopt::Block& block) noexcept {
  if (std::this_thread::get_id() == thread_) bytes_of_part() += block.bytes;
}

void BuildMemory::on_release(const memopt::Block& block) noexcept {
  // What an exception cleans up was still held when it was thrown.
  if (std::this_thread::get_id() != thread_ || std::uncaught_exceptions() > exceptions_) return;
  bytes_of_part() -= block.bytes;
}

std::string BuildMemory::holders() const {
  std::string words;
  for (const memopt::Owner owner : memopt::all_owners()) {
    const int64_t bytes = bytes_[static_cast<size_t>(owner)];
    if (bytes > 0) append_holder(words, memopt::owner_name(owner), bytes);
  }
  append_holder(words, "rest", before_bytes_);
  return words.empty() ? "nothing yet" : words;
}

}  // namespace noisemark::suite
