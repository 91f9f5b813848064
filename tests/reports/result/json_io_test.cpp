#include "reports/result/json_io.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "reports/base/document.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/base/sha256.h"
#include "reports/result/result_fields.h"
#include "tests/reports/sample_result.h"

namespace noisemark::reports {
namespace {

using OrderedJson = nlohmann::ordered_json;
using test::full_result;
using test::minimal_result;

// Converts to anything: an aggregate can be made from as many of these as it has members.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <class Struct, size_t... I>
constexpr bool made_from(std::index_sequence<I...>) {
  return requires {
    Struct{(static_cast<void>(I), Anything{})...};
  };
}

template <class Struct>
constexpr bool every_member_has_a_key() {
  constexpr size_t kKeys =
      std::tuple_size_v<std::remove_const_t<decltype(json::Fields<Struct>::kAll)>>;
  return made_from<Struct>(std::make_index_sequence<kKeys>{}) &&
         !made_from<Struct>(std::make_index_sequence<kKeys + 1>{});
}

static_assert(every_member_has_a_key<Identity>());
static_assert(every_member_has_a_key<DataFile>());
static_assert(every_member_has_a_key<Provenance>());
static_assert(every_member_has_a_key<Seeds>());
static_assert(every_member_has_a_key<Protocol>());
static_assert(every_member_has_a_key<Samples>());
static_assert(every_member_has_a_key<Interval>());
static_assert(every_member_has_a_key<Metric>());
static_assert(every_member_has_a_key<MemorySnapshot>());
static_assert(every_member_has_a_key<MemoryPoint>());
static_assert(every_member_has_a_key<MemorySection>());
static_assert(every_member_has_a_key<OperatorRow>());
static_assert(every_member_has_a_key<Utilization>());
static_assert(every_member_has_a_key<Evaluation>());
static_assert(every_member_has_a_key<Quality>());
static_assert(every_member_has_a_key<StepBytes>());
static_assert(every_member_has_a_key<PassFallbacks>());
static_assert(every_member_has_a_key<MemoryMode>());
static_assert(every_member_has_a_key<Determinism>());
static_assert(every_member_has_a_key<Gate>());
static_assert(every_member_has_a_key<Artifact>());
static_assert(every_member_has_a_key<Exit>());
static_assert(every_member_has_a_key<Result>());

std::string reading_error(const std::string& text) {
  try {
    (void)from_json(text, "r.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "no error";
}

// The text after a change of the file's values, with a checksum that holds.
std::string changed(const std::function<void(OrderedJson&)>& change) {
  OrderedJson file = OrderedJson::parse(to_json(full_result()));
  change(file);
  std::string text = file.dump();
  if (!file.contains("checksum") || !file["checksum"].is_string()) return text;
  const auto stated = file["checksum"].get<std::string>();
  const std::string expected = expected_checksum(text, stated);
  return expected.empty() ? text : text.replace(text.find(stated), 64, expected);
}

TEST(JsonIo, comes_back_the_same) {
  for (const Result& result : {full_result(), minimal_result(), test::result_of_two_ranks()}) {
    const std::string text = to_json(result);
    EXPECT_EQ(to_json(from_json(text, "r.json")), text);
  }
}

TEST(JsonIo, hands_over_what_a_rank_found) {
  const RankRecord record = test::result_of_two_ranks().ranks[1];
  EXPECT_EQ(to_json(part_from_json<RankRecord>(to_json(record), "rank 1")), to_json(record));
}

TEST(JsonIo, keeps_the_values) {
  const Result result = from_json(to_json(full_result()), "r.json");
  EXPECT_EQ(result.identity.hardware.at("cpu"), "Example CPU 3000 | rev B");
  EXPECT_EQ(result.seeds.streams.at("noise"), 18446744073709551557U);
  EXPECT_EQ(result.samples.step_s, full_result().samples.step_s);
  EXPECT_EQ(result.metrics.at(0).direction, Direction::kHigher);
  EXPECT_FALSE(result.metrics.at(2).value.has_value());
  EXPECT_EQ(result.memory.timeline.size(), 61U);
  EXPECT_EQ(result.memory.peak.by_category.at("optimizer"), 272 * 1024 * 1024);
  EXPECT_EQ(result.gates.back().verdict, Verdict::kPass);
}

TEST(JsonIo, every_double_reads_back_bit_for_bit) {
  std::mt19937_64 generator(5);
  Result result = minimal_result();
  auto& values = result.samples.loss;
  values = {0.0, -0.0, 1.0, 1e22, 0.1, 5e-324, std::numeric_limits<double>::max(), -1.0 / 3};
  while (values.size() < 2000) {
    const double value = std::bit_cast<double>(generator());
    if (std::isfinite(value)) values.push_back(value);
  }
  const Result back = from_json(to_json(result), "r.json");
  ASSERT_EQ(back.samples.loss.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(back.samples.loss[i]), std::bit_cast<uint64_t>(values[i]));
  }
}

TEST(JsonIo, a_loss_that_was_not_finite_is_null_in_the_file_and_no_number_after) {
  Result result = minimal_result();
  result.samples.loss = {0.5, std::numeric_limits<double>::quiet_NaN(), 0.25};
  const std::string text = to_json(result);
  EXPECT_NE(text.find("[0.5, null, 0.25]"), std::string::npos) << text;
  const std::vector<double> back = from_json(text, "r.json").samples.loss;
  ASSERT_EQ(back.size(), 3U);
  EXPECT_EQ(back[0], 0.5);
  EXPECT_TRUE(std::isnan(back[1]));
  EXPECT_EQ(back[2], 0.25);
  result.samples.loss[1] = std::numeric_limits<double>::infinity();
  EXPECT_THROW((void)to_json(result), std::logic_error);
}

TEST(JsonIo, takes_whole_numbers_for_doubles_as_other_languages_write_them) {
  const std::string text = changed([](OrderedJson& file) { file["samples"]["loss"][0] = 2; });
  EXPECT_EQ(from_json(text, "r.json").samples.loss[0], 2.0);
}

TEST(JsonIo, keys_are_in_the_order_of_declaration) {
  const OrderedJson file = OrderedJson::parse(to_json(full_result()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : file.items()) keys.push_back(key);
  ASSERT_GE(keys.size(), 5U);
  EXPECT_EQ(keys[0], "schema");
  EXPECT_EQ(keys[1], "checksum");
  EXPECT_EQ(keys[2], "run_id");
  EXPECT_EQ(keys.back(), "artifacts");
}

TEST(JsonIo, long_lists_and_table_rows_take_one_line) {
  const std::string text = to_json(full_result());
  const auto line_with = [&](const std::string& what) {
    const size_t at = text.find(what);
    const size_t end = text.find('\n', at);
    return text.substr(text.rfind('\n', at) + 1, end - text.rfind('\n', at) - 1);
  };
  EXPECT_EQ(line_with("\"step_s\"").substr(0, 16), "    \"step_s\": [1");
  EXPECT_EQ(line_with("\"step_s\"").back(), ',');
  EXPECT_TRUE(line_with("\"timeline\"").ends_with("],"));
  EXPECT_EQ(line_with("\"name\": \"val_loss\"").substr(0, 5), "    {");
}

TEST(JsonIo, refuses_to_write_what_is_no_number_and_names_it) {
  Result result = full_result();
  result.quality.evaluations[1].per_timestep[3] = std::numeric_limits<double>::quiet_NaN();
  try {
    (void)to_json(result);
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(),
                 "result: quality.evaluations[1].per_timestep[3] is not a finite number");
  }
  result = full_result();
  result.metrics[0].value = std::numeric_limits<double>::infinity();
  EXPECT_THROW((void)to_json(result), std::logic_error);
}

TEST(JsonIo, refuses_to_read_what_is_no_number) {
  std::string text = to_json(full_result());
  const std::string value = "\"mfu_frac\": ";
  const size_t at = text.find(value) + value.size();
  const size_t end = text.find(',', at);
  for (const char* bad : {"NaN", "Infinity", "1e999"}) {
    const std::string message = reading_error(std::string(text).replace(at, end - at, bad));
    EXPECT_NE(message.find("r.json: not JSON"), std::string::npos) << message;
  }
}

TEST(JsonIo, replaces_bytes_that_are_no_text) {
  Result result = minimal_result();
  result.title = "caf\xe9";
  EXPECT_EQ(from_json(to_json(result), "r.json").title, "caf\xef\xbf\xbd");
}

TEST(JsonIo, names_file_and_path_of_every_kind_of_error) {
  const auto error = [](const std::function<void(OrderedJson&)>& change) {
    return reading_error(changed(change));
  };
  EXPECT_EQ(error([](OrderedJson& f) { f["identity"]["threads"] = "two"; }),
            "r.json: identity.threads: \"two\" (an integer)");
  EXPECT_EQ(error([](OrderedJson& f) { f["identity"]["threads"] = 2.5; }),
            "r.json: identity.threads: 2.5 (an integer)");
  EXPECT_EQ(error([](OrderedJson& f) { f["seeds"]["base"] = -1; }),
            "r.json: seeds.base: -1 (an integer from 0)");
  EXPECT_EQ(error([](OrderedJson& f) { f["identity"]["threads"] = 18446744073709551615U; }),
            "r.json: identity.threads: 18446744073709551615 (an integer)");
  EXPECT_EQ(error([](OrderedJson& f) { f["samples"]["step_s"][3] = nullptr; }),
            "r.json: samples.step_s[3]: null (a number)");
  EXPECT_EQ(error([](OrderedJson& f) { f["metrics"][1]["direction"] = "lowerr"; }),
            "r.json: metrics[1].direction: \"lowerr\" (nearest \"lower\"; one of: lower, higher, "
            "neutral)");
  EXPECT_EQ(error([](OrderedJson& f) { f["protocol"].erase("batch"); }),
            "r.json: protocol.batch: missing (every key must be there)");
  EXPECT_EQ(error([](OrderedJson& f) { f["identity"]["custom"] = 0; }),
            "r.json: identity.custom: 0 (true or false)");
  EXPECT_EQ(error([](OrderedJson& f) { f["gates"] = OrderedJson::object(); }),
            "r.json: gates: {} (a list)");
  EXPECT_EQ(error([](OrderedJson& f) { f["memory"] = 1; }), "r.json: memory: 1 (an object)");
  EXPECT_EQ(error([](OrderedJson& f) { f["title"] = 1; }), "r.json: title: 1 (a string)");
  const std::string unknown = error([](OrderedJson& f) { f["exit"]["cod"] = 1; });
  EXPECT_EQ(unknown.substr(0, 44), "r.json: exit.cod: unknown key (nearest \"code") << unknown;
  EXPECT_EQ(error([](OrderedJson& f) { f["schema"]["version"] = "1.1.0"; }),
            "r.json: schema.version: \"1.1.0\" (1.0.0)");
  EXPECT_EQ(error([](OrderedJson& f) { f["schema"]["name"] = "other"; }),
            "r.json: schema.name: \"other\" (noisemark.result)");
  EXPECT_EQ(error([](OrderedJson& f) { f.erase("schema"); }),
            "r.json: schema: missing (every key must be there)");
}

TEST(JsonIo, refuses_a_key_twice_and_half_a_file) {
  std::string text = to_json(full_result());
  EXPECT_NE(reading_error(text.substr(0, text.size() / 2)).find("not JSON"), std::string::npos);
  EXPECT_NE(reading_error("").find("not JSON"), std::string::npos);
  text.insert(text.find("\"title\""), "\"title\": \"first\", ");
  EXPECT_NE(reading_error(text).find("title: this key twice"), std::string::npos);
}

// The rule as another language would write it: zeros in place of the digits, then the hash.
TEST(JsonIo, checksum_is_the_hash_of_the_file_with_zeros_in_its_place) {
  std::string text = to_json(full_result());
  const auto stated = OrderedJson::parse(text)["checksum"].get<std::string>();
  text.replace(text.find(stated), 64, std::string(64, '0'));
  EXPECT_EQ(sha256_of(text), stated);
}

TEST(JsonIo, a_changed_digit_breaks_the_checksum) {
  std::string text = to_json(full_result());
  const std::string key = "\"batch\": 16";
  text.replace(text.find(key), key.size(), "\"batch\": 17");
  EXPECT_NE(reading_error(text).find("r.json: checksum: "), std::string::npos);
  EXPECT_EQ(from_json_unverified(text, "r.json").protocol.batch, 17);
  EXPECT_NE(reading_error(changed([](OrderedJson& f) { f["checksum"] = "abc"; })).find("checksum"),
            std::string::npos);
}

class JsonFile : public testing::Test {
 protected:
  JsonFile()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("noisemark_json_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~JsonFile() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;

  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
};

TEST_F(JsonFile, is_written_whole_and_replaces_the_old_one) {
  const auto path = folder_ / "result.json";
  write_result(path, minimal_result());
  write_result(path, full_result());
  EXPECT_EQ(to_json(read_result(path)), to_json(full_result()));
  EXPECT_EQ(files(), 1U);
}

// A limit on the size of files is the one way to fill up a disk that needs no rights.
TEST_F(JsonFile, a_full_disk_is_an_error_of_its_own_and_leaves_the_old_file) {
  const auto path = folder_ / "result.json";
  write_result(path, minimal_result());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ExitCode code = ExitCode::kPass;
  std::string message;
  try {
    write_result(path, full_result());
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  }
  (void)std::signal(SIGXFSZ, handler);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(code, ExitCode::kCannotWrite);
  EXPECT_NE(message.find(path.string() + ": cannot be written: File too large"), std::string::npos)
      << message;
  EXPECT_EQ(to_json(read_result(path)), to_json(minimal_result()));
  EXPECT_EQ(files(), 1U) << "a temporary file was left behind";
}

TEST_F(JsonFile, a_folder_that_is_not_there_cannot_be_written) {
  try {
    write_result(folder_ / "no" / "result.json", minimal_result());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCannotWrite);
  }
}

TEST_F(JsonFile, a_missing_file_or_a_folder_is_bad_input) {
  for (const auto& path : {folder_ / "none.json", folder_}) {
    try {
      (void)read_result(path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace noisemark::reports
