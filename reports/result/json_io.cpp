#include "reports/result/json_io.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/json.h"
#include "reports/base/json_reader.h"
#include "reports/base/json_writer.h"
#include "reports/base/sealed_json.h"
#include "reports/base/sha256.h"
#include "reports/result/result_fields.h"

namespace noisemark::reports {
namespace {

using json::kResultDocument;
using json::Path;
using json::Reader;
using Json = nlohmann::json;

Json parse(std::string_view text, const std::string& where) {
  require_shallow(text, where);
  try {
    return Json::parse(text, RefuseDoubles<Json>(where));
  } catch (const Json::exception&) {
    throw bad_input(where, "not valid JSON", json_fault(text), "");
  }
}

void require_schema(const Json& file, const Reader& reader) {
  const Path top;
  const Path path{&top, "schema"};
  if (!file.is_object()) throw reader.wrong(file, top, "an object");
  const Json& schema = reader.at(file, "schema", top);
  const std::string accepted =
      std::string(kResultDocument.name) + " " + std::string(kResultDocument.version) + " alone";
  if (!schema.is_object() || schema.size() != 2) throw reader.wrong(schema, path, accepted);
  const Json& name = reader.at(schema, "name", path);
  const Json& version = reader.at(schema, "version", path);
  if (name != kResultDocument.name) throw reader.wrong(name, Path{&path, "name"}, accepted);
  if (version != kResultDocument.version) {
    throw reader.wrong(version, Path{&path, "version"}, accepted);
  }
}

struct Parsed {
  Result result;
  std::string checksum;
};

Parsed parse_result(std::string_view text, const std::string& where) {
  const Json file = parse(text, where);
  const Reader reader(where);
  require_schema(file, reader);
  Parsed parsed;
  const Path top;
  reader.value(reader.at(file, "checksum", top), parsed.checksum, Path{&top, "checksum"});
  reader.members(file, parsed.result, top, {"schema", "checksum"});
  return parsed;
}

}  // namespace

std::string to_json(const Result& result) {
  std::string text = json::Printer("result").file(kResultDocument, result);
  const std::string zeros(64, '0');
  // The first such run of digits is the checksum's own: only the schema comes before it.
  return text.replace(text.find(zeros), zeros.size(), sha256_of(text));
}

template <class Part>
std::string to_json(const Part& part) {
  return json::tree_of(part).dump();
}

template <class Part>
Part part_from_json(std::string_view text, const std::string& where) {
  Part part;
  Reader(where).value(parse(text, where), part, Path{});
  return part;
}

template std::string to_json(const RankRecord&);
template std::string to_json(const Certificate&);
template RankRecord part_from_json(std::string_view, const std::string&);
template Certificate part_from_json(std::string_view, const std::string&);

void write_result(const std::filesystem::path& path, const Result& result) {
  write_file_atomically(path, to_json(result));
}

Result from_json_unverified(std::string_view text, const std::string& where) {
  return parse_result(text, where).result;
}

Result from_json(std::string_view text, const std::string& where) {
  Parsed parsed = parse_result(text, where);
  const std::string expected = expected_checksum(text, parsed.checksum);
  if (expected != parsed.checksum || expected.empty()) {
    throw bad_input(where, "checksum", parsed.checksum,
                    "the file was changed after it was written, or not written whole");
  }
  return std::move(parsed.result);
}

Result read_result(const std::filesystem::path& path) {
  return from_json(read_file(path), path.string());
}

}  // namespace noisemark::reports
