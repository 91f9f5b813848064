#pragma once

namespace noisemark::suite {

struct Command;
struct CommandLine;

/// Throws Error (exit code 2) where --out would cost what is there: where it names a file that the
/// command reads, by whatever name or link, a part of the results in a folder, or the folder of a
/// run to a command that writes other things. Without --force also where a file is there that
/// the command did not write, which its bytes show; what an earlier --out left is replaced.
void require_own_output(const Command& command, const CommandLine& line);

}  // namespace noisemark::suite
