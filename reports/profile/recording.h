#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/error.h"

/// The events of some training steps as a profiler saw them, without LibTorch's types.
namespace noisemark::reports {

/// The names of spans begin so: of layer «conv_in», of phase «backward», and of a step.
inline constexpr const char* kLayerPrefix = "layer ";
inline constexpr const char* kPhasePrefix = "phase ";
inline constexpr const char* kBackwardPhase = "backward";
inline constexpr const char* kStepPrefix = "ProfilerStep#";

enum class ProfiledKind : uint8_t {
  kOperator,  ///< has whatever else the host records too, such as the nodes of autograd's engine
  kBackward,  ///< a node of autograd that computes gradients; it has `sequence`
  kSpan,      ///< a span that the program named: a step, a phase, a layer
  kCall,      ///< a call of a device's runtime or driver, on the host
  kWork,      ///< a kernel, a copy or a fill on a device
};

struct ProfiledEvent {
  std::string name;
  std::string shapes;  ///< shapes of the inputs, "[[2, 3], []]"; empty: they were not recorded
  ProfiledKind kind = ProfiledKind::kOperator;
  bool on_device = false;       ///< work, or a span on a device's time line
  bool across_threads = false;  ///< it ended on another thread, so it is nobody's parent
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint64_t thread = 0;
  uint64_t id = 0;           ///< name that the device's events use
  uint64_t launched_by = 0;  ///< id of the operator around the launch; 0: none
  int64_t sequence = -1;     ///< number of the node that an operator made, or that ran; -1: none
  uint64_t forward_thread = 0;

  [[nodiscard]] int64_t duration_ns() const { return end_ns - start_ns; }
  /// Returns whether it is a whole step, on the host.
  [[nodiscard]] bool is_step() const { return !on_device && name.starts_with(kStepPrefix); }
  /// Returns whether it is an operator on the host within `span`.
  [[nodiscard]] bool is_operator_within(const ProfiledEvent& span) const {
    return kind == ProfiledKind::kOperator && !on_device && start_ns >= span.start_ns &&
           end_ns <= span.end_ns;
  }
};

/// An allocation (bytes above 0) or a release.
struct ProfiledMemory {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  uint64_t thread = 0;
  bool on_device = false;
};

/// The forward pass of a module. Nodes of autograd that it made have numbers from `begin` on and
/// below `end`.
struct ModuleVisit {
  std::string name;  ///< in the tree of modules: "down_blocks.0.resnets.1.conv1"
  int64_t begin = 0;
  int64_t end = 0;
};

struct Recording {
  std::vector<ProfiledEvent> events;
  std::vector<ProfiledMemory> memory;
  std::vector<ModuleVisit> visits;  ///< forward passes on the training thread, by beginning
  int64_t steps = 0;
  bool has_device = false;  ///< events of a device were asked for
};

/// Memory by owner at one instant.
struct MemoryCounter {
  int64_t time_ns = 0;  ///< time on the trace's clock, which begins in 1970
  std::vector<std::pair<std::string, int64_t>> bytes;
};

struct TraceSizes {
  int64_t plain_bytes = 0;
  int64_t packed_bytes = 0;
};

/// Copies kineto's trace `from` to `to`, packed by gzip, with the counters beside its events of
/// process `pid`, in one pass. Throws Error: bad input where `from` is no such trace; cannot write.
TraceSizes pack_trace(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::vector<MemoryCounter>& counters, int64_t pid);

/// Returns the error of a trace that a library left unwritten without saying why: the system says
/// it of another file there.
[[nodiscard]] Error unwritten_trace(const std::filesystem::path& path);

}  // namespace noisemark::reports
