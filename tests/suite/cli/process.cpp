#include "tests/suite/cli/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace noisemark::test {
namespace {

std::string shell_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result.append("'\\''");
    } else {
      result.push_back(c);
    }
  }
  result.push_back('\'');
  return result;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

ProcessResult run_process(const std::string& program, const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& variables) {
  const std::string stem = (std::filesystem::path(testing::TempDir()) / "noisemark_process_")
                               .string()
                               .append(std::to_string(getpid()));
  std::string command = "env";
  for (const auto& [name, value] : variables) {
    command.append(value.empty() ? " -u " : " ");
    command.append(value.empty() ? name : shell_quoted(name + "=" + value));
  }
  command.append(" ").append(shell_quoted(program));
  for (const std::string& argument : arguments) command.append(" ").append(shell_quoted(argument));
  command.append(" >").append(stem).append(".out 2>").append(stem).append(".err </dev/null");
  const int status = std::system(command.c_str());
  ProcessResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = contents(stem + ".out");
  result.err = contents(stem + ".err");
  std::filesystem::remove(stem + ".out");
  std::filesystem::remove(stem + ".err");
  return result;
}

}  // namespace noisemark::test
