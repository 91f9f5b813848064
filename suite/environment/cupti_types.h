#pragma once

#include <cstddef>
#include <cstdint>

/// What the functions of NVIDIA's profiling library (CUPTI) are given that sample a GPU's counters.
/// Mirrors cupti_pmsampling.h, cupti_profiler_host.h, cupti_profiler_target.h and cupti_target.h,
/// so that builds without CUDA's toolkit have them too; tests/suite/environment/cupti_layout.cu
/// compares them with the toolkit's. The library is told the size of each, and refuses one that it
/// does not know.
namespace noisemark::suite::cupti {

inline constexpr int kApiPmSampling = 3;       // of CUpti_Profiler_API
inline constexpr int kProfilerPmSampling = 1;  // of CUpti_ProfilerType
inline constexpr int kTriggerClock = 0;        // of CUpti_PmSampling_TriggerMode
inline constexpr int kTriggerTime = 1;         // of CUpti_PmSampling_TriggerMode
inline constexpr int kKeepOldest = 0;          // of CUpti_PmSampling_HardwareBuffer_AppendMode
inline constexpr int kStopImageFull = 1;       // of CUpti_PmSampling_DecodeStopReason
inline constexpr int kStopEnd = 2;             // of CUpti_PmSampling_DecodeStopReason
inline constexpr int kSupportUnknown = 0;      // of CUpti_Profiler_Support_Level
inline constexpr int kSupportDisabled = 2;     // of CUpti_Profiler_Support_Level
inline constexpr int kSupported = 3;           // of CUpti_Profiler_Support_Level

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
  uint64_t interval = 0;  ///< in nanoseconds or in clocks, by the trigger
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

/// What the library must be told as the size: up to the last member, without what pads the end.
template <class Parameters>
inline constexpr size_t kUsedBytes = sizeof(Parameters);
template <>
inline constexpr size_t kUsedBytes<DeviceSupported> = offsetof(DeviceSupported, api) +
                                                      sizeof(DeviceSupported::api);
template <>
inline constexpr size_t kUsedBytes<DecodeData> = offsetof(DecodeData, overflow) +
                                                 sizeof(DecodeData::overflow);

}  // namespace noisemark::suite::cupti
