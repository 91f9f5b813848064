#include "suite/run/memory_pass.h"

#include <optional>

#include "memopt/device_parts.h"
#include "suite/probes/memory_probe.h"
#include "suite/probes/short_count.h"
#include "suite/run/mode_figures.h"
#include "suite/run/out_of_memory.h"
#include "suite/run/owners.h"

namespace noisemark::suite {
namespace {

/// Every step is watched, so that one that does not fit can tell who held what.
void train_watched(Trainer& trainer, MemoryProbe& probe, int64_t steps, const PassWatch& watch) {
  try {
    while (trainer.next_step() < steps) {
      watch.before_step("memory pass", trainer.next_step(), steps);
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

/// Empty unless the fault asks for it.
std::optional<ShortCount> short_count(const SessionOptions& options, const Trainer& trainer) {
  memopt::AllocationSource* source = memopt::find_allocation_source(options.variant.device);
  if (options.fault.lost_bytes == 0 || source == nullptr) return std::nullopt;
  return std::make_optional<ShortCount>(*source, trainer.parameters().front().second,
                                        options.fault.lost_bytes);
}

}  // namespace

reports::MemorySection memory_pass(const SessionOptions& options, const PassWatch& watch,
                                   reports::MemoryMode* mode) {
  SessionOptions own = options;
  own.definition.train.steps = options.definition.measure.memory_steps +
                               memopt::make_mode(options.variant.mode)->forwards_until_steady();
  const Session session = make_session(own);
  Trainer& trainer = *session.trainer;
  std::optional<ShortCount> source = short_count(options, trainer);
  MemoryProbe probe(
      *session.mode, [&trainer] { return owner_roots(trainer); }, options.variant.device,
      source ? &*source : nullptr);
  train_watched(trainer, probe, own.definition.train.steps, watch);
  if (mode != nullptr) describe_plan(*session.mode, *mode);
  return probe.section();
}

}  // namespace noisemark::suite
