// The only file that includes Gloo's headers: LibTorch has Gloo inside, but not its headers, and no
// other file may see more of it than LibTorch shows.
#include "suite/parallel/backend.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <cstdlib>

namespace noisemark::suite {

void Seen::settle() {
  const Clock::time_point now = Clock::now();
  if (open_ > 0) traffic_.busy_s += std::chrono::duration<double>(now - settled_).count();
  settled_ = now;
}

void Seen::begin(int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  settle();
  ++open_;
  ++traffic_.operations;
  traffic_.bytes += bytes;
  last_begin_ = {settled_, traffic_.busy_s};
}

void Seen::end(bool failed) {
  const std::scoped_lock lock(mutex_);
  settle();
  --open_;
  failed_ = failed_ || failed;
}

Seen::Mark Seen::mark() {
  const std::scoped_lock lock(mutex_);
  settle();
  return {settled_, traffic_.busy_s};
}

void Seen::waited_since(const Mark& begin) {
  const std::scoped_lock lock(mutex_);
  settle();
  const double waited = std::chrono::duration<double>(settled_ - begin.time).count();
  const double copied = waited - (traffic_.busy_s - begin.busy_s);
  traffic_.exposed_s += waited;
  traffic_.busy_s += std::max(0.0, copied);
}

Traffic Seen::traffic() {
  const std::scoped_lock lock(mutex_);
  settle();
  return traffic_;
}

bool Seen::failed() const {
  const std::scoped_lock lock(mutex_);
  return failed_;
}

Seen::Mark Seen::last_begin() const {
  const std::scoped_lock lock(mutex_);
  return last_begin_;
}

namespace {

using c10d::ProcessGroupGloo;

bool is_this_machine(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

/// Chooses the device by GLOO_SOCKET_IFNAME where a user sets it, as Python's c10d does.
auto device_for(const std::string& address) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr) return ProcessGroupGloo::createDeviceForInterface(interface);
  if (is_this_machine(address)) return ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const Rank& rank, std::chrono::milliseconds limit,
    const std::shared_ptr<Seen>& seen) {
  const auto number = static_cast<int>(rank.rank);
  const auto size = static_cast<int>(rank.ranks);
  const auto options = ProcessGroupGloo::Options::create(limit);
  options->devices.push_back(device_for(rank.address));
  const auto own = c10::make_intrusive<c10d::PrefixStore>("gloo", store);
  const auto gloo =
      c10::make_intrusive<Counted<ProcessGroupGloo>>(seen, own, number, size, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(own, number, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

}  // namespace noisemark::suite
