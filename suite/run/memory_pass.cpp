#include "suite/run/memory_pass.h"

#include <optional>

#include "memopt/device_parts.h"
#include "reports/file.h"
#include "suite/probes/memory_probe.h"
#include "suite/probes/short_count.h"
#include "suite/probes/snapshot_file.h"
#include "suite/run/mode_figures.h"
#include "suite/run/out_of_memory.h"
#include "suite/run/owners.h"

namespace noisemark::suite {
namespace {

void keep_snapshot(const MemoryProbe& probe, c10::Device device, const std::string& file) {
  if (!file.empty()) reports::write_file_atomically(file, snapshot_of(probe.record(), device));
}

/// Every step is watched, so that one that does not fit can tell who held what.
void train_watched(Trainer& trainer, MemoryProbe& probe, int64_t steps, const PassWatch& watch,
                   const std::string& snapshot) {
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
    keep_snapshot(probe, trainer.options().device, snapshot);
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
                                   reports::MemoryMode* mode, const std::string& snapshot) {
  SessionOptions own = options;
  own.definition.train.steps = options.definition.measure.memory_steps +
                               memopt::make_mode(options.variant.mode)->forwards_until_steady();
  const Session session = make_session(own);
  Trainer& trainer = *session.trainer;
  std::optional<ShortCount> source = short_count(options, trainer);
  MemoryProbe probe(
      *session.mode, [&trainer] { return owner_roots(trainer); }, options.variant.device,
      source ? &*source : nullptr);
  train_watched(trainer, probe, own.definition.train.steps, watch, snapshot);
  keep_snapshot(probe, options.variant.device, snapshot);
  if (mode != nullptr) describe_plan(*session.mode, *mode);
  return probe.section();
}

}  // namespace noisemark::suite
