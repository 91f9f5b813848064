#include "suite/environment/cupti.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <chrono>

namespace noisemark::suite {
namespace {

constexpr uint32_t kOldestVersion = 24;  // version of CUDA 12.6, the first with PM sampling

constexpr std::array kCuptiErrors{
    ErrorName{1, "not accepted by this CUPTI, whose structures may have other sizes"},
    ErrorName{2, "no such device"},
    ErrorName{3, "no CUDA context"},
    ErrorName{7, "not possible now: something else may sample the GPU"},
    ErrorName{kCuptiOutOfMemory, "out of memory"},
    ErrorName{9, "the hardware failed"},
    ErrorName{11, "not implemented"},
    ErrorName{14, "the driver is of another version than CUPTI needs"},
    ErrorName{15, "CUPTI is not initialised"},
    ErrorName{17, "no such counter"},
    ErrorName{26, "another profiler holds the counters"},
    ErrorName{27, "not supported by this GPU or driver"},
    ErrorName{33, "not supported on a virtual GPU"},
    ErrorName{35, "no permission: the driver lets only root read counters"},
    ErrorName{36, "an older profiler interface is in use in this process"},
    ErrorName{38, "not supported by this interface on this GPU"},
    ErrorName{39, "another profiler is in this process"},
    ErrorName{40, "no permission on this virtual GPU: its host must allow profiling"},
    ErrorName{41, "not supported with confidential computing"},
    ErrorName{42, "not supported on a mining processor"},
    ErrorName{43, "not supported on a part of a divided GPU (MIG)"},
    ErrorName{44, "not supported on joined GPUs (SLI)"},
    ErrorName{45, "not supported in Windows' subsystem for Linux"},
    ErrorName{46, "the GPU is newer than CUPTI"},
    ErrorName{999, "unknown error, as without a driver"}};

struct Obstacle {
  int cupti::DeviceSupported::*level;
  std::string_view words;
};
constexpr std::array kObstacles{
    Obstacle{&cupti::DeviceSupported::architecture, "GPUs of this architecture"},
    Obstacle{&cupti::DeviceSupported::virtual_gpu, "this virtual GPU"},
    Obstacle{&cupti::DeviceSupported::confidential_compute, "confidential computing"},
    Obstacle{&cupti::DeviceSupported::windows_subsystem, "Windows' subsystem for Linux"},
    Obstacle{&cupti::DeviceSupported::mining_processor, "a mining processor"},
    Obstacle{&cupti::DeviceSupported::sli, "joined GPUs (SLI)"}};

std::string what_stands_against(const cupti::DeviceSupported& answer) {
  for (const Obstacle& obstacle : kObstacles) {
    const int level = answer.*obstacle.level;
    if (level == cupti::kSupportUnknown || level == cupti::kSupported) continue;
    return fmt::format("CUPTI: not {} with {}",
                       level == cupti::kSupportDisabled ? "allowed" : "supported", obstacle.words);
  }
  return "CUPTI: not supported by this GPU or driver";
}

uint64_t system_time_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

}  // namespace

std::string cupti_error(int code) {
  for (const ErrorName& error : kCuptiErrors) {
    if (error.code == code) return std::string(error.words);
  }
  return fmt::format("CUPTI error {}", code);
}

std::string cupti_refusal(std::string_view function, std::optional<int> code) {
  return code ? fmt::format("{}: {}", function, cupti_error(*code))
              : fmt::format("{}: the library does not have it", function);
}

bool is_in_process(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

const char* cupti_library() {
  constexpr std::array kNames{"libcupti.so.13", "libcupti.so.12"};
  // The process mostly holds one already, because LibTorch does; two would be in each other's way.
  for (const char* name : kNames) {
    if (is_in_process(name)) return name;
  }
  for (const char* name : kNames) {
    if (SharedLibrary(name).loaded()) return name;
  }
  return kNames.front();
}

Cupti::Cupti(const char* library) : library_(library) {
  uint32_t version = 0;
  if (!library_.loaded()) {
    why_not_ = fmt::format("{} cannot be loaded", library);
  } else if (!library_.call("cuptiGetVersion", &version)) {
    why_not_ = "CUPTI does not say its version";
  } else if (version < kOldestVersion) {
    why_not_ = fmt::format("CUPTI is too old: its interface is {}, sampling needs {} (CUDA 12.6)",
                           version, kOldestVersion);
  }
}

void Cupti::use_system_time() const {
  // If it is refused, the samples' times do not fit their window, which is found then.
  (void)library_.result("cuptiActivityRegisterTimestampCallback", &system_time_ns);
}

CuptiDevice::CuptiDevice(const Cupti& cupti, int ordinal)
    : cupti_(cupti), ordinal_(static_cast<size_t>(ordinal)) {
  why_not_ = cupti.why_not().empty() ? ask_all() : cupti.why_not();
}

CuptiDevice::~CuptiDevice() {
  cupti::Deinitialize parameters;
  if (initialised_) (void)cupti_.ask(parameters);
}

std::string CuptiDevice::ask_all() {
  cupti::Initialize initialize;
  // The library's next functions crash where this one fails.
  if (const auto code = cupti_.ask(initialize); code != 0) {
    return cupti_refusal(initialize.kFunction, code);
  }
  initialised_ = true;
  cupti::DeviceSupported supported;
  supported.device = static_cast<int>(ordinal_);
  supported.api = cupti::kApiPmSampling;
  // An error here decides nothing: the first GPU's number reads as «the one in use», which there
  // may not be yet.
  if (cupti_.ask(supported) == 0 && supported.supported != cupti::kSupported &&
      supported.supported != cupti::kSupportUnknown) {
    return what_stands_against(supported);
  }
  cupti::GetChipName chip;
  chip.device = ordinal_;
  if (const auto code = cupti_.ask(chip); code != 0) return cupti_refusal(chip.kFunction, code);
  if (chip.name == nullptr) return "CUPTI does not say which chip the GPU has";
  chip_ = chip.name;
  return ask_availability();
}

std::string CuptiDevice::ask_availability() {
  cupti::GetCounterAvailability available;
  available.device = ordinal_;
  for (int call = 0; call < 2; ++call) {  // the first for the size
    if (call == 1) {
      availability_.resize(available.image_bytes);
      available.image = availability_.data();
    }
    if (const auto code = cupti_.ask(available); code != 0) {
      return cupti_refusal(available.kFunction, code);
    }
  }
  return "";
}

}  // namespace noisemark::suite
