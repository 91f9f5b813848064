// A stand-in for libnvidia-ml.so.1: one GPU, of which some figures are not to be had. Signatures
// are those of NVML's reference manual.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "tests/suite/environment/driver/nvml_stand_in.h"

namespace {

using Device = void*;

constexpr int kNotSupported = 3;
int initialised = 0;
int the_device = 0;
int the_part = 0;
bool divided = false;
int taken = 0;  // samples
constexpr unsigned kInstance = 3;
std::map<std::string, int>& failures() {
  static std::map<std::string, int> the_failures;
  return the_failures;
}

/// The code that a test gave to `function`; 0: none.
int failure_of(const char* function) {
  const auto found = failures().find(function);
  return found == failures().end() ? 0 : found->second;
}

int number(Device device, unsigned* value, unsigned answer) {
  if (initialised == 0 || device != &the_device) return 1;
  *value = answer;
  return 0;
}

int text(Device device, char* buffer, unsigned size, const char* answer) {
  if (initialised == 0 || device != &the_device) return 1;
  std::snprintf(buffer, size, "%s", answer);
  return 0;
}

}  // namespace

extern "C" {

void nvml_stand_in_reset() {
  divided = false;
  failures().clear();
}
void nvml_stand_in_divide() {
  divided = true;
}
void nvml_stand_in_fail(const char* function, int code) {
  failures()[function] = code;
}

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

int nvmlInit_v2() {
  ++initialised;
  return 0;
}
int nvmlShutdown() {
  --initialised;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) {
  *device = &the_device;
  return std::strcmp(bus_id, "0000:40:00.0") == 0 ? 0 : 1;
}
int nvmlSystemGetDriverVersion(char* buffer, unsigned size) {
  std::snprintf(buffer, size, "580.65.06");
  return 0;
}
int nvmlDeviceGetUUID(Device device, char* buffer, unsigned size) {
  return text(device, buffer, size, "GPU-00000000-1111-2222-3333-444444444444");
}
int nvmlDeviceGetVbiosVersion(Device device, char* buffer, unsigned size) {
  return text(device, buffer, size, "96.00.74.00.01");
}
int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  *pending = 1;
  return number(device, current, divided ? 1 : 0);
}
int nvmlDeviceGetEccMode(Device device, unsigned* current, unsigned* pending) {
  *pending = 0;
  return number(device, current, 1);
}
int nvmlDeviceGetApplicationsClock(Device device, int clock, unsigned* value) {
  return number(device, value, clock == 1 ? 1410 : 2619);
}
int nvmlDeviceGetDefaultApplicationsClock(Device device, int /*clock*/, unsigned* value) {
  return number(device, value, 1980);
}
int nvmlDeviceGetMaxClockInfo(Device device, int clock, unsigned* value) {
  return number(device, value, clock == 1 ? 1980 : 2619);
}
int nvmlDeviceGetClockInfo(Device device, int clock, unsigned* value) {
  return number(device, value, clock == 1 ? 345 : 2619);
}
int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* value) {
  return number(device, value, 700000);
}
int nvmlDeviceGetPowerUsage(Device device, unsigned* value) {
  return number(device, value, 71234);
}
int nvmlDeviceGetPersistenceMode(Device device, unsigned* value) {
  return number(device, value, 1);
}
int nvmlDeviceGetPerformanceState(Device device, unsigned* value) {
  return number(device, value, 0);
}
int nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* value) {
  return number(device, value, 5);
}
// Drivers answer so for what a GPU has not got.
int nvmlDeviceGetCurrPcieLinkWidth(Device /*device*/, unsigned* /*value*/) {
  return kNotSupported;
}
int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* value) {
  *value = 5'000'000'000'123ULL;  // more than 32 bits hold
  return device == &the_device ? 0 : 1;
}
int nvmlDeviceGetTemperature(Device device, int sensor, unsigned* value) {
  return sensor == 0 ? number(device, value, 31) : kNotSupported;
}
// A driver before 535 has no nvmlDeviceGetCurrentClocksEventReasons.
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* mask) {
  *mask = 0x1;
  return device == &the_device ? 0 : 1;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device /*device*/, unsigned* count, Process* infos) {
  if (*count < 2) return 7;
  constexpr unsigned kNone = 0xFFFFFFFF;
  infos[0] = {static_cast<unsigned>(getpid()), 3ULL << 30, divided ? kInstance : kNone, 0};
  infos[1] = {1, 1, divided ? kInstance + 1 : kNone, 0};
  *count = 2;
  return 0;
}

int nvmlDeviceGetComputeMode(Device device, unsigned* value) {
  return number(device, value, 3);
}

// The part of a divided GPU that CUDA names is its instance 3.
int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  *device = &the_part;
  const bool is_part = std::strcmp(uuid, "MIG-00112233-4455-6677-8899-aabbccddeeff") == 0;
  return is_part ? failure_of("nvmlDeviceGetHandleByUUID") : 6;
}
int nvmlDeviceGetGpuInstanceId(Device part, unsigned* instance) {
  *instance = kInstance;
  return part == &the_part ? failure_of("nvmlDeviceGetGpuInstanceId") : 2;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device part, Device* device) {
  *device = &the_device;
  return part == &the_part ? failure_of("nvmlDeviceGetDeviceHandleFromMigDeviceHandle") : 2;
}

// GPM: samples are numbered in the order in which they were taken.
struct GpmSupport {
  unsigned version;
  unsigned is_supported;
};
struct GpmMetric {
  unsigned id;
  int code;
  double value;
  char* names[3];
};
struct GpmMetricsGet {
  unsigned version;
  unsigned count;
  int* samples[2];
  GpmMetric metrics[333];  // some driver knows as many, and a caller may have room for more
};

int nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  if (support->version != 1) return 25;
  return number(device, &support->is_supported, 1);
}
int nvmlGpmSampleAlloc(int** sample) {
  *sample = new int(0);
  return 0;
}
int nvmlGpmSampleFree(int* sample) {
  delete sample;
  return 0;
}
int nvmlGpmSampleGet(Device device, int* sample) {
  if (divided) return kNotSupported;
  *sample = ++taken;
  return device == &the_device ? 0 : 1;
}
int nvmlGpmMigSampleGet(Device device, unsigned instance, int* sample) {
  if (const int code = failure_of("nvmlGpmMigSampleGet"); code != 0) return code;
  *sample = ++taken;
  return device == &the_device && instance == kInstance ? 0 : 2;
}
int nvmlGpmMetricsGet(GpmMetricsGet* get) {
  if (get->version != 1 || get->count > 333) return 25;
  if (*get->samples[0] >= *get->samples[1]) return 2;
  for (unsigned i = 0; i < get->count; ++i) {
    GpmMetric& metric = get->metrics[i];
    const bool only_of_whole = divided && metric.id == 1;
    metric.code = metric.id == 13 || only_of_whole ? kNotSupported : 0;
    metric.value = metric.id == 12 ? 250.0 : 10.0 + metric.id;  // 250 %: a faulty counter
  }
  return 0;
}

}  // extern "C"
