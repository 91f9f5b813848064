#pragma once

namespace noisemark::suite {

/// Gives cuBLAS a workspace under which its results repeat, unless the environment chooses one. To
/// be called before anything touches CUDA: cuBLAS reads the environment once.
void choose_cublas_workspace();

/// Throws Error, exit code 2, when the environment gives cuBLAS a workspace that does not repeat.
void require_cublas_workspace();

/// Admits only operators that give the same bits every time; any other one throws. `wanted` false
/// takes it back.
void set_deterministic(bool wanted);

}  // namespace noisemark::suite
