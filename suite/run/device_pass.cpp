#include "suite/run/device_pass.h"

#include <algorithm>
#include <cmath>

#include "memopt/device_parts.h"
#include "suite/environment/gpu_counters.h"
#include "suite/probes/device_window.h"
#include "suite/run/owners.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kFewest = 3;
constexpr int64_t kMost = 100'000;
/// After the first ones, in which libraries choose, memory is taken and a graph is recorded.
constexpr int64_t kWarmup = 8;

const char* const kPass = "GPU window";

int64_t warmup_steps(const SessionOptions& options) {
  return kWarmup + memopt::make_mode(options.variant.mode)->forwards_until_steady();
}

/// Trains the first steps and returns what the last of them took.
double warm_up(Trainer& trainer, memopt::DeviceClock& clock, int64_t steps,
               const PassWatch& watch) {
  while (trainer.next_step() + 1 < steps) {
    watch.before_step(kPass, trainer.next_step(), steps);
    (void)trainer.step();
  }
  clock.synchronize();
  const auto begin = clock.mark();
  (void)trainer.step();
  const auto end = clock.mark();
  clock.synchronize();
  return clock.seconds_between(begin, end);
}

DeviceWindow read_beside(Trainer& trainer, memopt::DeviceClock& clock, GpuCounters& counters,
                         int64_t steps, const PassWatch& watch) {
  const int64_t first = trainer.next_step();
  DeviceWatch reading(counters);
  for (int64_t i = 0; i < steps; ++i) {
    watch.before_step(kPass, first + i, first + steps);
    (void)trainer.step();
  }
  clock.synchronize();
  return reading.stop();
}

}  // namespace

int64_t steps_of_window(double step_s, double window_s) {
  if (!(step_s > 0)) return kFewest;
  const double steps = std::ceil(window_s / step_s);
  if (steps >= static_cast<double>(kMost)) return kMost;
  return std::max(kFewest, static_cast<int64_t>(steps));
}

reports::DeviceUse device_pass(const SessionOptions& options, const PassWatch& watch,
                               const reports::Utilization& counted,
                               const std::optional<BusyTime>& busy, double window_s) {
  const c10::Device device = options.variant.device;
  const int64_t warmup = warmup_steps(options);
  SessionOptions own = options;
  own.definition.train.steps = warmup + kMost;
  own.timed = true;
  const Session session = make_session(own);
  const auto counters = make_gpu_counters(device.has_index() ? device.index() : 0);
  const auto clock = memopt::make_device_clock(device);
  WindowWork work;
  work.busy = busy;
  if (!busy) work.busy_missing = "the profiler saw no kernel on the GPU";
  work.peak_flop_per_s = counted.gemm_peak_flop_per_s;
  DeviceWindow window;
  name_owners_when_full(*session.trainer, [&] {
    work.steps = steps_of_window(warm_up(*session.trainer, *clock, warmup, watch), window_s);
    window = read_beside(*session.trainer, *clock, *counters, work.steps, watch);
  });
  work.images = work.steps * options.definition.train.batch;
  const int64_t per_image = counted.forward_flop_per_image + counted.backward_flop_per_image;
  work.flop = static_cast<double>(per_image) * static_cast<double>(work.images);
  return device_use(window, work);
}

}  // namespace noisemark::suite
