#include "suite/run/passes/owners.h"

#include <c10/util/Exception.h>

#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memopt/accounting/allocation_source.h"
#include "memopt/accounting/owner.h"
#include "reports/base/quantity.h"
#include "suite/run/passes/failure.h"

namespace noisemark::suite {
namespace {

using memopt::Owner;

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

/// A storage counts once, under the first that claims it.
class StorageSum {
 public:
  int64_t add(const std::vector<at::Tensor>& tensors) {
    int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.defined() || !tensor.has_storage()) continue;
      const c10::Storage& storage = tensor.storage();
      if (!seen_.insert(storage.unsafeGetStorageImpl()).second) continue;
      bytes += static_cast<int64_t>(storage.nbytes());
    }
    total_ += bytes;
    return bytes;
  }
  [[nodiscard]] int64_t total() const { return total_; }

 private:
  std::unordered_set<const c10::StorageImpl*> seen_;
  int64_t total_ = 0;
};

}  // namespace

OwnerRoots owner_roots(const Trainer& trainer) {
  OwnerRoots roots{{{Owner::kWeights, tensors_of(trainer.weights())},
                    {Owner::kOptimizer, tensors_of(trainer.optimizer_state())},
                    {Owner::kEma, tensors_of(trainer.ema().shadows())},
                    {Owner::kInput, trainer.inputs()},
                    {Owner::kActivations, trainer.step_tensors()}},
                   tensors_of(trainer.parameters())};
  for (const auto& [name, buffer] : trainer.process().buffers()) {
    roots.held[Owner::kWeights].push_back(buffer);
  }
  if (trainer.scaler()) {
    for (const auto& [name, tensor] : trainer.scaler()->state()) {
      roots.held[Owner::kOptimizer].push_back(tensor);
    }
  }
  return roots;
}

void append_holder(std::string& words, std::string_view name, int64_t bytes) {
  if (bytes == 0) return;
  if (!words.empty()) words += ", ";
  words.append(name).append(" ").append(reports::format_bytes(bytes));
}

std::string holders(const reports::MemorySection& section) {
  std::string words;
  for (const std::string& category : section.categories) {
    const auto found = section.peak.by_category.find(category);
    if (found != section.peak.by_category.end()) append_holder(words, category, found->second);
  }
  return words.empty() ? "nothing yet" : words;
}

std::string holders_now(const Trainer& trainer) {
  StorageSum sum;
  std::string words;
  for (const auto& [owner, tensors] : owned_tensors(owner_roots(trainer))) {
    append_holder(words, memopt::owner_name(owner), sum.add(tensors));
  }
  const memopt::AllocationSource* source = memopt::find_allocation_source(trainer.options().device);
  if (source != nullptr && source->live_bytes() > sum.total()) {
    append_holder(words, "rest", source->live_bytes() - sum.total());
  }
  return words;
}

void name_owners_when_full(const Trainer& trainer, const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    const auto what = failed_allocation(error);
    if (!what) throw;
    throw OutOfMemory(*what + "; held after the step was given up: " + holders_now(trainer));
  }
}

namespace {

/// Returns null in a program that does not follow the CPU's allocations too.
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
  // Memory that an exception cleans up was still held when it was thrown.
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
