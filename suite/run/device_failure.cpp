#include "suite/run/device_failure.h"

#include <array>
#include <string_view>

namespace noisemark::suite {
namespace {

struct Meaning {
  std::string_view phrase;  ///< of CUDA's, cuBLAS's, cuDNN's or LibTorch's text
  ExitCode code;
  std::string_view words;
};

constexpr ExitCode kHere = ExitCode::kCannotRunHere;
constexpr std::string_view kTooOld = "install a newer driver, or build with an older toolkit";
constexpr std::string_view kNoDevice = "see `noisemark doctor`";
constexpr std::string_view kFull = "no room on the GPU";
// CUDA has one text for both.
constexpr std::string_view kFullOrNoPages =
    "no room on the GPU, or none on the host for pages that stay in place";
// As LibTorch ends where none of cuDNN's plans for a convolution could be run.
constexpr std::string_view kNoEngine = "unable to find an engine to execute this computation";
constexpr std::string_view kNoEngineForWantOfRoom =
    "no room on the GPU for what cuDNN's algorithms need";
constexpr std::string_view kNoEngineAtAll =
    "cuDNN has no algorithm for this type, shape and GPU, of those that may be used "
    "(`--deterministic` and a limit of the workspace leave fewer)";
constexpr std::string_view kKernel =
    "a kernel failed, maybe long before it was noticed: with CUDA_LAUNCH_BLOCKING=1 it is noticed "
    "where it happens, and compute-sanitizer names the access";

// The first that is in the text counts.
constexpr std::array kMeanings{
    Meaning{"busy or unavailable", kHere,
            "another program has the GPU for itself (exclusive compute mode), or it may not be "
            "used; see `nvidia-smi`"},
    Meaning{"driver on your system is too old", kHere, kTooOld},
    Meaning{"CUDA driver version is insufficient", kHere, kTooOld},
    Meaning{"Found no NVIDIA driver", kHere, kNoDevice},
    Meaning{"no CUDA-capable device is detected", kHere, kNoDevice},
    Meaning{"system not yet initialized", kHere, "NVIDIA's fabric manager has not started"},
    Meaning{"no kernel image is available", kHere,
            "this program has no code for this GPU; build it with its architecture in CUDAARCHS"},
    Meaning{"STATUS_ALLOC_FAILED", ExitCode::kOutOfMemory, kFull},
    Meaning{"DEVICE_ALLOCATION_FAILED", ExitCode::kOutOfMemory, kFull},
    Meaning{"HOST_ALLOCATION_FAILED", ExitCode::kOutOfMemory, "no room on the host"},
    Meaning{"CUDA error: out of memory", ExitCode::kOutOfMemory, kFullOrNoPages},
    Meaning{"CUDA driver error: out of memory", ExitCode::kOutOfMemory, kFullOrNoPages},
    Meaning{"uncorrectable ECC error", ExitCode::kInternal, "the GPU's memory is faulty"},
    Meaning{"illegal memory access", ExitCode::kInternal, kKernel},
    Meaning{"misaligned address", ExitCode::kInternal, kKernel},
    Meaning{"illegal instruction", ExitCode::kInternal, kKernel},
    Meaning{"unspecified launch failure", ExitCode::kInternal, kKernel},
    Meaning{"device-side assert", ExitCode::kInternal, kKernel},
    Meaning{"the launch timed out", ExitCode::kInternal,
            "a display's watchdog ended a kernel; use a GPU without a display"}};

/// LibTorch explains an error of CUDA over many lines, of which the first says what it was.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

DeviceFailure told(ExitCode code, const std::string& text, std::string_view words) {
  return {code, first_line(text) + ": " + std::string(words)};
}

}  // namespace

std::optional<DeviceFailure> device_failure(const std::string& text,
                                            const std::optional<DeviceRoom>& room) {
  if (text.find(kNoEngine) != std::string::npos) {
    return room && is_short(*room) ? told(ExitCode::kOutOfMemory, text, kNoEngineForWantOfRoom)
                                   : told(ExitCode::kInternal, text, kNoEngineAtAll);
  }
  const bool of_a_gpu =
      text.find("CUDA") != std::string::npos || text.find("NVIDIA") != std::string::npos ||
      text.find("CUBLAS") != std::string::npos || text.find("CUDNN") != std::string::npos;
  if (!of_a_gpu) return std::nullopt;
  for (const Meaning& meaning : kMeanings) {
    if (text.find(meaning.phrase) == std::string::npos) continue;
    return told(meaning.code, text, meaning.words);
  }
  return std::nullopt;
}

}  // namespace noisemark::suite
