#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace noisemark::suite {

/// Writes what Python's pickle reads, protocol 2, of the few types that a file of figures needs.
/// Only opcodes that LibTorch's own pickler writes are used, so readers made for that (PyTorch's
/// memory viewer is one, in a browser) read it too. Values are written in the order of the calls; a
/// dictionary's are key, value, key, value. What is left open or out of place makes no valid file.
class PickleWriter {
 public:
  PickleWriter();

  void begin_list();
  void end_list();
  void begin_dict();
  void end_dict();
  /// A string in UTF-8; an equal one is written once and then referred to.
  void text(std::string_view value);
  void integer(int64_t value);
  void number(double value);

  /// Refers to the value that was remembered under `key`; false, and nothing is written, when there
  /// is none.
  [[nodiscard]] bool recall(const std::string& key);
  /// Remembers the value that was just completed.
  void remember(const std::string& key);

  /// The file. Call once.
  [[nodiscard]] std::string finish();

 private:
  void put(char opcode) { bytes_ += opcode; }
  /// `count` bytes, the lowest first.
  void put_little_endian(uint64_t value, int count);

  std::string bytes_;
  std::unordered_map<std::string, uint32_t> remembered_;
};

}  // namespace noisemark::suite
