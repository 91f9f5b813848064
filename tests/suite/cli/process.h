#pragma once

#include <map>
#include <string>
#include <vector>

namespace noisemark::test {

struct ProcessResult {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs `program` to its end with these arguments and, on top of this process's environment, these
/// variables; an empty value removes one.
[[nodiscard]] ProcessResult run_process(const std::string& program,
                                        const std::vector<std::string>& arguments,
                                        const std::map<std::string, std::string>& variables = {});

}  // namespace noisemark::test
