#include "suite/probes/process_memory.h"

#include <c10/core/Allocator.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace noisemark::suite {
namespace {

const auto& aggregate(const c10::CachingAllocator::StatArray& stats) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

}  // namespace

reports::DeviceMemory device_memory_of(const AllocatorStats& begin, const AllocatorStats& end,
                                       const ProcessMemory& process) {
  const auto& allocated = aggregate(end.allocated_bytes);
  const auto& reserved = aggregate(end.reserved_bytes);
  reports::DeviceMemory memory;
  memory.allocated_bytes = allocated.current;
  // Both also count what was given back and another stream still uses.
  memory.rounding_bytes =
      aggregate(end.active_bytes).current - aggregate(end.requested_bytes).current;
  memory.reserved_bytes = reserved.current;
  memory.peak_allocated_bytes = allocated.peak;
  memory.peak_reserved_bytes = reserved.peak;
  memory.fragmentation_bytes = reserved.peak - allocated.peak;
  memory.unusable_bytes = aggregate(end.inactive_split_bytes).current;
  memory.retries = end.num_alloc_retries - begin.num_alloc_retries;
  memory.failures = end.num_ooms - begin.num_ooms;
  memory.process_bytes = process.bytes;
  if (!process.bytes) memory.missing_reason = "process: " + process.missing_reason;
  return memory;
}

std::optional<int64_t> outside_bytes(const reports::DeviceMemory& memory) {
  if (!memory.process_bytes || !memory.reserved_bytes) return std::nullopt;
  const int64_t bytes = *memory.process_bytes - *memory.reserved_bytes;
  return bytes >= 0 ? std::optional(bytes) : std::nullopt;
}

reports::TrainingMemory training_memory_of(c10::Device device,
                                           const std::optional<AllocatorStats>& end,
                                           const Repetitions& repeated) {
  reports::TrainingMemory memory;
  memory.repeated_steps = repeated.steps;
  memory.recording_bytes = repeated.recording_bytes;
  if (end) {
    memory.peak_allocated_bytes = aggregate(end->allocated_bytes).peak;
    memory.peak_reserved_bytes = aggregate(end->reserved_bytes).peak;
  }
  if (!end) {
    memory.missing_reason = device.is_cpu()
                                ? "peaks: a CPU's allocator keeps none"
                                : "peaks: training did not begin, or the allocator counts nothing";
  }
  if (!repeated.recording_bytes) {
    if (!end) memory.missing_reason += "; ";
    memory.missing_reason += "recording: no step was recorded";
  }
  return memory;
}

DeviceMemoryWatch::DeviceMemoryWatch(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  allocator_ = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator_ == nullptr || !allocator_->initialized()) {
    allocator_ = nullptr;
    return;
  }
  if (!device_.has_index()) device_ = c10::Device(device.type(), 0);
  allocator_->resetPeakStats(device_.index());
  begin_ = allocator_->getDeviceStats(device_.index());
}

reports::DeviceMemory DeviceMemoryWatch::finish() const {
  if (allocator_ == nullptr) {
    reports::DeviceMemory none;
    if (!device_.is_cpu()) none.missing_reason = "its allocator counts nothing";
    return none;
  }
  return device_memory_of(begin_, *stats(), make_gpu_counters(device_.index())->process_memory());
}

std::optional<AllocatorStats> DeviceMemoryWatch::stats() const {
  if (allocator_ == nullptr) return std::nullopt;
  return allocator_->getDeviceStats(device_.index());
}

namespace {

constexpr int64_t kBytesPerKilobyte = 1024;

std::string reason(const char* file) {
  return std::string(file) + ": " + std::strerror(errno);
}

}  // namespace

std::string reset_resident_peak() {
  constexpr const char* kFile = "/proc/self/clear_refs";
  errno = 0;
  std::ofstream file(kFile);
  file << "5" << std::flush;  // proc(5): resets the peak resident set size
  return file ? std::string() : reason(kFile);
}

std::variant<ResidentMemory, std::string> read_resident_memory() {
  constexpr const char* kFile = "/proc/self/status";
  errno = 0;
  std::ifstream file(kFile);
  std::optional<int64_t> peak, mapped;
  for (std::string key; file >> key;) {
    int64_t kilobytes = 0;
    if (key == "VmHWM:" && file >> kilobytes) peak = kilobytes * kBytesPerKilobyte;
    if (key == "RssFile:" && file >> kilobytes) mapped = kilobytes * kBytesPerKilobyte;
    file.clear(file.rdstate() & ~std::ios::failbit);
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (!peak || !mapped) return std::string(kFile) + ": has no VmHWM or no RssFile";
  return ResidentMemory{*peak, *mapped};
}

}  // namespace noisemark::suite
