#include "suite/run/passes/memory_pass.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "baselines/baseline.h"
#include "memopt/accounting/allocation_source.h"
#include "memopt/modes/budget_mode.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "suite/probes/memory_probe.h"
#include "suite/probes/snapshot_file.h"
#include "suite/run/passes/failure.h"
#include "suite/run/passes/mode_figures.h"
#include "suite/run/passes/owners.h"
#include "suite/train/fault.h"

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

/// Returns nothing unless the fault asks for it.
std::optional<ShortCount> short_count(const SessionOptions& options, const Trainer& trainer) {
  memopt::AllocationSource* source = memopt::find_allocation_source(options.spec.device);
  if (options.fault.lost_bytes == 0 || source == nullptr) return std::nullopt;
  return std::make_optional<ShortCount>(*source, trainer.parameters().front().second,
                                        options.fault.lost_bytes);
}

}  // namespace

reports::MemorySection memory_pass(const SessionOptions& options, const PassWatch& watch,
                                   reports::MemoryMode* mode, const std::string& snapshot) {
  SessionOptions own = options;
  own.spec.definition.train.steps =
      options.spec.definition.measure.memory_steps + options.spec.mode.forwards_until_steady;
  const Session session = make_session(own);
  Trainer& trainer = *session.trainer;
  std::optional<ShortCount> source = short_count(options, trainer);
  MemoryProbe probe(
      *session.mode, [&trainer] { return owner_roots(trainer); }, options.spec.device,
      source ? &*source : nullptr);
  train_watched(trainer, probe, own.spec.definition.train.steps, watch, snapshot);
  keep_snapshot(probe, options.spec.device, snapshot);
  if (mode != nullptr) describe_plan(*session.mode, *mode);
  return probe.section();
}

namespace {

/// A figure above any memory.
constexpr int64_t kMoreThanAny = std::numeric_limits<int64_t>::max();

struct Peak {
  int64_t bytes = 0;
  std::string why_none;  ///< reason for kMoreThanAny
};

/// Peaks by batch, in units of the accumulation.
class Peaks {
 public:
  Peaks(const SessionOptions& options, const PassWatch& watch) : options_(options), watch_(watch) {
    options_.spec.definition.measure.memory_steps = 1;  // this one comes after those until the mode
                                                        // is steady
  }

  [[nodiscard]] int64_t accumulation() const { return options_.spec.definition.train.accumulation; }
  int64_t at(int64_t units) { return of(units).bytes; }

  const Peak& of(int64_t units) {
    const auto known = peaks_.find(units);
    return known != peaks_.end() ? known->second
                                 : peaks_.emplace(units, measure(units)).first->second;
  }

 private:
  Peak measure(int64_t units) {
    SessionOptions own = options_;
    own.spec.definition.train.batch = units * own.spec.definition.train.accumulation;
    try {
      return {memory_pass(own, watch_).peak_bytes, ""};
    } catch (const OutOfMemory&) {
      forget_refusals_of_gpu();
      return {kMoreThanAny, "out of memory"};
    } catch (const memopt::BudgetTooSmall&) {
      return {kMoreThanAny, "below the smallest budget"};
    }
  }

  SessionOptions options_;
  const PassWatch& watch_;
  std::map<int64_t, Peak> peaks_;
};

/// Returns the batch at which a straight line through both ends reaches `memory_bytes`, strictly
/// between them.
int64_t between(Peaks& peaks, int64_t fits, int64_t too_large, int64_t memory_bytes) {
  const auto low = static_cast<double>(peaks.at(fits));
  const auto high = static_cast<double>(peaks.at(too_large));
  if (peaks.at(too_large) == kMoreThanAny) return fits + (too_large - fits) / 2;
  const double part = (static_cast<double>(memory_bytes) - low) / (high - low);
  const auto guess = fits + static_cast<int64_t>(part * static_cast<double>(too_large - fits));
  return std::clamp(guess, fits + 1, too_large - 1);
}

/// `fits`: the largest that does, in units, 0 where none does; `next`: the next larger one, empty
/// where there are no more data.
reports::BatchFit answer(Peaks& peaks, int64_t memory_bytes, int64_t fits,
                         std::optional<int64_t> next) {
  reports::BatchFit fit;
  fit.memory_bytes = memory_bytes;
  fit.batch = fits * peaks.accumulation();
  if (fits > 0) fit.peak_bytes = peaks.at(fits);
  if (!next) {
    fit.next_words = "no larger batch: all data are in it";
  } else if (peaks.at(*next) == kMoreThanAny) {
    fit.next_words = peaks.of(*next).why_none;
  } else {
    fit.next_peak_bytes = peaks.at(*next);
  }
  return fit;
}

}  // namespace

void require_countable_batch(const RunSpec& spec) {
  if (!spec.baseline.execution.cuda_graph) return;
  throw bad_input("--baseline", "", spec.baseline.name + " in a search for the largest batch",
                  "one whose steps the host issues: a recording's own memory is not counted");
}

reports::BatchFit largest_batch(const SessionOptions& options, int64_t memory_bytes,
                                const PassWatch& watch) {
  Peaks peaks(options, watch);
  const int64_t samples = options.dataset->size(Split::kTrain);
  const int64_t most = std::max<int64_t>(1, samples / peaks.accumulation());
  if (peaks.at(1) > memory_bytes) return answer(peaks, memory_bytes, 0, 1);
  int64_t fits = 1;
  int64_t too_large = 2;
  while (too_large <= most && peaks.at(too_large) <= memory_bytes) {
    fits = too_large;
    too_large = fits == most ? most + 1 : std::min(2 * fits, most);
  }
  if (fits == most) return answer(peaks, memory_bytes, fits, std::nullopt);
  while (too_large - fits > 1) {
    const int64_t middle = between(peaks, fits, too_large, memory_bytes);
    (peaks.at(middle) <= memory_bytes ? fits : too_large) = middle;
    // The line is straight almost everywhere, so the answer is often right beside the guess.
    if (fits == middle && too_large - fits > 1 && peaks.at(fits + 1) > memory_bytes) {
      too_large = fits + 1;
    } else if (too_large == middle && too_large - fits > 1 &&
               peaks.at(too_large - 1) <= memory_bytes) {
      fits = too_large - 1;
    }
  }
  return answer(peaks, memory_bytes, fits, too_large);
}

}  // namespace noisemark::suite
