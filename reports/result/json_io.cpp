#include "reports/result/json_io.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "reports/base/document.h"
#include "reports/base/file.h"
#include "reports/base/json_writer.h"
#include "reports/result/result_fields.h"

namespace noisemark::reports {

std::string to_json(const Result& result) {
  return with_checksum(json::Printer("result").file(beginning_of(json::kResultDocument), result));
}

template <class Part>
std::string to_json(const Part& part) {
  return json::tree_of(part).dump();
}

template <class Part>
Part part_from_json(std::string_view text, const std::string& where) {
  Part part;
  json::Reader(where).value(parse_json(text, where), part, json::Path{});
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
  return read_document<Result>(text, json::kResultDocument, where, {.checksum = false});
}

Result from_json(std::string_view text, const std::string& where) {
  return read_document<Result>(text, json::kResultDocument, where);
}

Result read_result(const std::filesystem::path& path) {
  return from_json(read_file(path), path.string());
}

}  // namespace noisemark::reports
