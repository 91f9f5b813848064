#pragma once

#include <string>
#include <string_view>

/// The words of the program to whoever runs it.
namespace noisemark::reports {

/// Writes `text` to standard output and flushes it. Throws Error (cannot write) with the cause.
void print_out(std::string_view text);

/// Writes "noisemark: WORDS" to standard error, without the controls that a file's name may hold
/// (they would clear the terminal), and with further lines indented, so that none passes for
/// another message. A stream that takes nothing is no reason to lose a run: it never throws.
void say_on_stderr(std::string_view words) noexcept;

}  // namespace noisemark::reports
