#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/environment/cupti_types.h"
#include "suite/environment/shared_library.h"

/// NVIDIA's profiling library (CUPTI), opened at run time. LibTorch's profiler uses the same one.
namespace noisemark::suite {

/// Of CUptiResult, in words: "no permission ..."; "CUPTI error 4711" for one without.
[[nodiscard]] std::string cupti_error(int code);

/// Of CUptiResult: what the hardware's buffer could not hold is lost.
inline constexpr int kCuptiOutOfMemory = 8;

/// The newest that is there, of those that this program knows.
[[nodiscard]] const char* cupti_library();

class Cupti {
 public:
  explicit Cupti(const char* library = cupti_library());

  /// Why it cannot be asked: not installed, or older than what is asked of it. Empty where it can.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  /// Calls the function of `parameters`, whose size is filled in; empty without such a function.
  template <class Parameters>
  [[nodiscard]] std::optional<int> ask(Parameters& parameters) const {
    if (!why_not_.empty()) return std::nullopt;
    parameters.size = cupti::kUsedBytes<Parameters>;
    return library_.result(Parameters::kFunction, &parameters);
  }

  /// From now on times are the system's, in nanoseconds. LibTorch's profiler leaves a clock of its
  /// own behind, which counts in other units, and sets it again when it profiles again.
  void use_system_time() const;

 private:
  SharedLibrary library_;
  std::string why_not_;
};

/// "cuptiPmSamplingEnable: no permission ...", of what Cupti::ask() returned.
[[nodiscard]] std::string cupti_refusal(std::string_view function, std::optional<int> code);

/// What the library says of one GPU, for sampling its counters. Needs a driver in which CUDA has
/// been started: without one the library itself crashes.
class CuptiDevice {
 public:
  /// `ordinal` counts as CUDA counts. `cupti` must outlive it.
  CuptiDevice(const Cupti& cupti, int ordinal);
  ~CuptiDevice();
  CuptiDevice(const CuptiDevice&) = delete;
  CuptiDevice& operator=(const CuptiDevice&) = delete;

  /// Why its counters cannot be sampled, in the library's words; empty where they may be.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] size_t ordinal() const { return ordinal_; }
  [[nodiscard]] const std::string& chip() const { return chip_; }  ///< "GH100"
  /// Which counters this user may read, for the library's other half.
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
