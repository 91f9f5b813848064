#include "suite/run/device_pass.h"

#include <algorithm>
#include <cmath>

#include "memopt/device_parts.h"
#include "suite/environment/gpu_counters.h"
#include "suite/environment/pm_sampling.h"
#include "suite/probes/device_window.h"
#include "suite/probes/sampled_window.h"
#include "suite/run/owners.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kFewest = 3;
constexpr int64_t kMost = 100'000;
/// After the first ones, in which libraries choose, memory is taken and a graph is recorded.
constexpr int64_t kWarmup = 8;

const char* const kPass = "GPU window";
const char* const kSampledPass = "GPU counters";

int64_t warmup_steps(const SessionOptions& options) {
  return kWarmup + memopt::make_mode(options.variant.mode)->forwards_until_steady();
}

/// What trains, and what watches over it.
struct Training {
  Trainer& trainer;
  memopt::DeviceClock& clock;
  const PassWatch& watch;
};

/// Trains the first steps and returns what the last of them took.
double warm_up(const Training& in, int64_t steps) {
  while (in.trainer.next_step() + 1 < steps) {
    in.watch.before_step(kPass, in.trainer.next_step(), steps);
    (void)in.trainer.step();
  }
  in.clock.synchronize();
  const auto begin = in.clock.mark();
  (void)in.trainer.step();
  const auto end = in.clock.mark();
  in.clock.synchronize();
  return in.clock.seconds_between(begin, end);
}

void train(const Training& in, int64_t steps, const char* pass) {
  const int64_t first = in.trainer.next_step();
  for (int64_t i = 0; i < steps; ++i) {
    in.watch.before_step(pass, first + i, first + steps);
    (void)in.trainer.step();
  }
  in.clock.synchronize();
}

DeviceWindow read_beside(const Training& in, int ordinal, int64_t steps) {
  const auto counters = make_gpu_counters(ordinal);
  DeviceWatch reading(*counters);
  train(in, steps, kPass);
  return reading.stop();
}

/// Asks CUPTI only now, so that the window before knows nothing of it.
std::vector<SampledShare> sample_beside(const Training& in, int ordinal, double step_s,
                                        double window_s) {
  const int64_t steps = steps_of_window(step_s, window_s);
  const auto counters = make_sampled_counters(ordinal);
  return sample_windows(*counters, window_s, [&] { train(in, steps, kSampledPass); });
}

}  // namespace

int64_t steps_of_window(double step_s, double window_s) {
  if (!(step_s > 0)) return kFewest;
  const double steps = std::ceil(window_s / step_s);
  if (steps >= static_cast<double>(kMost)) return kMost;
  return std::max(kFewest, static_cast<int64_t>(steps));
}

DeviceReadings device_pass(const SessionOptions& options, const PassWatch& watch, double window_s) {
  const c10::Device device = options.variant.device;
  const int64_t warmup = warmup_steps(options);
  SessionOptions own = options;
  const auto windows = static_cast<int64_t>(1 + sampled_metrics().size());
  own.definition.train.steps = warmup + kMost * windows;
  own.timed = true;
  const Session session = make_session(own);
  const auto clock = memopt::make_device_clock(device);
  const int ordinal = device.has_index() ? device.index() : 0;
  DeviceReadings readings;
  name_owners_when_full(*session.trainer, [&] {
    const Training in{*session.trainer, *clock, watch};
    const double step_s = warm_up(in, warmup);
    readings.steps = steps_of_window(step_s, window_s);
    readings.window = read_beside(in, ordinal, readings.steps);
    readings.window.sampled =
        sample_beside(in, ordinal, step_s, std::min(window_s, kSampledWindow_s));
  });
  return readings;
}

}  // namespace noisemark::suite
