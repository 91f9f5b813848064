#include "suite/io/safetensors.h"

#include <sys/resource.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <csignal>
#include <functional>
#include <random>

#include "suite/io/numpy.h"
#include "suite/io/zip.h"
#include "tests/suite/scratch.h"

namespace noisemark::suite::test {
namespace {

TEST(Safetensors, gives_back_every_element_type) {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (const at::ScalarType dtype :
       {at::kDouble, at::kLong, at::kFloat, at::kInt, at::kHalf, at::kBFloat16, at::kShort,
        at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kChar, at::kByte, at::kBool}) {
    tensors.emplace_back(c10::toString(dtype), (at::arange(6) % 2).reshape({2, 3}).to(dtype));
  }
  write_safetensors(folder.path("a"), tensors);
  const SafetensorsFile file = read_safetensors(folder.path("a"));
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file.tensors[i].first, tensors[i].first);
    EXPECT_EQ(file.tensors[i].second.scalar_type(), tensors[i].second.scalar_type());
    EXPECT_TRUE(file.tensors[i].second.to(at::kDouble).equal(tensors[i].second.to(at::kDouble)));
  }
}

TEST(Safetensors, gives_back_scalars_and_empty_tensors_and_nothing) {
  const TemporaryFolder folder;
  write_safetensors(
      folder.path("a"),
      {{"scalar", at::scalar_tensor(2.5)}, {"empty", at::empty({0, 3})}, {"row", at::ones({1})}});
  const auto tensors = read_safetensors(folder.path("a")).tensors;
  EXPECT_EQ(tensors[0].second.dim(), 0);
  EXPECT_EQ(tensors[0].second.item<float>(), 2.5F);
  EXPECT_EQ(tensors[1].second.sizes(), at::IntArrayRef({0, 3}));
  write_safetensors(folder.path("b"), {});
  EXPECT_TRUE(read_safetensors(folder.path("b")).tensors.empty());
}

TEST(Safetensors, keeps_metadata) {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"quote", "\"\\\n é"}};
  write_safetensors(folder.path("a"), {{"x", at::ones({2})}}, metadata);
  EXPECT_EQ(read_safetensors(folder.path("a")).metadata, metadata);
}

TEST(Safetensors, writes_strided_tensors_in_row_major_order) {
  const TemporaryFolder folder;
  const at::Tensor x = at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  write_safetensors(folder.path("a"), {{"x", x}, {"t", x.transpose(0, 3)}});
  const auto tensors = read_safetensors(folder.path("a")).tensors;
  EXPECT_TRUE(tensors[0].second.is_contiguous());
  EXPECT_TRUE(tensors[0].second.equal(x));
  EXPECT_TRUE(tensors[1].second.equal(x.transpose(0, 3)));
}

TEST(Safetensors, aligns_every_tensor_to_its_element) {
  const TemporaryFolder folder;
  write_safetensors(folder.path("a"), {{"flag", at::ones({3}, at::kBool)},
                                       {"half", at::ones({3}, at::kHalf)},
                                       {"wide", at::ones({1}, at::kDouble)}});
  const auto tensors = read_safetensors(folder.path("a")).tensors;
  EXPECT_EQ(tensors[0].first, "wide");
  EXPECT_EQ(tensors[1].first, "half");
  EXPECT_EQ(tensors[2].first, "flag");
  const std::string bytes = file_bytes(folder.path("a"));
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);  // the first tensor begins aligned
}

TEST(Safetensors, replaces_a_file_whole_and_leaves_nothing_beside_it) {
  const TemporaryFolder folder;
  write_safetensors(folder.path("a"), {{"x", at::ones({1000})}});
  write_safetensors(folder.path("a"), {{"y", at::ones({2})}});
  EXPECT_EQ(read_safetensors(folder.path("a")).tensors[0].first, "y");
  EXPECT_EQ(folder.files(), 1);
}

TEST(Safetensors, refuses_two_tensors_of_one_name) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_safetensors(folder.path("a"), {{"x", at::ones({1})}, {"x", at::ones({2})}}),
               c10::Error);
  EXPECT_THROW(write_safetensors(folder.path("a"), {{"__metadata__", at::ones({1})}}), c10::Error);
  EXPECT_EQ(folder.files(), 0);
}

