#pragma once

/// A test's words to the stand-in for CUPTI, and its questions.
extern "C" {

/// Makes it again what it was before any call: nothing fails, nothing was called.
void cupti_stand_in_reset();

/// Makes `function` return `code` and do nothing else from now on.
void cupti_stand_in_fail(const char* function, int code);

/// "version" of the interface; "longer_by", bytes of every structure; "support" and its parts, of
/// CUpti_Profiler_Support_Level; "empty_chip"; "clock_only", no trigger by time; "overflow",
/// "stop_reason" of decoding; "samples", how many, and "interval_ns" of each; "ticks_per_ns" of the
/// clock that another profiler left and that holds until one is registered; "overlap_at",
/// "nan_at", "percent_at", which of them is spoiled.
void cupti_stand_in_set(const char* what, double value);

/// Names of the functions in the order of their calls, each followed by a space; those that were
/// refused for the size of their structure are followed by "!".
const char* cupti_stand_in_calls();

}  // extern "C"
