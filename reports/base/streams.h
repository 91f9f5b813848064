#pragma once

#include <string>
#include <string_view>

/// The words of the program to whoever runs it.
namespace noisemark::reports {

/// Writes `text` to standard output and flushes it. Throws Error (cannot write) with the cause.
void print_out(std::string_view text);

/// Writes "noisemark: WORDS" as a line to standard error, without the controls that a file's name
/// may hold: they would colour or clear the terminal. A stream that takes nothing is no reason
/// to lose a run, so it never throws.
void say_on_stderr(std::string_view words) noexcept;

}  // namespace noisemark::reports
