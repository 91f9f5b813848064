#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/environment/system.h"

/// The structures for those functions of NVIDIA's profiling library (CUPTI) that sample a GPU's
/// counters. Mirrors cupti_pmsampling.h, cupti_profiler_host.h, cupti_profiler_target.h and
/// cupti_target.h, so that builds without CUDA's toolkit have them too;
/// tests/suite/environment/cupti_layout.cu compares them with the toolkit's. The library is told
/// the size of each, and refuses one that it does not know.
namespace noisemark::suite::cupti {

inline constexpr int kApiPmSampling = 3;       // CUpti_Profiler_API
inline constexpr int kProfilerPmSampling = 1;  // CUpti_ProfilerType
inline constexpr int kTriggerClock = 0;        // CUpti_PmSampling_TriggerMode
inline constexpr int kTriggerTime = 1;         // CUpti_PmSampling_TriggerMode
inline constexpr int kKeepOldest = 0;          // CUpti_PmSampling_HardwareBuffer_AppendMode
inline constexpr int kStopImageFull = 1;       // CUpti_PmSampling_DecodeStopReason
inline constexpr int kStopEnd = 2;             // CUpti_PmSampling_DecodeStopReason
inline constexpr int kSupportUnknown = 0;      // CUpti_Profiler_Support_Level
inline constexpr int kSupportDisabled = 2;     // CUpti_Profiler_Support_Level
inline constexpr int kSupported = 3;           // CUpti_Profiler_Support_Level

// The first two members of each: its size, and nothing.

struct Initialize {
  static constexpr const char* kFunction = "cuptiProfilerInitialize";
  size_t size = 0;
  void* reserved = nullptr;
};

struct Deinitialize {
  static constexpr const char* kFunction = "cuptiProfilerDeInitialize";
  size_t size = 0;
  void* reserved = nullptr;
};

struct DeviceSupported {
  static constexpr const char* kFunction = "cuptiProfilerDeviceSupported";
  size_t size = 0;
  void* reserved = nullptr;
  int device = 0;
  int supported = 0;
  int architecture = 0;
  int sli = 0;
  int virtual_gpu = 0;
  int confidential_compute = 0;
  int mining_processor = 0;
  int windows_subsystem = 0;
  int api = 0;
};

struct GetChipName {
  static constexpr const char* kFunction = "cuptiDeviceGetChipName";
  size_t size = 0;
  void* reserved = nullptr;
  size_t device = 0;
  const char* name = nullptr;
};

struct GetCounterAvailability {
  static constexpr const char* kFunction = "cuptiPmSamplingGetCounterAvailability";
  size_t size = 0;
  void* reserved = nullptr;
  size_t device = 0;
  size_t image_bytes = 0;
  uint8_t* image = nullptr;
};

struct HostInitialize {
  static constexpr const char* kFunction = "cuptiProfilerHostInitialize";
  size_t size = 0;
  void* reserved = nullptr;
  int profiler = 0;
  const char* chip = nullptr;
  const uint8_t* availability = nullptr;
  void* host = nullptr;
};

struct HostDeinitialize {
  static constexpr const char* kFunction = "cuptiProfilerHostDeinitialize";
  size_t size = 0;
  void* reserved = nullptr;
  void* host = nullptr;
};

struct ConfigAddMetrics {
  static constexpr const char* kFunction = "cuptiProfilerHostConfigAddMetrics";
  size_t size = 0;
  void* reserved = nullptr;
  void* host = nullptr;
  const char** names = nullptr;
  size_t count = 0;
};

struct GetConfigImageSize {
  static constexpr const char* kFunction = "cuptiProfilerHostGetConfigImageSize";
  size_t size = 0;
  void* reserved = nullptr;
  void* host = nullptr;
  size_t image_bytes = 0;
};

struct GetConfigImage {
  static constexpr const char* kFunction = "cuptiProfilerHostGetConfigImage";
  size_t size = 0;
  void* reserved = nullptr;
  void* host = nullptr;
  size_t image_bytes = 0;
  uint8_t* image = nullptr;
};

struct GetNumOfPasses {
  static constexpr const char* kFunction = "cuptiProfilerHostGetNumOfPasses";
  size_t size = 0;
  void* reserved = nullptr;
  size_t image_bytes = 0;
  uint8_t* image = nullptr;
  size_t passes = 0;
};

struct Evaluate {
  static constexpr const char* kFunction = "cuptiProfilerHostEvaluateToGpuValues";
  size_t size = 0;
  void* reserved = nullptr;
  void* host = nullptr;
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t index = 0;
  const char** names = nullptr;
  size_t count = 0;
  double* values = nullptr;
};

struct Enable {
  static constexpr const char* kFunction = "cuptiPmSamplingEnable";
  size_t size = 0;
  void* reserved = nullptr;
  size_t device = 0;
  void* sampling = nullptr;
};

struct SetConfig {
  static constexpr const char* kFunction = "cuptiPmSamplingSetConfig";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
  size_t image_bytes = 0;
  const uint8_t* image = nullptr;
  size_t buffer_bytes = 0;
  uint64_t interval = 0;  ///< the trigger decides whether it is in nanoseconds or in clocks
  int trigger = 0;
  int append = 0;
};

struct GetCounterDataSize {
  static constexpr const char* kFunction = "cuptiPmSamplingGetCounterDataSize";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
  const char** names = nullptr;
  size_t count = 0;
  uint32_t most_samples = 0;
  size_t data_bytes = 0;
};

struct CounterDataInitialize {
  static constexpr const char* kFunction = "cuptiPmSamplingCounterDataImageInitialize";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
  size_t data_bytes = 0;
  uint8_t* data = nullptr;
};

struct Start {
  static constexpr const char* kFunction = "cuptiPmSamplingStart";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
};

struct Stop {
  static constexpr const char* kFunction = "cuptiPmSamplingStop";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
};

struct Disable {
  static constexpr const char* kFunction = "cuptiPmSamplingDisable";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
};

struct DecodeData {
  static constexpr const char* kFunction = "cuptiPmSamplingDecodeData";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
  uint8_t* data = nullptr;
  size_t data_bytes = 0;
  int stop_reason = 0;
  uint8_t overflow = 0;
};

struct GetCounterDataInfo {
  static constexpr const char* kFunction = "cuptiPmSamplingGetCounterDataInfo";
  size_t size = 0;
  void* reserved = nullptr;
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t total = 0;
  size_t populated = 0;
  size_t completed = 0;
};

struct GetSampleInfo {
  static constexpr const char* kFunction = "cuptiPmSamplingCounterDataGetSampleInfo";
  size_t size = 0;
  void* reserved = nullptr;
  void* sampling = nullptr;
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t index = 0;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

/// The size that the library must be told: up to the last member, without what pads the end.
template <class Parameters>
inline constexpr size_t kUsedBytes = sizeof(Parameters);
template <>
inline constexpr size_t kUsedBytes<DeviceSupported> = offsetof(DeviceSupported, api) +
                                                      sizeof(DeviceSupported::api);
template <>
inline constexpr size_t kUsedBytes<DecodeData> = offsetof(DecodeData, overflow) +
                                                 sizeof(DecodeData::overflow);

}  // namespace noisemark::suite::cupti

/// NVIDIA's profiling library (CUPTI), opened at run time. LibTorch's profiler uses the same one.
namespace noisemark::suite {

/// Puts a CUptiResult in words: "no permission ..."; "CUPTI error 4711" for one without.
[[nodiscard]] std::string cupti_error(int code);

/// The CUptiResult for samples that the hardware's buffer could not hold and that are lost.
inline constexpr int kCuptiOutOfMemory = 8;

/// The newest that is there, of those that this program knows.
[[nodiscard]] const char* cupti_library();

class Cupti {
 public:
  explicit Cupti(const char* library = cupti_library());