// Every write beyond `bytes` fails, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(Safetensors, that_cannot_be_written_keep_the_old_file_and_say_so) {
  const TemporaryFolder folder;
  write_safetensors(folder.path("a"), {{"old", at::ones({4})}});
  {
    const FileSizeLimit limit(64 * 1024);
    const auto [code, message] = outcome([&] {
      write_safetensors(folder.path("a"), {{"new", at::ones({100'000})}});
    });
    EXPECT_EQ(code, ExitCode::kCannotWrite);
    EXPECT_NE(message.find(folder.path("a")), std::string::npos) << message;
  }
  EXPECT_EQ(folder.files(), 1);
  EXPECT_EQ(read_safetensors(folder.path("a")).tensors[0].first, "old");
}

TEST(Safetensors, in_a_folder_that_is_not_there_cannot_be_written) {
  const TemporaryFolder folder;
  const auto [code, message] = outcome([&] {
    write_safetensors(folder.path("none/a"), {{"x", at::ones({1})}});
  });
  EXPECT_EQ(code, ExitCode::kCannotWrite) << message;
}

std::string with_length(const std::string& header, const std::string& data = "") {
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<uint64_t>(header.size()));
  return std::string(length.data(), length.size()) + header + data;
}

std::pair<ExitCode, std::string> outcome_of_reading(const TemporaryFolder& folder,
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
      {"pointer", "version https://git-lfs.github.com/spec/v1\noid",
       ": a pointer of Git LFS (a sa"},
      {"page", "<!DOCTYPE html>", ": a page of HTML (a safetensors file)"},
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
      {"nested without end", with_length(std::string(1'000'000, '[') + std::string(1'000'000, ']')),
       "nested too deeply"},
      {"metadata of another kind", with_length(R"({"__metadata__":[]})"), "__metadata__"},
      {"metadata value of another kind", with_length(R"({"__metadata__":{"a":1}})"),
       "__metadata__: a"},
  };
  return damages;
}

TEST(DamagedSafetensors, are_refused_with_the_file_and_the_reason) {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  EXPECT_EQ(outcome([&] { (void)read_safetensors(folder.path("none")); }).first,
            ExitCode::kBadInput);
  EXPECT_EQ(outcome([&] { (void)read_safetensors(folder.path("")); }).first, ExitCode::kBadInput);
}

std::string sound_file(const TemporaryFolder& folder) {
  write_safetensors(
      folder.path("sound"),
      {{"a", at::ones({2, 2})}, {"b", at::arange(3)}, {"c", at::ones({3}, at::kBool)}},
      {{"format", "pt"}});
  return file_bytes(folder.path("sound"));
}

TEST(DamagedSafetensors, that_torch_save_wrote_are_called_so) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.pt");
  std::string archive(64, 'x');
  archive.replace(0, 4, "PK\3\4", 4);
  test::put_bytes(path, archive);
  const auto [code, message] = outcome([&] { (void)read_safetensors(path); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_EQ(message, path + ": a ZIP archive, as torch.save writes (a safetensors file)");
}

TEST(DamagedSafetensors, cut_anywhere_are_refused) {
  const TemporaryFolder folder;
  const std::string sound = sound_file(folder);
  EXPECT_EQ(outcome_of_reading(folder, sound).first, ExitCode::kPass);
  for (size_t length = 0; length < sound.size(); ++length) {
    EXPECT_EQ(outcome_of_reading(folder, sound.substr(0, length)).first, ExitCode::kBadInput)
        << length;
  }
}

// The first page of a process is mapped nowhere, so reading it fails; no file of that kind has a
// size.
TEST(DamagedSafetensors, are_told_from_files_whose_reading_fails) {
  const auto words = [](const std::function<void()>& read) {
    const auto [code, message] = outcome(read);
    return fmt::format("{}: {}", static_cast<int>(code), message);
  };
  const std::string failed = "74: /proc/self/mem: cannot be read: Input/output error";
  EXPECT_EQ(words([] { (void)read_safetensors("/proc/self/mem"); }), failed);
  EXPECT_EQ(words([] { (void)read_npy("/proc/self/mem"); }), failed);
  EXPECT_EQ(words([] { (void)ZipFile("/proc/self/mem"); }), failed);
  EXPECT_EQ(words([] { (void)read_safetensors("/proc/self/stat"); }),
            "2: /proc/self/stat: a file whose size is not known (a copy of it on a disk)");
}

// Whatever the damage, the answer is tensors or an Error for the user: never a crash, another
// exception or an allocation that the file's size does not justify.
TEST(DamagedSafetensors, with_random_bytes_changed_never_fail_otherwise) {
  const TemporaryFolder folder;
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
