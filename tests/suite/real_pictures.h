#pragma once

#include <cstdlib>
#include <string>

/// Serves the tests that read real pictures, which a machine need not have.
namespace noisemark::suite::test {

/// The folder with cifar-10-batches-bin/; null where there is none. A test is then skipped, or red
/// where pictures_are_required().
inline const char* real_pictures() {
  return std::getenv("NOISEMARK_CIFAR10");
}

/// Returns whether NOISEMARK_REQUIRE, a list with commas, has "pictures".
inline bool pictures_are_required() {
  const char* required = std::getenv("NOISEMARK_REQUIRE");
  const std::string words = std::string(",") + (required == nullptr ? "" : required) + ",";
  return words.find(",pictures,") != std::string::npos;
}

inline constexpr const char* kNoPictures = "NOISEMARK_CIFAR10 is not set";
inline constexpr const char* kPicturesMissing =
    "NOISEMARK_REQUIRE has pictures, and NOISEMARK_CIFAR10 is not set";

}  // namespace noisemark::suite::test
