#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "reports/base/fields.h"
#include "reports/base/json_reader.h"

/// Documents of JSON under their name and version, and under a checksum, by which a change shows.
namespace noisemark::reports {

using OrderedJson = nlohmann::ordered_json;

/// Throws Error (bad input), which begins with `where`, unless `text` is JSON with every key once.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& where);

/// The first keys of a document: its schema, and where it is sealed its checksum, all zeros.
[[nodiscard]] OrderedJson beginning_of(const json::Document& document);

/// `text` with its checksum in place of the zeros: a SHA-256 over the text with the zeros.
[[nodiscard]] std::string with_checksum(std::string text);

/// The text of a document. A list of plain values takes one line. Bytes that are no UTF-8 become
/// U+FFFD.
[[nodiscard]] std::string document_text(const json::Document& document, const OrderedJson& body);

/// The checksum that the file should carry: of `text` with the digits of `stated` as zeros. It
/// is empty unless `stated` is a digest that occurs exactly once in `text`.
[[nodiscard]] std::string expected_checksum(std::string_view text, std::string_view stated);

/// Throws Error (bad input) for JSON that does not name the document, and exactly its version.
void require_schema(const nlohmann::json& file, const json::Document& document,
                    const std::string& where);

/// Throws Error (bad input) where the checksum of a sealed document does not hold.
void require_checksum(std::string_view text, const nlohmann::json& file,
                      const json::Document& document, const std::string& where);

/// The strictness with which a document is read.
struct Strictness {
  json::Bounds bounds = json::Bounds::kIgnored;
  bool checksum = true;
};

/// Reads the text of a document. Throws Error (bad input), which begins with `where`: no JSON, a
/// key twice, another schema, a field that the body does not have, a checksum that does not hold.
template <json::Described Body>
[[nodiscard]] Body read_document(std::string_view text, const json::Document& document,
                                 const std::string& where, Strictness strictness = {}) {
  const nlohmann::json file = parse_json(text, where);
  require_schema(file, document, where);
  Body body;
  std::vector<std::string> beginning = {"schema"};
  if (document.sealed) beginning.emplace_back("checksum");
  json::Reader(where, strictness.bounds).members(file, body, json::Path{}, beginning);
  if (strictness.checksum) require_checksum(text, file, document, where);
  return body;
}

}  // namespace noisemark::reports
