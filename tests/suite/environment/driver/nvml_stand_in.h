#pragma once

/// A test's words to the stand-in for NVML.
extern "C" {

/// Makes it again what it was before any call: one whole GPU, and nothing fails.
void nvml_stand_in_reset();

/// Divides the GPU from now on (MIG): this process has a part of it.
void nvml_stand_in_divide();

/// Makes `function`, one of those for a divided GPU, return `code` from now on.
void nvml_stand_in_fail(const char* function, int code);

}  // extern "C"
