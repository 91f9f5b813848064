#pragma once

/// What a test tells the stand-in for NVML.
extern "C" {

/// As it was before any call: one whole GPU, and nothing fails.
void nvml_stand_in_reset();

/// From now on the GPU is divided (MIG), and this process has a part of it.
void nvml_stand_in_divide();

/// From now on `function`, one of those for a divided GPU, returns `code`.
void nvml_stand_in_fail(const char* function, int code);

}  // extern "C"
