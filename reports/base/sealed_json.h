#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/fields.h"

/// JSON that names its place when it is refused, and files that can prove that nobody changed them.
namespace noisemark::reports {

using OrderedJson = nlohmann::ordered_json;

/// An object whose fields are read by type. Throws Error (bad input), «where: path: found
/// (accepted)», for a field that is missing, of another type, or a number that is not finite. Holds
/// a reference to the JSON.
class JsonFields {
 public:
  /// Throws likewise when `json` is no object.
  JsonFields(const OrderedJson& json, std::string where, std::string path = "");

  [[nodiscard]] double number(const std::string& key) const;
  [[nodiscard]] int64_t count(const std::string& key) const;  ///< is at least 0
  [[nodiscard]] bool flag(const std::string& key) const;
  [[nodiscard]] std::string text(const std::string& key) const;
  [[nodiscard]] std::map<std::string, std::string> strings(const std::string& key) const;
  [[nodiscard]] std::vector<double> numbers(const std::string& key) const;
  [[nodiscard]] JsonFields object(const std::string& key) const;
  /// An error about a field: what stands there, and what should.
  [[nodiscard]] Error refusal(const std::string& key, const std::string& accepted) const;

 private:
  [[nodiscard]] const OrderedJson& at(const std::string& key, const std::string& accepted) const;
  [[nodiscard]] std::string path_of(const std::string& key) const;

  const OrderedJson* json_;
  std::string where_;
  std::string path_;
};

/// Throws Error (bad input), which begins with `where`, unless `text` is JSON with every key once.
[[nodiscard]] OrderedJson parse_json(std::string_view text, const std::string& where);

/// `body` behind "schema" and "checksum", a SHA-256 over the text itself with the digits of the
/// checksum as zeros. A list of plain values takes one line.
[[nodiscard]] std::string sealed_json(const json::Document& document, const OrderedJson& body);

/// The checksum that the file should carry: of `text` with the digits of `stated` as zeros. It is
/// empty unless `stated` is a digest that occurs exactly once in `text`.
[[nodiscard]] std::string expected_checksum(std::string_view text, std::string_view stated);

/// Reads such a text. Throws Error (bad input): another schema or version, or a checksum
/// that does not hold.
[[nodiscard]] OrderedJson unseal_json(std::string_view text, const json::Document& document,
                                      const std::string& where);

}  // namespace noisemark::reports
