#pragma once

#include <filesystem>
#include <string>
#include <string_view>

/// The words of the program to whoever runs it, and the command lines in them.
namespace noisemark::reports {

/// Writes `text` to standard output and flushes it. Throws Error (cannot write) with the cause.
void print_out(std::string_view text);

/// Writes "noisemark: WORDS" to standard error, without the controls that a file's name may hold
/// (they would clear the terminal), and with further lines indented, so that none passes for
/// another message. A stream that takes nothing is no reason to lose a run: it never throws.
void say_on_stderr(std::string_view words) noexcept;

/// Returns the descriptor of the output of this process that `path` names, as /dev/stdout does; -1
/// where it names none. Bytes go into it: a file that it is redirected to must not be replaced.
[[nodiscard]] int own_stream_at(const std::filesystem::path& path) noexcept;

/// Ends the process once its standard streams are written, without the farewells of libraries.
/// LibTorch takes its thousands of operators down one by one, which is a fifth of what a short
/// command costs.
[[noreturn]] void leave(int exit_code) noexcept;

/// `word` as a command line of a shell has it: as it is where nothing in it is special, else in
/// quotes. Nothing in what comes back moves a terminal's cursor or direction.
[[nodiscard]] std::string shell_word(const std::string& word);

/// Returns `word` in quotes in any case.
[[nodiscard]] std::string quoted_shell_word(const std::string& word);

}  // namespace noisemark::reports
