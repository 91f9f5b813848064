#pragma once

#include <dlfcn.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace noisemark::suite {

/// A small file of /proc, /sys or /etc, trailing white space removed; empty when it cannot be read.
[[nodiscard]] std::optional<std::string> read_system_file(const std::string& path);

/// The value of the first line «key<spaces>separator value», spaces trimmed.
[[nodiscard]] std::optional<std::string> field_of(std::string_view text, std::string_view key,
                                                  char separator);

[[nodiscard]] std::vector<std::string> split_words(std::string_view text);

/// The parts between separators; of an empty text none, of "a,,b" also the empty one.
[[nodiscard]] std::vector<std::string> split_at(std::string_view text, char separator);

/// An error code of a library and what it means.
struct ErrorName {
  int code;
  std::string_view words;
};

/// A shared library opened for as long as the object lives, whose functions return an error code, 0
/// for success. So the same code serves machines without the library.
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  ~SharedLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }

  /// Returns what `name` returns; empty when the library or the function is missing. The types of
  /// the arguments must be those of the function.
  template <class... Arguments>
  [[nodiscard]] std::optional<int> result(const char* name, Arguments... arguments) const {
    if (handle_ == nullptr) return std::nullopt;
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    if (function == nullptr) return std::nullopt;
    return function(arguments...);
  }

  /// Returns whether `name` was there and succeeded.
  template <class... Arguments>
  [[nodiscard]] bool call(const char* name, Arguments... arguments) const {
    return result(name, arguments...) == 0;
  }

 private:
  void* handle_;
};

}  // namespace noisemark::suite
