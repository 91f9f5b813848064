#include "suite/io/npz.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "suite/io/npy.h"
#include "suite/io/tensor_bytes.h"
#include "tests/suite/io/scratch.h"

namespace noisemark::suite::test {
namespace {

NamedTensors statistics() {
  return {{"mu", at::arange(4).to(at::kDouble)},
          {"sigma", at::arange(16).reshape({4, 4}).to(at::kDouble)},
          {"n", at::scalar_tensor(int64_t{7}, at::kLong)}};
}

void put_number(std::string& bytes, size_t at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

/// Where the directory's entry of member `index` begins.
size_t directory_entry(const std::string& bytes, int index) {
  size_t at = 0;
  for (int i = 0; i <= index; ++i) at = bytes.find("PK\x01\x02", at + (i > 0 ? 1 : 0));
  return at;
}

void expect_refused(const ScratchFolder& folder, const std::string& bytes,
                    const std::string& words) {
  put_bytes(folder.path("b.npz"), bytes);
  const auto [code, message] = outcome([&] {
    const NpzFile file(folder.path("b.npz"));
    for (const std::string& name : file.names()) (void)file.array(name);
  });
  EXPECT_EQ(code, ExitCode::kBadInput) << words;
  EXPECT_NE(message.find(folder.path("b.npz")), std::string::npos) << message;
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

std::string written(const ScratchFolder& folder) {
  write_npz(folder.path("a.npz"), statistics());
  return file_bytes(folder.path("a.npz"));
}

TEST(Npz, gives_back_its_arrays_by_name) {
  const ScratchFolder folder;
  write_npz(folder.path("a.npz"), statistics());
  const NpzFile file(folder.path("a.npz"));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"mu", "sigma", "n"}));
  for (const auto& [name, tensor] : statistics()) {
    EXPECT_TRUE(file.has(name));
    EXPECT_TRUE(file.array(name).equal(tensor));
  }
  EXPECT_FALSE(file.has("nu"));
}

TEST(Npz, of_equal_arrays_has_equal_bytes) {
  const ScratchFolder folder;
  EXPECT_EQ(written(folder), written(folder));
}

TEST(Npz, of_nothing_and_of_empty_arrays_can_be_read) {
  const ScratchFolder folder;
  write_npz(folder.path("a.npz"), {});
  EXPECT_TRUE(NpzFile(folder.path("a.npz")).names().empty());
  write_npz(folder.path("b.npz"), {{"none", at::empty({0, 3})}});
  EXPECT_EQ(NpzFile(folder.path("b.npz")).array("none").numel(), 0);
}

TEST(Npz, names_what_it_has_when_an_array_is_absent) {
  const ScratchFolder folder;
  (void)written(folder);
  const auto [code, message] =
      outcome([&] { (void)NpzFile(folder.path("a.npz")).array("features"); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("no array \"features\" (it has: mu, sigma, n)"), std::string::npos);
}

TEST(Npz, that_is_cut_off_anywhere_is_refused) {
  const ScratchFolder folder;
  const std::string whole = written(folder);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    put_bytes(folder.path("b.npz"), whole.substr(0, bytes));
    EXPECT_EQ(outcome([&] { (void)NpzFile(folder.path("b.npz")); }).first, ExitCode::kBadInput)
        << bytes;
  }
}

TEST(Npz, with_one_changed_byte_of_an_array_is_refused) {
  const ScratchFolder folder;
  std::string bytes = written(folder);
  const size_t at = bytes.find("PK\x03\x04", 4) - 1;  // the last byte of mu
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  expect_refused(folder, bytes, "mu.npy: damaged, its checksum does not hold");
}

TEST(Npz, that_points_outside_itself_is_refused) {
  const ScratchFolder folder;
  const std::string whole = written(folder);
  const size_t sigma = directory_entry(whole, 1);
  std::string bytes = whole;
  put_number(bytes, sigma + 42, whole.size(), 4);
  expect_refused(folder, bytes, "sigma.npy: truncated, or not where the directory says");
  bytes = whole;
  put_number(bytes, sigma + 42, 5, 4);
  expect_refused(folder, bytes, "sigma.npy: truncated, or not where the directory says");
  bytes = whole;
  put_number(bytes, sigma + 20, 0x7fffffff, 4);
  expect_refused(folder, bytes, "sigma.npy: truncated, or not where the directory says");
  bytes = whole;
  put_number(bytes, sigma + 28, 0xffff, 2);
  expect_refused(folder, bytes, "its directory is truncated");
  bytes = whole;
  put_number(bytes, whole.size() - 6, 0x7fffffff, 4);
  expect_refused(folder, bytes, "its directory lies beyond its end");
}

TEST(Npz, refuses_what_it_does_not_know_by_name) {
  const ScratchFolder folder;
  const std::string whole = written(folder);
  const size_t mu = directory_entry(whole, 0);
  std::string bytes = whole;
  put_number(bytes, mu + 8, 1, 2);
  expect_refused(folder, bytes, "mu.npy: encrypted");
  bytes = whole;
  put_number(bytes, mu + 10, 12, 2);
  expect_refused(folder, bytes, "mu.npy: compression method 12 (0 (stored) or 8 (deflated))");
  bytes = whole;
  put_number(bytes, mu + 24, 0xffffffff, 4);
  expect_refused(folder, bytes, "ZIP64");
  bytes = whole;
  put_number(bytes, mu + 24, 5, 4);
  expect_refused(folder, bytes, "mu.npy: damaged, two sizes");
  expect_refused(folder, "not an archive at all, but longer than its end", "no ZIP archive");
}

TEST(Npz, refuses_a_name_that_is_there_twice) {
  const ScratchFolder folder;
  write_npz(folder.path("a.npz"), {{"aa", at::ones({1})}, {"ab", at::ones({1})}});
  std::string bytes = file_bytes(folder.path("a.npz"));
  const size_t name = bytes.find("ab.npy", directory_entry(bytes, 1));
  bytes[name + 1] = 'a';
  expect_refused(folder, bytes, "aa.npy: twice");
}

/// A deflated member as numpy.savez_compressed has it, made with zlib itself.
std::string with_deflated(const ScratchFolder& folder, const std::string& content,
                          uint64_t stated_bytes) {
  std::string packed(compressBound(content.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const ZipPart part{"x.npy", {packed}};
  write_zip(folder.path("z"), std::span(&part, 1));
  std::string bytes = file_bytes(folder.path("z"));
  const size_t entry = directory_entry(bytes, 0);
  put_number(bytes, entry + 10, 8, 2);
  put_number(
      bytes, entry + 16,
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())),
      4);
  put_number(bytes, entry + 24, stated_bytes, 4);
  return bytes;
}

TEST(Npz, inflates_and_trusts_no_size) {
  const ScratchFolder folder;
  const at::Tensor x = at::arange(5000).to(at::kDouble);
  const std::string content = npy_header(x) + std::string(bytes_of(x));
  put_bytes(folder.path("a.npz"), with_deflated(folder, content, content.size()));
  EXPECT_TRUE(NpzFile(folder.path("a.npz")).array("x").equal(x));
  for (const int64_t off : {-1, 1}) {
    expect_refused(folder, with_deflated(folder, content, content.size() + off),
                   "x.npy: damaged, cannot be inflated");
  }
  expect_refused(folder, with_deflated(folder, content, 0xfffffff0),
                 "x.npy: damaged, a size that cannot be");
  std::string damaged = with_deflated(folder, content, content.size());
  damaged[200] = static_cast<char>(damaged[200] ^ 0x55);
  expect_refused(folder, damaged, "x.npy: damaged");
}

}  // namespace
}  // namespace noisemark::suite::test
