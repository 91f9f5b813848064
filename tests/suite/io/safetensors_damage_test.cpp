#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>

#include "suite/io/safetensors.h"
#include "tests/suite/io/scratch.h"

namespace noisemark::suite::test {
namespace {

std::string with_length(const std::string& header, const std::string& data = "") {
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<uint64_t>(header.size()));
  return std::string(length.data(), length.size()) + header + data;
}

std::pair<ExitCode, std::string> outcome_of_reading(const ScratchFolder& folder,
                                                    const std::string& bytes) {
  put_bytes(folder.path("a"), bytes);
  return outcome([&] { (void)read_safetensors(folder.path("a")); });
}

struct Damage {
  std::string name;
  std::string bytes;
  std::string message;  ///< part of what the user reads
};

const std::vector<Damage>& damages() {
  static const std::string kHalf(4, '\0');
  static const std::string kFull(8, '\0');
  static const std::vector<Damage> damages{
      {"empty file", "", "truncated: 0 bytes"},
      {"length cut", "\x10\0\0", "truncated"},
      {"huge length", std::string(8, '\x7f') + "{}", "a header of"},
      {"header cut", with_length(R"({"x":1})").substr(0, 12), "truncated: the header"},
      {"not JSON", with_length("{\"x\""), "not JSON"},
      {"number out of range", with_length(R"({"x":1e999})"), "not JSON"},
      {"not an object", with_length("[]"), "not a JSON object"},
      {"invalid UTF-8", with_length("{\"\xff\":1}"), "not JSON"},
      {"entry of another kind", with_length(R"({"x":[]})"), "an object of dtype"},
      {"key missing", with_length(R"({"x":{"dtype":"F32","shape":[1]}})"), "an object of dtype"},
      {"key too many",
       with_length(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"y":1}})", kFull),
       "an object of dtype"},
      {"unknown type", with_length(R"({"x":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})"),
       "F64, F32"},
      {"type of another kind", with_length(R"({"x":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})"),
       "dtype 7"},
      {"negative extent",
       with_length(R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", kHalf),
       "shape [-1]"},
      {"fractional extent",
       with_length(R"({"x":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", kHalf),
       "shape [1.5]"},
      {"extents that overflow",
       with_length(
           R"({"x":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})"),
       "shape [0,"},
      {"extent beyond 63 bits",
       with_length(R"({"x":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})"),
       "shape ["},
      {"offsets of another kind",
       with_length(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":"04"}})", kHalf),
       "two integers"},
      {"offsets backwards",
       with_length(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", kHalf),
       "needs 4 bytes"},
      {"offsets that do not fit the shape",
       with_length(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", kHalf),
       "needs 8 bytes"},
      {"overlap",
       with_length(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                   kHalf),
       "where the tensor before it ends"},
      {"hole", with_length(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", kFull),
       "where the tensor before it ends"},
      {"data cut", with_length(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", kHalf),
       "truncated: its tensors have 8 bytes, it has 4"},
      {"bytes after the last tensor",
       with_length(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", kFull),
       "4 bytes after the last tensor"},
      {"name twice",
       with_length(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                   kFull),
       "names \"x\" twice"},
      {"metadata of another kind", with_length(R"({"__metadata__":[]})"), "__metadata__"},
      {"metadata value of another kind", with_length(R"({"__metadata__":{"a":1}})"),
       "__metadata__: a"},
  };
  return damages;
}

TEST(DamagedSafetensors, are_refused_with_the_file_and_the_reason) {
  const ScratchFolder folder;
  for (const Damage& damage : damages()) {
    const auto [code, message] = outcome_of_reading(folder, damage.bytes);
    EXPECT_EQ(code, ExitCode::kBadInput) << damage.name;
    EXPECT_NE(message.find(damage.message), std::string::npos) << damage.name << ": " << message;
    EXPECT_EQ(message.find(folder.path("a")), 0) << damage.name << ": " << message;
    const auto in_memory =
        outcome([&] { (void)parse_safetensors(damage.bytes, folder.path("a")); });
    EXPECT_EQ(in_memory, std::pair(code, message)) << damage.name;
  }
}

TEST(DamagedSafetensors, a_file_that_is_missing_or_a_folder_is_refused) {
  const ScratchFolder folder;
  EXPECT_EQ(outcome([&] { (void)read_safetensors(folder.path("none")); }).first,
            ExitCode::kBadInput);
  EXPECT_EQ(outcome([&] { (void)read_safetensors(folder.path("")); }).first, ExitCode::kBadInput);
}

std::string sound_file(const ScratchFolder& folder) {
  write_safetensors(
      folder.path("sound"),
      {{"a", at::ones({2, 2})}, {"b", at::arange(3)}, {"c", at::ones({3}, at::kBool)}},
      {{"format", "pt"}});
  return file_bytes(folder.path("sound"));
}

TEST(DamagedSafetensors, cut_anywhere_are_refused) {
  const ScratchFolder folder;
  const std::string sound = sound_file(folder);
  EXPECT_EQ(outcome_of_reading(folder, sound).first, ExitCode::kPass);
  for (size_t length = 0; length < sound.size(); ++length) {
    EXPECT_EQ(outcome_of_reading(folder, sound.substr(0, length)).first, ExitCode::kBadInput)
        << length;
  }
}

// Whatever the damage, the answer is tensors or an Error for the user: never a crash, another
// exception or an allocation that the file's size does not justify.
TEST(DamagedSafetensors, with_random_bytes_changed_never_fail_otherwise) {
  const ScratchFolder folder;
  const std::string sound = sound_file(folder);
  std::mt19937 random(1);
  size_t refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string damaged = sound;
    for (uint32_t change = 0; change <= random() % 4; ++change) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    const auto [code, message] = outcome_of_reading(folder, damaged);
    EXPECT_TRUE(code == ExitCode::kPass || code == ExitCode::kBadInput) << message;
    refused += code == ExitCode::kBadInput ? 1 : 0;
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace noisemark::suite::test
