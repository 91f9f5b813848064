#include "suite/io/safetensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/suite/io/scratch.h"

namespace noisemark::suite::test {
namespace {

TEST(Safetensors, gives_back_every_element_type) {
  const ScratchFolder folder;
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
  const ScratchFolder folder;
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
  const ScratchFolder folder;
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"quote", "\"\\\n é"}};
  write_safetensors(folder.path("a"), {{"x", at::ones({2})}}, metadata);
  EXPECT_EQ(read_safetensors(folder.path("a")).metadata, metadata);
}

TEST(Safetensors, writes_strided_tensors_in_row_major_order) {
  const ScratchFolder folder;
  const at::Tensor x = at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  write_safetensors(folder.path("a"), {{"x", x}, {"t", x.transpose(0, 3)}});
  const auto tensors = read_safetensors(folder.path("a")).tensors;
  EXPECT_TRUE(tensors[0].second.is_contiguous());
  EXPECT_TRUE(tensors[0].second.equal(x));
  EXPECT_TRUE(tensors[1].second.equal(x.transpose(0, 3)));
}

TEST(Safetensors, aligns_every_tensor_to_its_element) {
  const ScratchFolder folder;
  write_safetensors(folder.path("a"), {{"flag", at::ones({3}, at::kBool)},
                                       {"half", at::ones({3}, at::kHalf)},
                                       {"wide", at::ones({1}, at::kDouble)}});
  const auto tensors = read_safetensors(folder.path("a")).tensors;
  EXPECT_EQ(tensors[0].first, "wide");
  EXPECT_EQ(tensors[1].first, "half");
  EXPECT_EQ(tensors[2].first, "flag");
  const std::string bytes = file_bytes(folder.path("a"));
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);  // so the first tensor begins aligned
}

TEST(Safetensors, replaces_a_file_whole_and_leaves_nothing_beside_it) {
  const ScratchFolder folder;
  write_safetensors(folder.path("a"), {{"x", at::ones({1000})}});
  write_safetensors(folder.path("a"), {{"y", at::ones({2})}});
  EXPECT_EQ(read_safetensors(folder.path("a")).tensors[0].first, "y");
  EXPECT_EQ(folder.files(), 1);
}

TEST(Safetensors, refuses_two_tensors_of_one_name) {
  const ScratchFolder folder;
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
  const ScratchFolder folder;
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
  const ScratchFolder folder;
  const auto [code, message] = outcome([&] {
    write_safetensors(folder.path("none/a"), {{"x", at::ones({1})}});
  });
  EXPECT_EQ(code, ExitCode::kCannotWrite) << message;
}

}  // namespace
}  // namespace noisemark::suite::test
