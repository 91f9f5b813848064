#include "suite/environment/pm_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "suite/environment/cupti.h"

namespace noisemark::suite {
namespace {

constexpr double kMostPercent = 100.5;   // rounding may add this to a mean, as of GPM
constexpr double kMostOfSample = 105.0;  // the parts of a GPU do not end a sample in the same cycle
constexpr size_t kFewestSamples = 10;
constexpr double kLeastCovered = 0.95;  // part of the window; its ends have no whole sample
constexpr double kMostCovered = 1.10;   // sampling begins a little before and ends a little after

using Samples = std::span<const CounterSample>;

double seconds_of(const CounterSample& sample) {
  return static_cast<double>(sample.end_ns - sample.begin_ns) * kSecondsPerNanosecond;
}

double seconds_of(Samples samples) {
  double sum_s = 0;
  for (const CounterSample& sample : samples) sum_s += seconds_of(sample);
  return sum_s;
}

/// Returns what is wrong with the samples' times, and an empty text where nothing is.
std::string fault_of(Samples samples, double window_s) {
  for (size_t i = 0; i < samples.size(); ++i) {
    const bool backwards = samples[i].end_ns <= samples[i].begin_ns;
    if (backwards || (i > 0 && samples[i].begin_ns < samples[i - 1].end_ns)) {
      return fmt::format("sample {} overlaps another one in time", i + 1);
    }
  }
  if (samples.size() < kFewestSamples) {
    return fmt::format("{} samples are too few: it needs {}", samples.size(), kFewestSamples);
  }
  const double covered = seconds_of(samples) / window_s;
  if (covered > kMostCovered) {
    return fmt::format("the samples' times add up to {:.0f} % of the window", 100 * covered);
  }
  if (covered >= kLeastCovered) return "";
  return fmt::format("samples were dropped: there are some of {:.0f} % of the window",
                     100 * covered);
}

/// Says why a share of one sample, or of all, is none; empty where it is one.
std::string why_no_share(double percent, double most) {
  if (!std::isfinite(percent)) return "the hardware gave no number, as for what others share";
  if (percent >= 0 && percent <= most) return "";
  return fmt::format("the hardware gave {:.1f} %, which cannot be", percent);
}

SampledValue value_of(Samples samples, size_t metric) {
  SampledValue value;
  double lowest = kMostOfSample;
  double highest = 0;
  double sum = 0;
  for (const CounterSample& sample : samples) {
    const double percent = metric < sample.percent.size() ? sample.percent[metric] : std::nan("");
    value.missing_reason = why_no_share(percent, kMostOfSample);
    if (!value.missing_reason.empty()) return value;
    sum += percent * seconds_of(sample);
    lowest = std::min(lowest, percent);
    highest = std::max(highest, percent);
  }
  const double mean = sum / seconds_of(samples);
  value.missing_reason = why_no_share(mean, kMostPercent);
  if (!value.missing_reason.empty()) return value;
  value.frac = std::min(mean, 100.0) / 100;
  value.lowest = std::min(lowest, 100.0) / 100;
  value.highest = std::min(highest, 100.0) / 100;
  value.samples = static_cast<int64_t>(samples.size());
  return value;
}

/// The first of `metric`'s names with which `window` still needs one pass; empty without one.
std::optional<std::string> fitting_name(const SampledMetric& metric, const SamplingWindow& window,
                                        const CountPasses& passes) {
  std::vector<std::string> all = window.called;
  all.emplace_back();
  for (const std::string_view name : metric.called) {
    all.back() = name;
    if (passes(all) == 1) return all.back();
  }
  return std::nullopt;
}

std::string why_nowhere(const SampledMetric& metric, const CountPasses& passes) {
  std::optional<size_t> fewest;
  for (const std::string_view name : metric.called) {
    const auto count = passes({std::string(name)});
    if (count) fewest = std::min(fewest.value_or(*count), *count);
  }
  return fewest ? fmt::format("it needs {} passes, and sampling has one", *fewest)
                : "this chip has no counter for it";
}

}  // namespace

const std::vector<SampledMetric>& sampled_metrics() {
  // Metrics without "realtime" in their names share a counter's wires and take a pass more; the
  // names in "TriageCompute" are those that NVIDIA laid out for Hopper to be counted together.
  static const std::vector<SampledMetric> kMetrics{
      {"sm_active_sampled",
       "sm_active",
       true,
       {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed"}},
      {"sm_occupancy_sampled",
       "sm_occupancy",
       true,
       {"sm__warps_active_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_elapsed"}},
      {"tensor_active_sampled",
       "tensor_active",
       true,
       {"sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"}},
      {"dram_active_sampled",
       "dram_active",
       true,
       {"dram__bytes.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"fp32_active_sampled",
       "fp32_active",
       false,
       {"TPC.TriageCompute.sm__inst_executed_pipe_fma_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_fma_realtime.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"}},
      {"fp16_active_sampled",
       "fp16_active",
       false,
       {"sm__inst_executed_pipe_fma_type_fp16.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_elapsed"}}};
  return kMetrics;
}

SamplingWindows choose_windows(const CountPasses& passes) {
  SamplingWindows chosen;
  const std::vector<SampledMetric>& metrics = sampled_metrics();
  chosen.missing.resize(metrics.size());
  for (size_t i = 0; i < metrics.size(); ++i) {
    std::vector<SamplingWindow> tried = chosen.windows;
    tried.emplace_back();
    bool placed = false;
    for (size_t w = 0; w < tried.size() && !placed; ++w) {
      const auto name = fitting_name(metrics[i], tried[w], passes);
      if (!name) continue;
      if (w == chosen.windows.size()) chosen.windows.emplace_back();
      chosen.windows[w].metrics.push_back(i);
      chosen.windows[w].called.push_back(*name);
      placed = true;
    }
    if (!placed) chosen.missing[i] = why_nowhere(metrics[i], passes);
  }
  return chosen;
}

std::vector<SampledValue> summarise(const SamplingWindow& window,
                                    const std::vector<CounterSample>& samples, double window_s) {
  const Samples used = Samples(samples).subspan(std::min<size_t>(1, samples.size()));
  const std::string fault = fault_of(used, window_s);
  std::vector<SampledValue> values(window.metrics.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (fault.empty()) values[i] = value_of(used, i);
    if (!fault.empty()) values[i].missing_reason = fault;
    values[i].called = window.called[i];
    if (!used.empty()) values[i].interval_s = seconds_of(used) / static_cast<double>(used.size());
  }
  return values;
}

namespace {

/// Samples of a window that is as long as expected: enough for a spread, and few to decode.
constexpr double kSamplesOfWindow = 1000;
constexpr uint32_t kMostSamples = 4096;
/// More often costs the GPU's memory time; more seldom a 32-bit count of 64 warps in each of two
/// multiprocessors per cycle would come round.
constexpr double kShortest_s = 1e-4;
constexpr double kLongest_s = 1e-2;
/// A trigger makes a record of 32 bytes in each of some hundred places of a large GPU.
constexpr size_t kBufferBytes = size_t{128} << 20;
constexpr int kMostDecodes = 64;
constexpr double kNanosecondsPerSecond = 1e9;

uint64_t interval_ns(double expected_s) {
  const double each_s = std::clamp(expected_s / kSamplesOfWindow, kShortest_s, kLongest_s);
  return static_cast<uint64_t>(std::llround(each_s * kNanosecondsPerSecond));
}

std::vector<const char*> c_names(const std::vector<std::string>& names) {
  std::vector<const char*> pointers;
  for (const std::string& name : names) pointers.push_back(name.c_str());
  return pointers;
}

/// CUPTI's half that knows a chip's counters, for one set of them.
class CounterSet {
 public:
  /// An empty `availability` stands for all counters.
  CounterSet(const Cupti& cupti, const std::string& chip, const std::vector<uint8_t>& availability,
             std::vector<std::string> called)
      : cupti_(cupti), called_(std::move(called)), pointers_(c_names(called_)) {
    why_not_ = configure(chip, availability);
  }
  ~CounterSet() {
    cupti::HostDeinitialize parameters;
    parameters.host = host_;
    if (host_ != nullptr) (void)cupti_.ask(parameters);
  }
  CounterSet(const CounterSet&) = delete;
  CounterSet& operator=(const CounterSet&) = delete;

  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] size_t passes() const { return passes_; }
  [[nodiscard]] const std::vector<uint8_t>& image() const { return image_; }
  [[nodiscard]] size_t size() const { return called_.size(); }
  [[nodiscard]] const char** names() { return pointers_.data(); }

  /// Reads sample `index` in `data`. Returns why it could not; empty on success.
  [[nodiscard]] std::string evaluate(const std::vector<uint8_t>& data, size_t index,
                                     std::vector<double>& percent) {
    cupti::Evaluate parameters;
    percent.assign(size(), 0);
    parameters.host = host_;
    parameters.data = data.data();
    parameters.data_bytes = data.size();
    parameters.index = index;
    parameters.names = names();
    parameters.count = size();
    parameters.values = percent.data();
    const auto code = cupti_.ask(parameters);
    return code == 0 ? "" : cupti_refusal(parameters.kFunction, code);
  }

 private:
  std::string configure(const std::string& chip, const std::vector<uint8_t>& availability) {
    cupti::HostInitialize initialize;
    initialize.profiler = cupti::kProfilerPmSampling;
    initialize.chip = chip.c_str();
    initialize.availability = availability.empty() ? nullptr : availability.data();
    if (const auto code = cupti_.ask(initialize); code != 0) {
      return cupti_refusal(initialize.kFunction, code);
    }
    host_ = initialize.host;
    cupti::ConfigAddMetrics add;
    add.host = host_;
    add.names = names();
    add.count = size();
    // All at once: each call begins a pass of its own, and one that fails spoils the object.
    if (const auto code = cupti_.ask(add); code != 0) return cupti_refusal(add.kFunction, code);
    return get_image();
  }

  std::string get_image() {
    cupti::GetConfigImageSize size;
    size.host = host_;
    if (const auto code = cupti_.ask(size); code != 0) return cupti_refusal(size.kFunction, code);
    image_.resize(size.image_bytes);
    cupti::GetConfigImage get;
    get.host = host_;
    get.image_bytes = image_.size();
    get.image = image_.data();
    if (const auto code = cupti_.ask(get); code != 0) return cupti_refusal(get.kFunction, code);
    cupti::GetNumOfPasses count;
    count.image_bytes = image_.size();
    count.image = image_.data();
    if (const auto code = cupti_.ask(count); code != 0) return cupti_refusal(count.kFunction, code);
    passes_ = count.passes;
    return "";
  }

  const Cupti& cupti_;
  std::vector<std::string> called_;
  std::vector<const char*> pointers_;
  void* host_ = nullptr;
  std::vector<uint8_t> image_;
  size_t passes_ = 0;
  std::string why_not_;
};

/// Holds a GPU's counters from begin() until it is destroyed.
class Sampling {
 public:
  explicit Sampling(const Cupti& cupti) : cupti_(cupti) {}
  ~Sampling() {
    if (started_) (void)stop();
    cupti::Disable parameters;
    parameters.sampling = sampling_;
    if (sampling_ != nullptr) (void)cupti_.ask(parameters);
  }
  Sampling(const Sampling&) = delete;
  Sampling& operator=(const Sampling&) = delete;

  /// Each returns why it did not succeed; empty where it did.
  [[nodiscard]] std::string enable(size_t ordinal) {
    cupti::Enable parameters;
    parameters.device = ordinal;
    const std::string refused = of(parameters);
    sampling_ = parameters.sampling;
    return refused;
  }

  [[nodiscard]] std::string begin(CounterSet& set, uint64_t every_ns) {
    cupti_.use_system_time();
    std::string refused = configure(set, every_ns);
    if (refused.empty()) refused = make_room(set);
    cupti::Start parameters;
    parameters.sampling = sampling_;
    if (refused.empty()) refused = of(parameters);
    started_ = refused.empty();
    return refused;
  }

  [[nodiscard]] std::string stop() {
    started_ = false;
    cupti::Stop parameters;
    parameters.sampling = sampling_;
    return of(parameters);
  }

  /// All samples between begin() and stop().
  [[nodiscard]] std::string read(CounterSet& set, std::vector<CounterSample>& samples) {
    std::string refused = decode();
    cupti::GetCounterDataInfo info;
    info.data = data_.data();
    info.data_bytes = data_.size();
    if (refused.empty()) refused = of(info);
    for (size_t i = 0; refused.empty() && i < info.completed; ++i) {
      cupti::GetSampleInfo times;
      times.sampling = sampling_;
      times.data = data_.data();
      times.data_bytes = data_.size();
      times.index = i;
      refused = of(times);
      CounterSample sample{times.begin_ns, times.end_ns, {}};
      if (refused.empty()) refused = set.evaluate(data_, i, sample.percent);
      samples.push_back(std::move(sample));
    }
    return refused;
  }

 private:
  template <class Parameters>
  std::string of(Parameters& parameters) {
    const auto code = cupti_.ask(parameters);
    return code == 0 ? "" : cupti_refusal(Parameters::kFunction, code);
  }

  std::string configure(const CounterSet& set, uint64_t every_ns) {
    cupti::SetConfig parameters;
    parameters.sampling = sampling_;
    parameters.image = set.image().data();
    parameters.image_bytes = set.image().size();
    parameters.buffer_bytes = kBufferBytes;
    parameters.interval = every_ns;
    // The samples that the buffer cannot hold are then told instead of overwritten.
    parameters.append = cupti::kKeepOldest;
    parameters.trigger = cupti::kTriggerTime;
    if (of(parameters).empty()) return "";
    // Turing and A100 count clocks, near one a nanosecond; samples say how long they were.
    parameters.trigger = cupti::kTriggerClock;
    return of(parameters);
  }

  std::string make_room(CounterSet& set) {
    cupti::GetCounterDataSize size;
    size.sampling = sampling_;
    size.names = set.names();
    size.count = set.size();
    size.most_samples = kMostSamples;
    if (std::string refused = of(size); !refused.empty()) return refused;
    data_.resize(size.data_bytes);
    cupti::CounterDataInitialize initialize;
    initialize.sampling = sampling_;
    initialize.data = data_.data();
    initialize.data_bytes = data_.size();
    return of(initialize);
  }

  std::string decode() {
    for (int call = 0; call < kMostDecodes; ++call) {
      cupti::DecodeData parameters;
      parameters.sampling = sampling_;
      parameters.data = data_.data();
      parameters.data_bytes = data_.size();
      const auto code = cupti_.ask(parameters);
      if (code == kCuptiOutOfMemory || (code == 0 && parameters.overflow != 0)) {
        return fmt::format("samples were dropped: the hardware's buffer of {} MiB overflowed",
                           kBufferBytes >> 20);
      }
      if (code != 0) return cupti_refusal(parameters.kFunction, code);
      if (parameters.stop_reason == cupti::kStopEnd) return "";
      if (parameters.stop_reason == cupti::kStopImageFull) {
        return fmt::format("the window is too long: it has more than {} samples", kMostSamples);
      }
    }
    return "decoding the samples came to no end";
  }

  const Cupti& cupti_;
  void* sampling_ = nullptr;
  bool started_ = false;
  std::vector<uint8_t> data_;
};

class CuptiCounters final : public SampledCounters {
 public:
  explicit CuptiCounters(int ordinal) : device_(cupti_, ordinal) {
    if (device_.why_not().empty()) sampled_ = make_windows();
    if (device_.why_not().empty()) return;
    sampled_.missing.assign(sampled_metrics().size(), device_.why_not());
  }

  const SamplingWindows& sampled() const override { return sampled_; }

  void begin(size_t window, double expected_s) override {
    sampling_.reset();
    window_ = sampled_.windows.at(window);
    set_ = std::make_unique<CounterSet>(cupti_, device_.chip(), device_.availability(),
                                        window_.called);
    sampling_ = std::make_unique<Sampling>(cupti_);
    fault_ = set_->why_not();
    if (fault_.empty()) fault_ = sampling_->enable(device_.ordinal());
    if (fault_.empty()) fault_ = sampling_->begin(*set_, interval_ns(expected_s));
  }

  std::vector<SampledValue> end(double window_s) override {
    std::vector<CounterSample> samples;
    if (sampling_ == nullptr) fault_ = "its window was never begun";
    if (fault_.empty()) fault_ = sampling_->stop();
    if (fault_.empty()) fault_ = sampling_->read(*set_, samples);
    sampling_.reset();
    std::vector<SampledValue> values = summarise(window_, samples, window_s);
    for (SampledValue& value : values) {
      if (fault_.empty()) continue;
      value = {};
      value.missing_reason = fault_;
    }
    return values;
  }

 private:
  SamplingWindows make_windows() {
    std::string refused;
    SamplingWindows chosen = choose_windows([&](const std::vector<std::string>& called) {
      const CounterSet set(cupti_, device_.chip(), device_.availability(), called);
      if (refused.empty()) refused = set.why_not();
      return set.why_not().empty() ? std::optional(set.passes()) : std::nullopt;
    });
    // If not one counter is known, it is not the counters that are refused.
    if (chosen.windows.empty() && !refused.empty())
      chosen.missing.assign(chosen.missing.size(), refused);
    return chosen;
  }

  Cupti cupti_;
  CuptiDevice device_;
  SamplingWindows sampled_;
  SamplingWindow window_;  ///< the window begun last
  std::unique_ptr<CounterSet> set_;
  std::unique_ptr<Sampling> sampling_;
  std::string fault_;  ///< failure in this window
};

}  // namespace

std::unique_ptr<SampledCounters> make_sampled_counters(int ordinal) {
  return std::make_unique<CuptiCounters>(ordinal);
}

std::string why_no_sampling(int ordinal) {
  const Cupti cupti;
  const CuptiDevice device(cupti, ordinal);
  return device.why_not().empty() ? Sampling(cupti).enable(device.ordinal()) : device.why_not();
}

std::optional<size_t> passes_on_chip(const std::string& chip,
                                     const std::vector<std::string>& called) {
  const Cupti cupti;
  const CounterSet set(cupti, chip, {}, called);
  return set.why_not().empty() ? std::optional(set.passes()) : std::nullopt;
}

}  // namespace noisemark::suite
