#pragma once

#include <cstdint>

#include "memopt/codecs/arithmetic/jobs.h"
#include "memopt/device/cpu_level.h"

/// The codecs' loops for a CPU: plain memory, no torch. Their source is compiled once per
/// instruction set; all give the same bits. Each function does blocks [begin, end) of a job, which
/// are independent, so results do not depend on how blocks are shared out among threads.
namespace noisemark::memopt::codecs {

using Level = CpuLevel;

struct FieldKernels {
  void (*encode)(const FieldJob& job, int64_t begin, int64_t end);
  void (*decode)(const FieldJob& job, int64_t begin, int64_t end);
};

struct GroupKernels {
  void (*encode)(const GroupJob& job, int64_t begin, int64_t end);
  void (*decode)(const GroupJob& job, int64_t begin, int64_t end);
};

struct SparseKernels {
  /// Writes the bits, and each block's number of values into `offsets`.
  void (*map)(const SparseJob& job, int64_t begin, int64_t end);
  /// `offsets` are offsets now.
  void (*gather)(const SparseJob& job, int64_t begin, int64_t end);
  void (*scatter)(const SparseJob& job, int64_t begin, int64_t end);
};

struct SearchKernels {
  /// Searches elements [begin, end).
  Extent (*extent)(const SearchJob& job, int64_t begin, int64_t end);
};

struct Kernels {
  FieldKernels fields;
  GroupKernels groups;
  SparseKernels sparse;
  SearchKernels search;
};

/// `level` at most current_cpu_level().
[[nodiscard]] const Kernels& kernels_of(Level level);

}  // namespace noisemark::memopt::codecs
