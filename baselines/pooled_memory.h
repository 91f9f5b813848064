#pragma once

namespace noisemark::baselines {

/// Makes the C library keep what is freed, for the rest of the process: no allocation is mapped on
/// its own, the heap is never trimmed, grows in large pieces, and is one for all threads. A
/// training step frees and allocates the same blocks again and again; by default each large one is
/// unmapped and mapped anew, and the kernel zeroes its pages every time. What tensors ask for, and
/// therefore the memory by owner, does not change; the resident set may be larger (fragmentation of
/// the heap). Does nothing where the C library is not glibc. Call before threads are started.
/// Returns whether it took effect.
bool keep_freed_memory();

}  // namespace noisemark::baselines
