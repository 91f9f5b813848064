#include "suite/run/memory_pass.h"

#include "suite/probes/memory_probe.h"

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

}  // namespace

reports::MemorySection memory_pass(const SessionOptions& options) {
  SessionOptions own = options;
  own.definition.train.steps = options.definition.measure.memory_steps;
  const Session session = make_session(own);
  Trainer& trainer = *session.trainer;
  MemoryProbe probe(*session.mode, [&trainer] { return owner_roots(trainer); });
  probe.arm(own.definition.train.steps - 1);
  while (trainer.next_step() < own.definition.train.steps) trainer.step({&probe}, &probe.sink());
  return probe.section();
}

}  // namespace noisemark::suite
