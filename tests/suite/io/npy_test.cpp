#include "suite/io/npy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "tests/suite/io/scratch.h"

namespace noisemark::suite::test {
namespace {

/// A header of version 1.0 with this dictionary, and `data` behind it.
std::string npy_of(const std::string& dictionary, const std::string& data, char version = 1) {
  const std::string text = dictionary + "\n";
  std::string bytes("\x93NUMPY", 6);
  bytes += version;
  bytes += '\0';
  bytes += static_cast<char>(text.size() & 0xff);
  bytes += static_cast<char>(text.size() >> 8);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + text + data;
}

std::string dictionary_of(const std::string& descr, const std::string& order,
                          const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

void expect_refused(const std::string& bytes, const std::string& words) {
  const auto [code, message] = outcome([&] { (void)parse_npy(bytes, "the.npy"); });
  EXPECT_EQ(code, ExitCode::kBadInput) << words;
  EXPECT_NE(message.find("the.npy: "), std::string::npos) << message;
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

TEST(Npy, gives_back_every_element_type_and_shape) {
  const ScratchFolder folder;
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kLong, at::kByte}) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{}, {1}, {6}, {2, 3}, {1, 2, 3}, {0, 3}}) {
      int64_t count = 1;
      for (const int64_t extent : shape) count *= extent;
      const at::Tensor written = at::arange(count).reshape(shape).to(dtype);
      write_npy(folder.path("a.npy"), written);
      const at::Tensor read = read_npy(folder.path("a.npy"));
      EXPECT_EQ(read.scalar_type(), dtype);
      EXPECT_TRUE(read.equal(written));
    }
  }
}

/// What numpy 2.4 writes of zeros(5, float32): 118 bytes of header text.
TEST(Npy, has_the_header_that_numpy_writes) {
  const std::string header = npy_header(at::ones({5}));
  EXPECT_EQ(header.size(), 128);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\x01\x00v\x00", 10));
  EXPECT_EQ(header.substr(10, 57), "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }");
  EXPECT_EQ(header.back(), '\n');
  EXPECT_EQ(npy_header(at::ones({})).size(), 128);
}

TEST(Npy, is_written_in_row_major_order_whatever_the_strides) {
  const ScratchFolder folder;
  const at::Tensor x = at::arange(6).reshape({2, 3}).to(at::kFloat);
  write_npy(folder.path("a.npy"), x.t());
  EXPECT_TRUE(read_npy(folder.path("a.npy")).equal(x.t()));
}

TEST(Npy, turns_fortran_order) {
  const std::string data("\x01\x04\x02\x05\x03\x06", 6);  // columns of [[1, 2, 3], [4, 5, 6]]
  const at::Tensor read = parse_npy(npy_of(dictionary_of("|u1", "True", "(2, 3)"), data), "a");
  EXPECT_TRUE(read.is_contiguous());
  EXPECT_TRUE(read.equal((at::arange(6) + 1).reshape({2, 3}).to(at::kByte)));
}

TEST(Npy, reads_the_later_versions_of_the_format) {
  const std::string dictionary = dictionary_of("|u1", "False", "(2,)");
  for (const char version : {char{2}, char{3}}) {
    EXPECT_EQ(parse_npy(npy_of(dictionary, "ab", version), "a").numel(), 2);
  }
  expect_refused(npy_of(dictionary, "ab", 4), ".npy version 4 (1, 2 or 3)");
}

TEST(Npy, refuses_what_is_cut_off_anywhere) {
  const std::string whole = npy_of(dictionary_of("<f8", "False", "(2,)"), std::string(16, 'x'));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const auto [code, message] = outcome([&] { (void)parse_npy(whole.substr(0, bytes), "a"); });
    EXPECT_EQ(code, ExitCode::kBadInput) << bytes;
  }
  expect_refused(whole + "y", "too long: 17 bytes after the header (16 for the shape (2))");
}

TEST(Npy, refuses_other_element_types_and_says_which_it_knows) {
  expect_refused(npy_of(dictionary_of("|O", "False", "(1,)"), "x"),
                 "element type '|O' (float64, float32, int64 or uint8, little-endian)");
  expect_refused(npy_of(dictionary_of(">f8", "False", "(1,)"), "12345678"), "element type '>f8'");
  expect_refused(npy_of("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", "x"),
                 "an array of records");
}

TEST(Npy, refuses_headers_that_are_none) {
  const std::string words = "the header is not one of an array";
  expect_refused("PK\x03\x04 and so on, some bytes", "does not begin as a .npy array does");
  expect_refused(npy_of("", ""), words);
  expect_refused(npy_of("{'descr': '<f8', 'shape': (1,), }", "12345678"), words);
  expect_refused(npy_of(dictionary_of("<f8", "0", "(1,)"), "12345678"), words);
  expect_refused(npy_of(dictionary_of("<f8", "False", "(-1,)"), "12345678"), words);
  expect_refused(npy_of(dictionary_of("<f8", "False", "(1"), "12345678"), words);
  expect_refused(npy_of(dictionary_of("<f8", "False", "(1,)") + "x", "12345678"), words);
  expect_refused(
      npy_of("{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': ()}", ""), words);
}

TEST(Npy, allocates_nothing_for_a_shape_that_its_bytes_do_not_fill) {
  expect_refused(npy_of(dictionary_of("<f8", "False", "(4611686018427387904, 4)"), ""),
                 "more than there can be");
  expect_refused(npy_of(dictionary_of("<f8", "False", "(1000000000000,)"), "12345678"),
                 "truncated: 8 bytes after the header (8000000000000 for the shape");
  expect_refused(npy_of(dictionary_of("<f8", "False", "(0, 9223372036854775807, 9)"), ""),
                 "more than there can be");
}

TEST(Npy, names_a_file_that_is_not_there_and_one_that_is_a_folder) {
  const ScratchFolder folder;
  for (const std::string& path : {folder.path("absent.npy"), folder.path("")}) {
    const auto [code, message] = outcome([&] { (void)read_npy(path); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find(path), std::string::npos) << message;
  }
}

TEST(Npy, of_another_type_is_a_programming_error) {
  const ScratchFolder folder;
  EXPECT_THROW(write_npy(folder.path("a.npy"), at::ones({2}, at::kHalf)), c10::Error);
  EXPECT_EQ(folder.files(), 0);
}

}  // namespace
}  // namespace noisemark::suite::test
