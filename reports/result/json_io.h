#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result/result.h"

/// Result <-> result.json, strict in both directions, by the fields of result_fields.h. A list of
/// numbers takes one line and a row of a table takes one line, so that `git diff` reads well.
///
/// The checksum is language-neutral: SHA-256 over the bytes of the file itself, with the 64 digits
/// of the checksum replaced by zeros.
namespace noisemark::reports {

/// The text of result.json, its checksum filled in. Bytes that are not UTF-8 become U+FFFD. Throws
/// std::logic_error that names the field when a number is NaN or infinite.
[[nodiscard]] std::string to_json(const Result& result);

/// Reads and verifies a result. `where` (a file name) begins every message. Throws Error (bad
/// input) that names the JSON path: not JSON, a key twice, unknown or missing, a wrong type,
/// another or a newer schema, a checksum that does not hold.
[[nodiscard]] Result from_json(std::string_view text, const std::string& where);

/// Reads without verifying the checksum, to see what else is wrong with a changed file.
[[nodiscard]] Result from_json_unverified(std::string_view text, const std::string& where);

/// A rank hands a RankRecord or a Certificate to rank 0, which reads it: the same fields as in
/// result.json, without a checksum. Reading throws Error (bad input).
template <class Part>
[[nodiscard]] std::string to_json(const Part& part);
template <class Part>
[[nodiscard]] Part part_from_json(std::string_view text, const std::string& where);

/// Throws Error (cannot write).
void write_result(const std::filesystem::path& path, const Result& result);

/// Throws Error (bad input) as from_json, and when the file cannot be read.
[[nodiscard]] Result read_result(const std::filesystem::path& path);

/// JSON Schema (draft-07) of result.json, made from its fields (result_fields.h). The repository
/// keeps it as reports/result/result.schema.json for other programs.
[[nodiscard]] std::string result_schema();

/// Says how a JSON text departs from the schema, a sentence each with the path; empty: it holds.
[[nodiscard]] std::vector<std::string> schema_problems(std::string_view text);

}  // namespace noisemark::reports
