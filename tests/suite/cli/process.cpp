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
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result += "'";
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
  const std::string stem =
      (std::filesystem::path(testing::TempDir()) / ("process_" + std::to_string(getpid())))
          .string();
  std::string command = "env";
  for (const auto& [name, value] : variables) {
    command += value.empty() ? " -u " + name : " " + shell_quoted(name + "=" + value);
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
