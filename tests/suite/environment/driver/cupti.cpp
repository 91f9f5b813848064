// A stand-in for libcupti.so.13: one GPU, whose counters may be sampled in one pass but for one of
// them. Structures are told by their sizes in the toolkit's headers; what does not fit is refused,
// as the library does. Signatures are those of CUPTI's reference manual.
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "suite/environment/cupti.h"
#include "tests/suite/environment/driver/cupti_stand_in.h"

namespace {

namespace cupti = noisemark::suite::cupti;

constexpr int kInvalid = 1;
constexpr int kNotNow = 7;
constexpr int kNoSuchMetric = 1;  // the library answers this to an unknown name

struct State {
  std::map<std::string, int> failures;
  std::map<std::string, double> settings;
  std::string calls;
  bool enabled = false;
  bool started = false;
  uint64_t interval_ns = 0;
  uint64_t (*clock)() = nullptr;
  int hosts = 0;
};

State& state() {
  static State the_state;
  return the_state;
}

double setting(const char* name, double otherwise) {
  const auto found = state().settings.find(name);
  return found == state().settings.end() ? otherwise : found->second;
}

/// Returns whether the sample of this number is the one that a test spoils by `name`.
bool is_at(const char* name, size_t index) {
  return setting(name, -1) == static_cast<double>(index);
}

/// 0 where the call may go on, or what it returns.
template <class Parameters>
int enter(const Parameters* parameters, size_t size) {
  State& now = state();
  const auto wanted = size + static_cast<size_t>(setting("longer_by", 0));
  const bool fits = parameters->size == wanted && parameters->reserved == nullptr;
  now.calls += std::string(Parameters::kFunction) + (fits ? " " : "! ");
  if (!fits) return kInvalid;
  const auto failure = now.failures.find(Parameters::kFunction);
  return failure == now.failures.end() ? 0 : failure->second;
}

bool is_known(const std::string& name) {
  for (const char* known :
       {"sm__cycles_active.", "sm__warps_active.", "sm__pipe_tensor_cycles_active_realtime.",
        "dram__bytes.", "sm__inst_executed_pipe_fma."}) {
    if (name.starts_with(known)) return name.ends_with("avg.pct_of_peak_sustained_elapsed");
  }
  return false;
}

/// The handles by which the host half and a sampling are known.
int the_host = 0;
int the_sampling = 0;
size_t passes_of_host = 0;

}  // namespace