  /// Says why it cannot be asked: not installed, or older than what is asked of it. It is empty
  /// where it can.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  /// Calls the function of `parameters`, whose size is filled in; returns nothing without such a
  /// function.
  template <class Parameters>
  [[nodiscard]] std::optional<int> ask(Parameters& parameters) const {
    if (!why_not_.empty()) return std::nullopt;
    parameters.size = cupti::kUsedBytes<Parameters>;
    return library_.result(Parameters::kFunction, &parameters);
  }

  /// Makes times the system's from now on, in nanoseconds. LibTorch's profiler leaves a clock of
  /// its own behind, which counts in other units, and sets it again when it profiles again.
  void use_system_time() const;

 private:
  SharedLibrary library_;
  std::string why_not_;
};

/// "cuptiPmSamplingEnable: no permission ...", of what Cupti::ask() returned.
[[nodiscard]] std::string cupti_refusal(std::string_view function, std::optional<int> code);

/// Asks the library about one GPU, for sampling its counters. Needs a driver in which CUDA has
/// been started: without one the library itself crashes.
class CuptiDevice {
 public:
  /// `ordinal` counts as CUDA counts. `cupti` must outlive it.
  CuptiDevice(const Cupti& cupti, int ordinal);
  ~CuptiDevice();
  CuptiDevice(const CuptiDevice&) = delete;
  CuptiDevice& operator=(const CuptiDevice&) = delete;

  /// Says why its counters cannot be sampled, in the library's words; empty where they may be.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] size_t ordinal() const { return ordinal_; }
  [[nodiscard]] const std::string& chip() const { return chip_; }  ///< "GH100"
  /// Tells which counters this user may read, for the library's other half.
  [[nodiscard]] const std::vector<uint8_t>& availability() const { return availability_; }

 private:
  [[nodiscard]] std::string ask_all();
  [[nodiscard]] std::string ask_availability();

  const Cupti& cupti_;
  size_t ordinal_;
  bool initialised_ = false;
  std::string chip_;
  std::vector<uint8_t> availability_;
  std::string why_not_;
};

}  // namespace noisemark::suite
