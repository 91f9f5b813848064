#include "suite/io/numpy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "suite/io/tensors.h"
#include "tests/suite/scratch.h"

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
  const TemporaryFolder folder;
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

/// The bytes that numpy 2.4 writes of zeros(5, float32): 118 bytes of header text.
TEST(Npy, has_the_header_that_numpy_writes) {
  const std::string header = npy_header(at::ones({5}));
  EXPECT_EQ(header.size(), 128);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\x01\x00v\x00", 10));
  EXPECT_EQ(header.substr(10, 57), "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }");
  EXPECT_EQ(header.back(), '\n');
  EXPECT_EQ(npy_header(at::ones({})).size(), 128);
}

TEST(Npy, is_written_in_row_major_order_whatever_the_strides) {
  const TemporaryFolder folder;
  const at::Tensor x = at::arange(6).reshape({2, 3}).to(at::kFloat);
  write_npy(folder.path("a.npy"), x.t());
  EXPECT_TRUE(read_npy(folder.path("a.npy")).equal(x.t()));
}

TEST(Npy, reads_the_long_integers_and_texts_of_python_2) {
  const std::string data("\1\2\3\4\5\6", 6);
  for (const char* shape : {"(2L, 3L)", "(2L, 3)", "(2L,3L,)"}) {
    const at::Tensor read = parse_npy(npy_of(dictionary_of("|u1", "False", shape), data), "a");
    EXPECT_TRUE(read.equal((at::arange(6) + 1).reshape({2, 3}).to(at::kByte))) << shape;
  }
  const std::string unicode = "{u'descr': u'|u1', u'fortran_order': False, u'shape': (6L,), }";
  EXPECT_EQ(parse_npy(npy_of(unicode, data), "a").numel(), 6);
  expect_refused(npy_of(dictionary_of("|u1", "False", "(6LL,)"), data), "the header is not one");
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
  for (const char* descr : {"b'<f8'", "5", "('<f8', (3,))"}) {
    const std::string dictionary =
        fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (1,), }}", descr);
    expect_refused(npy_of(dictionary, "12345678"), "an element type that is no text (float64, ");
  }
}

TEST(Npy, refuses_headers_that_are_none) {
  const std::string words = "the header is not one of an array";
  expect_refused("PK\x03\x04 and so on, some bytes", "does not begin as a .npy array does");
  expect_refused(npy_of("", ""), words);
  expect_refused(npy_of("{'descr': '<f8', 'shape': (1,), }", "12345678"), words);
  expect_refused(npy_of(dictionary_of("<f8", "0", "(1,)"), "12345678"), words);
  expect_refused(npy_of(dictionary_of("<f8", "False", "(-1,)"), "12345678"), words);
  expect_refused(npy_of(dictionary_of("<f8", "False", "(1"), "12345678"), words);
  for (const char* no_tuple : {"(1)", "(1L)", "((1))", "(,)", "(1,,)", "[1]"}) {
    expect_refused(npy_of(dictionary_of("<f8", "False", no_tuple), "12345678"), words);
  }
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
  const TemporaryFolder folder;
  for (const std::string& path : {folder.path("absent.npy"), folder.path("")}) {
    const auto [code, message] = outcome([&] { (void)read_npy(path); });
    EXPECT_EQ(code, ExitCode::kBadInput);
    EXPECT_NE(message.find(path), std::string::npos) << message;
  }
}

TEST(Npy, of_another_type_is_a_programming_error) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_npy(folder.path("a.npy"), at::ones({2}, at::kHalf)), c10::Error);
  EXPECT_EQ(folder.files(), 0);
}

NamedTensors statistics() {
  return {{"mu", at::arange(4).to(at::kDouble)},
          {"sigma", at::arange(16).reshape({4, 4}).to(at::kDouble)},
          {"n", at::scalar_tensor(int64_t{7}, at::kLong)}};
}

void put_number(std::string& bytes, size_t at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

/// Returns where the directory's entry of member `index` begins.
size_t directory_entry(const std::string& bytes, int index) {
  size_t at = 0;
  for (int i = 0; i <= index; ++i) at = bytes.find("PK\x01\x02", at + (i > 0 ? 1 : 0));
  return at;
}

void expect_refused(const TemporaryFolder& folder, const std::string& bytes,
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

std::string written(const TemporaryFolder& folder) {
  write_npz(folder.path("a.npz"), statistics());
  return file_bytes(folder.path("a.npz"));
}

TEST(Npz, gives_back_its_arrays_by_name) {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  EXPECT_EQ(written(folder), written(folder));
}

TEST(Npz, of_nothing_and_of_empty_arrays_can_be_read) {
  const TemporaryFolder folder;
  write_npz(folder.path("a.npz"), {});
  EXPECT_TRUE(NpzFile(folder.path("a.npz")).names().empty());
  write_npz(folder.path("b.npz"), {{"none", at::empty({0, 3})}});
  EXPECT_EQ(NpzFile(folder.path("b.npz")).array("none").numel(), 0);
}

TEST(Npz, names_what_it_has_when_an_array_is_absent) {
  const TemporaryFolder folder;
  (void)written(folder);
  const auto [code, message] =
      outcome([&] { (void)NpzFile(folder.path("a.npz")).array("features"); });
  EXPECT_EQ(code, ExitCode::kBadInput);
  EXPECT_NE(message.find("no array \"features\" (it has: mu, sigma, n)"), std::string::npos);
}

TEST(Npz, reads_an_array_whose_name_in_the_archive_has_no_extension_as_numpy_does) {
  const TemporaryFolder folder;
  std::string bytes = written(folder);
  for (const std::string name : {"mu.npy", "sigma.npy"}) {
    for (size_t at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at + 1)) {
      bytes.replace(at + name.size() - 4, 4, "_raw");  // the length stays the same, so no offset
                                                       // moves
    }
  }
  put_bytes(folder.path("b.npz"), bytes);
  const NpzFile file(folder.path("b.npz"));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"mu_raw", "sigma_raw", "n"}));
  EXPECT_TRUE(at::equal(file.array("mu_raw"), statistics()[0].second));
}

TEST(Npz, that_is_cut_off_anywhere_is_refused) {
  const TemporaryFolder folder;
  const std::string whole = written(folder);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    put_bytes(folder.path("b.npz"), whole.substr(0, bytes));
    EXPECT_EQ(outcome([&] { (void)NpzFile(folder.path("b.npz")); }).first, ExitCode::kBadInput)
        << bytes;
  }
}

TEST(Npz, with_one_changed_byte_of_an_array_is_refused) {
  const TemporaryFolder folder;
  std::string bytes = written(folder);
  const size_t at = bytes.find("PK\x03\x04", 4) - 1;  // the last byte of mu
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  expect_refused(folder, bytes, "mu.npy: damaged, its checksum does not hold");
}

TEST(Npz, that_points_outside_itself_is_refused) {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  write_npz(folder.path("a.npz"), {{"aa", at::ones({1})}, {"ab", at::ones({1})}});
  std::string bytes = file_bytes(folder.path("a.npz"));
  const size_t name = bytes.find("ab.npy", directory_entry(bytes, 1));
  bytes[name + 1] = 'a';
  expect_refused(folder, bytes, "aa.npy: twice");
}

/// A deflated member as numpy.savez_compressed has it, made with zlib itself.
std::string with_deflated(const TemporaryFolder& folder, const std::string& content,
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
  const TemporaryFolder folder;
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