extern "C" {

void cupti_stand_in_reset() {
  state() = State();
}
void cupti_stand_in_fail(const char* function, int code) {
  state().failures[function] = code;
}
void cupti_stand_in_set(const char* what, double value) {
  state().settings[what] = value;
}
const char* cupti_stand_in_calls() {
  return state().calls.c_str();
}

int cuptiGetVersion(uint32_t* version) {
  *version = static_cast<uint32_t>(setting("version", 130001));
  return 0;
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  constexpr const char* kFunction = "cuptiActivityRegisterTimestampCallback";
  state().calls += std::string(kFunction) + " ";
  if (state().failures.contains(kFunction)) return state().failures.at(kFunction);
  state().clock = clock;
  return clock == nullptr ? kInvalid : 0;
}

int cuptiProfilerInitialize(cupti::Initialize* parameters) {
  return enter(parameters, 16);
}
int cuptiProfilerDeInitialize(cupti::Deinitialize* parameters) {
  return enter(parameters, 16);
}

int cuptiProfilerDeviceSupported(cupti::DeviceSupported* parameters) {
  if (const int code = enter(parameters, 52); code != 0) return code;
  if (parameters->api != 3) return kInvalid;
  const auto level = [](const char* name) { return static_cast<int>(setting(name, 3)); };
  parameters->supported = level("support");
  parameters->architecture = level("architecture");
  parameters->virtual_gpu = level("virtual_gpu");
  parameters->confidential_compute = level("confidential_compute");
  parameters->sli = parameters->mining_processor = parameters->windows_subsystem = 3;
  return 0;
}

int cuptiDeviceGetChipName(cupti::GetChipName* parameters) {
  if (const int code = enter(parameters, 32); code != 0) return code;
  parameters->name = setting("empty_chip", 0) != 0 ? nullptr : "GH100";
  return parameters->device == 0 ? 0 : 2;
}

int cuptiPmSamplingGetCounterAvailability(cupti::GetCounterAvailability* parameters) {
  if (const int code = enter(parameters, 40); code != 0) return code;
  if (parameters->image == nullptr) {
    parameters->image_bytes = 3;
  } else {
    std::memcpy(parameters->image, "all", 3);
  }
  return 0;
}

int cuptiProfilerHostInitialize(cupti::HostInitialize* parameters) {
  if (const int code = enter(parameters, 48); code != 0) return code;
  const bool known = std::strcmp(parameters->chip, "GH100") == 0 && parameters->profiler == 1;
  const bool available = std::memcmp(parameters->availability, "all", 3) == 0;
  if (!known || !available) return 46;
  parameters->host = &the_host;
  ++state().hosts;
  return 0;
}
int cuptiProfilerHostDeinitialize(cupti::HostDeinitialize* parameters) {
  if (const int code = enter(parameters, 24); code != 0) return code;
  --state().hosts;
  return parameters->host == &the_host ? 0 : kInvalid;
}

int cuptiProfilerHostConfigAddMetrics(cupti::ConfigAddMetrics* parameters) {
  if (const int code = enter(parameters, 40); code != 0) return code;
  passes_of_host = 1;
  for (size_t i = 0; i < parameters->count; ++i) {
    const std::string name = parameters->names[i];
    if (!is_known(name)) return kNoSuchMetric;
    if (name.find("pipe_fma") != std::string::npos && parameters->count > 1) passes_of_host = 2;
  }
  return 0;
}
int cuptiProfilerHostGetConfigImageSize(cupti::GetConfigImageSize* parameters) {
  if (const int code = enter(parameters, 32); code != 0) return code;
  parameters->image_bytes = 1;
  return 0;
}
int cuptiProfilerHostGetConfigImage(cupti::GetConfigImage* parameters) {
  if (const int code = enter(parameters, 40); code != 0) return code;
  if (parameters->image_bytes != 1) return kInvalid;
  *parameters->image = static_cast<uint8_t>(passes_of_host);
  return 0;
}
int cuptiProfilerHostGetNumOfPasses(cupti::GetNumOfPasses* parameters) {
  if (const int code = enter(parameters, 40); code != 0) return code;
  parameters->passes = *parameters->image;
  return 0;
}

int cuptiPmSamplingEnable(cupti::Enable* parameters) {
  if (const int code = enter(parameters, 32); code != 0) return code;
  if (state().enabled) return kNotNow;
  state().enabled = true;
  parameters->sampling = &the_sampling;
  return parameters->device == 0 ? 0 : 2;
}
int cuptiPmSamplingSetConfig(cupti::SetConfig* parameters) {
  if (const int code = enter(parameters, 64); code != 0) return code;
  if (!state().enabled || *parameters->image != 1) return 27;
  if (parameters->append != 0) return kInvalid;  // the newest would overwrite the oldest
  if (parameters->trigger == 1 && setting("clock_only", 0) != 0) return 27;
  state().interval_ns = parameters->interval;
  return 0;
}
int cuptiPmSamplingGetCounterDataSize(cupti::GetCounterDataSize* parameters) {
  if (const int code = enter(parameters, 56); code != 0) return code;
  parameters->data_bytes = 16;
  return 0;
}
int cuptiPmSamplingCounterDataImageInitialize(cupti::CounterDataInitialize* parameters) {
  if (const int code = enter(parameters, 40); code != 0) return code;
  return parameters->data_bytes == 16 ? 0 : kInvalid;
}
int cuptiPmSamplingStart(cupti::Start* parameters) {
  if (const int code = enter(parameters, 24); code != 0) return code;
  if (!state().enabled || state().interval_ns == 0) return kNotNow;
  state().started = true;
  return 0;
}
int cuptiPmSamplingStop(cupti::Stop* parameters) {
  if (const int code = enter(parameters, 24); code != 0) return code;
  if (!state().started) return kNotNow;
  state().started = false;
  return 0;
}
int cuptiPmSamplingDisable(cupti::Disable* parameters) {
  if (const int code = enter(parameters, 24); code != 0) return code;
  state().enabled = false;
  return parameters->sampling == &the_sampling ? 0 : kInvalid;
}

int cuptiPmSamplingDecodeData(cupti::DecodeData* parameters) {
  if (const int code = enter(parameters, 45); code != 0) return code;
  if (state().started) return kNotNow;
  parameters->stop_reason = static_cast<int>(setting("stop_reason", 2));
  parameters->overflow = static_cast<uint8_t>(setting("overflow", 0));
  return 0;
}
int cuptiPmSamplingGetCounterDataInfo(cupti::GetCounterDataInfo* parameters) {
  if (const int code = enter(parameters, 56); code != 0) return code;
  parameters->completed = static_cast<size_t>(setting("samples", 101));
  parameters->populated = parameters->completed + 1;  // one was not done when sampling stopped
  parameters->total = 4096;
  return 0;
}
int cuptiPmSamplingCounterDataGetSampleInfo(cupti::GetSampleInfo* parameters) {
  if (const int code = enter(parameters, 64); code != 0) return code;
  const double ticks_per_ns = state().clock == nullptr ? setting("ticks_per_ns", 1) : 1;
  const double interval_ns = setting("interval_ns", static_cast<double>(state().interval_ns));
  const auto each_ns = static_cast<uint64_t>(interval_ns * ticks_per_ns);
  constexpr uint64_t kBegin_ns = 1'700'000'000'000'000'000;
  const size_t i = parameters->index;
  parameters->begin_ns = i == 0 ? 0 : kBegin_ns + i * each_ns;  // the first counts from anywhere
  parameters->end_ns = kBegin_ns + (i + 1) * each_ns;
  if (is_at("overlap_at", i)) parameters->begin_ns -= each_ns / 2;
  return 0;
}

/// Metric m of a window: 10 (m + 1) percent, and one more in every second sample.
int cuptiProfilerHostEvaluateToGpuValues(cupti::Evaluate* parameters) {
  if (const int code = enter(parameters, 72); code != 0) return code;
  const size_t i = parameters->index;
  for (size_t m = 0; m < parameters->count; ++m) {
    parameters->values[m] = 10.0 * static_cast<double>(m + 1) + static_cast<double>(i % 2);
    if (i == 0) parameters->values[m] = 4711;
    if (is_at("nan_at", i)) parameters->values[m] = std::nan("");
    if (is_at("percent_at", i)) parameters->values[m] = 250;
  }
  return 0;
}

}  // extern "C"
