// Nothing runs: what CUPTI is given must be laid out as in the toolkit's headers.
#include <cuda.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

#include "suite/environment/cupti.h"

namespace noisemark::suite::cupti {
namespace {

#define NOISEMARK_SAME(OURS, THEIRS)                                                        \
  static_assert(kUsedBytes<OURS> == THEIRS##_STRUCT_SIZE && sizeof(OURS) == sizeof(THEIRS), \
                "the size of " #THEIRS)
#define NOISEMARK_AT(OURS, MEMBER, THEIRS, NAME)                    \
  static_assert(offsetof(OURS, MEMBER) == offsetof(THEIRS, NAME) && \
                    sizeof(OURS::MEMBER) == sizeof(THEIRS::NAME),   \
                #THEIRS "::" #NAME)

NOISEMARK_SAME(Initialize, CUpti_Profiler_Initialize_Params);
NOISEMARK_SAME(Deinitialize, CUpti_Profiler_DeInitialize_Params);

NOISEMARK_SAME(DeviceSupported, CUpti_Profiler_DeviceSupported_Params);
NOISEMARK_AT(DeviceSupported, device, CUpti_Profiler_DeviceSupported_Params, cuDevice);
NOISEMARK_AT(DeviceSupported, supported, CUpti_Profiler_DeviceSupported_Params, isSupported);
NOISEMARK_AT(DeviceSupported, architecture, CUpti_Profiler_DeviceSupported_Params, architecture);
NOISEMARK_AT(DeviceSupported, sli, CUpti_Profiler_DeviceSupported_Params, sli);
NOISEMARK_AT(DeviceSupported, virtual_gpu, CUpti_Profiler_DeviceSupported_Params, vGpu);
NOISEMARK_AT(DeviceSupported, confidential_compute, CUpti_Profiler_DeviceSupported_Params,
             confidentialCompute);
NOISEMARK_AT(DeviceSupported, mining_processor, CUpti_Profiler_DeviceSupported_Params, cmp);
NOISEMARK_AT(DeviceSupported, windows_subsystem, CUpti_Profiler_DeviceSupported_Params, wsl);
NOISEMARK_AT(DeviceSupported, api, CUpti_Profiler_DeviceSupported_Params, api);

NOISEMARK_SAME(GetChipName, CUpti_Device_GetChipName_Params);
NOISEMARK_AT(GetChipName, device, CUpti_Device_GetChipName_Params, deviceIndex);
NOISEMARK_AT(GetChipName, name, CUpti_Device_GetChipName_Params, pChipName);

using Availability = CUpti_PmSampling_GetCounterAvailability_Params;
NOISEMARK_SAME(GetCounterAvailability, CUpti_PmSampling_GetCounterAvailability_Params);
NOISEMARK_AT(GetCounterAvailability, device, Availability, deviceIndex);
NOISEMARK_AT(GetCounterAvailability, image_bytes, Availability, counterAvailabilityImageSize);
NOISEMARK_AT(GetCounterAvailability, image, Availability, pCounterAvailabilityImage);

using Host = CUpti_Profiler_Host_Initialize_Params;
NOISEMARK_SAME(HostInitialize, CUpti_Profiler_Host_Initialize_Params);
NOISEMARK_AT(HostInitialize, profiler, Host, profilerType);
NOISEMARK_AT(HostInitialize, chip, Host, pChipName);
NOISEMARK_AT(HostInitialize, availability, Host, pCounterAvailabilityImage);
NOISEMARK_AT(HostInitialize, host, Host, pHostObject);
NOISEMARK_SAME(HostDeinitialize, CUpti_Profiler_Host_Deinitialize_Params);
NOISEMARK_AT(HostDeinitialize, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);

using AddMetrics = CUpti_Profiler_Host_ConfigAddMetrics_Params;
NOISEMARK_SAME(ConfigAddMetrics, CUpti_Profiler_Host_ConfigAddMetrics_Params);
NOISEMARK_AT(ConfigAddMetrics, host, AddMetrics, pHostObject);
NOISEMARK_AT(ConfigAddMetrics, names, AddMetrics, ppMetricNames);
NOISEMARK_AT(ConfigAddMetrics, count, AddMetrics, numMetrics);

using ImageSize = CUpti_Profiler_Host_GetConfigImageSize_Params;
NOISEMARK_SAME(GetConfigImageSize, CUpti_Profiler_Host_GetConfigImageSize_Params);
NOISEMARK_AT(GetConfigImageSize, host, ImageSize, pHostObject);
NOISEMARK_AT(GetConfigImageSize, image_bytes, ImageSize, configImageSize);

using Image = CUpti_Profiler_Host_GetConfigImage_Params;
NOISEMARK_SAME(GetConfigImage, CUpti_Profiler_Host_GetConfigImage_Params);
NOISEMARK_AT(GetConfigImage, host, Image, pHostObject);
NOISEMARK_AT(GetConfigImage, image_bytes, Image, configImageSize);
NOISEMARK_AT(GetConfigImage, image, Image, pConfigImage);

using Passes = CUpti_Profiler_Host_GetNumOfPasses_Params;
NOISEMARK_SAME(GetNumOfPasses, CUpti_Profiler_Host_GetNumOfPasses_Params);
NOISEMARK_AT(GetNumOfPasses, image_bytes, Passes, configImageSize);
NOISEMARK_AT(GetNumOfPasses, image, Passes, pConfigImage);
NOISEMARK_AT(GetNumOfPasses, passes, Passes, numOfPasses);

using Values = CUpti_Profiler_Host_EvaluateToGpuValues_Params;
NOISEMARK_SAME(Evaluate, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
NOISEMARK_AT(Evaluate, host, Values, pHostObject);
NOISEMARK_AT(Evaluate, data, Values, pCounterDataImage);
NOISEMARK_AT(Evaluate, data_bytes, Values, counterDataImageSize);
NOISEMARK_AT(Evaluate, index, Values, rangeIndex);
NOISEMARK_AT(Evaluate, names, Values, ppMetricNames);
NOISEMARK_AT(Evaluate, count, Values, numMetrics);
NOISEMARK_AT(Evaluate, values, Values, pMetricValues);

NOISEMARK_SAME(Enable, CUpti_PmSampling_Enable_Params);
NOISEMARK_AT(Enable, device, CUpti_PmSampling_Enable_Params, deviceIndex);
NOISEMARK_AT(Enable, sampling, CUpti_PmSampling_Enable_Params, pPmSamplingObject);

using Config = CUpti_PmSampling_SetConfig_Params;
NOISEMARK_SAME(SetConfig, CUpti_PmSampling_SetConfig_Params);
NOISEMARK_AT(SetConfig, sampling, Config, pPmSamplingObject);
NOISEMARK_AT(SetConfig, image_bytes, Config, configSize);
NOISEMARK_AT(SetConfig, image, Config, pConfig);
NOISEMARK_AT(SetConfig, buffer_bytes, Config, hardwareBufferSize);
NOISEMARK_AT(SetConfig, interval, Config, samplingInterval);
NOISEMARK_AT(SetConfig, trigger, Config, triggerMode);
NOISEMARK_AT(SetConfig, append, Config, hwBufferAppendMode);

using DataSize = CUpti_PmSampling_GetCounterDataSize_Params;
NOISEMARK_SAME(GetCounterDataSize, CUpti_PmSampling_GetCounterDataSize_Params);
NOISEMARK_AT(GetCounterDataSize, sampling, DataSize, pPmSamplingObject);
NOISEMARK_AT(GetCounterDataSize, names, DataSize, pMetricNames);
NOISEMARK_AT(GetCounterDataSize, count, DataSize, numMetrics);
NOISEMARK_AT(GetCounterDataSize, most_samples, DataSize, maxSamples);
NOISEMARK_AT(GetCounterDataSize, data_bytes, DataSize, counterDataSize);

using DataInitialize = CUpti_PmSampling_CounterDataImage_Initialize_Params;
NOISEMARK_SAME(CounterDataInitialize, CUpti_PmSampling_CounterDataImage_Initialize_Params);
NOISEMARK_AT(CounterDataInitialize, sampling, DataInitialize, pPmSamplingObject);
NOISEMARK_AT(CounterDataInitialize, data_bytes, DataInitialize, counterDataSize);
NOISEMARK_AT(CounterDataInitialize, data, DataInitialize, pCounterData);

NOISEMARK_SAME(Start, CUpti_PmSampling_Start_Params);
NOISEMARK_AT(Start, sampling, CUpti_PmSampling_Start_Params, pPmSamplingObject);
NOISEMARK_SAME(Stop, CUpti_PmSampling_Stop_Params);
NOISEMARK_AT(Stop, sampling, CUpti_PmSampling_Stop_Params, pPmSamplingObject);
NOISEMARK_SAME(Disable, CUpti_PmSampling_Disable_Params);
NOISEMARK_AT(Disable, sampling, CUpti_PmSampling_Disable_Params, pPmSamplingObject);

using Decode = CUpti_PmSampling_DecodeData_Params;
NOISEMARK_SAME(DecodeData, CUpti_PmSampling_DecodeData_Params);
NOISEMARK_AT(DecodeData, sampling, Decode, pPmSamplingObject);
NOISEMARK_AT(DecodeData, data, Decode, pCounterDataImage);
NOISEMARK_AT(DecodeData, data_bytes, Decode, counterDataImageSize);
NOISEMARK_AT(DecodeData, stop_reason, Decode, decodeStopReason);
NOISEMARK_AT(DecodeData, overflow, Decode, overflow);

using Info = CUpti_PmSampling_GetCounterDataInfo_Params;
NOISEMARK_SAME(GetCounterDataInfo, CUpti_PmSampling_GetCounterDataInfo_Params);
NOISEMARK_AT(GetCounterDataInfo, data, Info, pCounterDataImage);
NOISEMARK_AT(GetCounterDataInfo, data_bytes, Info, counterDataImageSize);
NOISEMARK_AT(GetCounterDataInfo, total, Info, numTotalSamples);
NOISEMARK_AT(GetCounterDataInfo, populated, Info, numPopulatedSamples);
NOISEMARK_AT(GetCounterDataInfo, completed, Info, numCompletedSamples);

using SampleInfo = CUpti_PmSampling_CounterData_GetSampleInfo_Params;
NOISEMARK_SAME(GetSampleInfo, CUpti_PmSampling_CounterData_GetSampleInfo_Params);
NOISEMARK_AT(GetSampleInfo, sampling, SampleInfo, pPmSamplingObject);
NOISEMARK_AT(GetSampleInfo, data, SampleInfo, pCounterDataImage);
NOISEMARK_AT(GetSampleInfo, data_bytes, SampleInfo, counterDataImageSize);
NOISEMARK_AT(GetSampleInfo, index, SampleInfo, sampleIndex);
NOISEMARK_AT(GetSampleInfo, begin_ns, SampleInfo, startTimestamp);
NOISEMARK_AT(GetSampleInfo, end_ns, SampleInfo, endTimestamp);

static_assert(kApiPmSampling == CUPTI_PROFILER_PM_SAMPLING, "CUpti_Profiler_API");
static_assert(kProfilerPmSampling == CUPTI_PROFILER_TYPE_PM_SAMPLING, "CUpti_ProfilerType");
static_assert(kTriggerClock == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL &&
                  kTriggerTime == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL,
              "CUpti_PmSampling_TriggerMode");
static_assert(kKeepOldest == CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST,
              "CUpti_PmSampling_HardwareBuffer_AppendMode");
static_assert(kStopImageFull == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL &&
                  kStopEnd == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS,
              "CUpti_PmSampling_DecodeStopReason");
static_assert(kSupportUnknown == CUPTI_PROFILER_CONFIGURATION_UNKNOWN &&
                  kSupportDisabled == CUPTI_PROFILER_CONFIGURATION_DISABLED &&
                  kSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED,
              "CUpti_Profiler_Support_Level");

}  // namespace
}  // namespace noisemark::suite::cupti
