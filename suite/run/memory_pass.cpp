#include "suite/run/memory_pass.h"

#include "reports/quantity.h"
#include "suite/probes/memory_probe.h"
#include "suite/run/out_of_memory.h"

namespace noisemark::suite {
namespace {

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

OwnerRoots owner_roots(const Trainer& trainer) {
  OwnerRoots roots;
  roots.weights = tensors_of(trainer.weights());
  for (const auto& [name, buffer] : trainer.process().buffers()) roots.weights.push_back(buffer);
  roots.optimizer = tensors_of(trainer.optimizer_state());
  if (trainer.scaler()) {
    for (const auto& [name, tensor] : trainer.scaler()->state()) roots.optimizer.push_back(tensor);
  }
  roots.ema = tensors_of(trainer.ema().shadows());
  roots.input = trainer.inputs();
  roots.step = trainer.step_tensors();
  roots.parameters = tensors_of(trainer.parameters());
  return roots;
}

/// "weights 0.97 MiB, activations 12.51 MiB": every owner that held something, in the table's
/// order.
std::string holders(const reports::MemorySection& section) {
  std::string words;
  for (const std::string& category : section.categories) {
    const auto found = section.peak.by_category.find(category);
    if (found == section.peak.by_category.end() || found->second == 0) continue;
    if (!words.empty()) words += ", ";
    words += category;
    words += ' ';
    words += reports::format_bytes(found->second);
  }
  return words.empty() ? "nothing yet" : words;
}

/// Every step is watched, so that one that does not fit can tell who held what.
void train_watched(Trainer& trainer, MemoryProbe& probe, int64_t steps) {
  try {
    while (trainer.next_step() < steps) {
      probe.arm(trainer.next_step());
      (void)trainer.step({&probe}, &probe.sink());
    }
  } catch (const std::exception& error) {
    const auto what = failed_allocation(error);
    if (!what) throw;
    const reports::MemorySection section = probe.section_at_failure();
    throw OutOfMemory(*what + "; held then: " + holders(section), section);
  }
}

}  // namespace

reports::MemorySection memory_pass(const SessionOptions& options) {
  SessionOptions own = options;
  own.definition.train.steps = options.definition.measure.memory_steps +
                               memopt::make_mode(options.variant.mode)->forwards_until_steady();
  const Session session = make_session(own);
  Trainer& trainer = *session.trainer;
  MemoryProbe probe(
      *session.mode, [&trainer] { return owner_roots(trainer); }, options.variant.device);
  train_watched(trainer, probe, own.definition.train.steps);
  return probe.section();
}

}  // namespace noisemark::suite
