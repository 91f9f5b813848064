#include "reports/export/ctest_lines.h"

#include <fmt/format.h>

#include <string_view>

namespace noisemark::reports {
namespace {

std::string plain(std::string name) {
  constexpr std::string_view kKept =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,:@+=-";
  for (char& c : name) {
    if (kKept.find(c) == std::string_view::npos) c = '_';
  }
  return name;
}

}  // namespace

std::string ctest_lines(const std::vector<Figure>& figures) {
  std::string text;
  for (const Figure& figure : figures) {
    text +=
        fmt::format("<CTestMeasurement type=\"numeric/double\" name=\"{}\">{}</CTestMeasurement>\n",
                    plain(figure.cell + ": " + figure.metric), figure.value);
  }
  return text;
}

}  // namespace noisemark::reports
