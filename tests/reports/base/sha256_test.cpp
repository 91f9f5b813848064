#include "reports/base/sha256.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "reports/base/error.h"

namespace noisemark::reports {
namespace {

// FIPS 180-4 example vectors (NIST, SHA256.pdf).
TEST(Sha256, gives_the_published_digests) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, does_not_depend_on_how_the_bytes_are_split) {
  const std::string text(100000, 'x');
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += 777) hash.update(text.substr(at, 777));
  EXPECT_EQ(hash.hex(), sha256_of(text));
}

TEST(Sha256, of_a_file_is_that_of_its_bytes) {
  const auto path = std::filesystem::path(testing::TempDir()) / "noisemark_sha256_test.bin";
  const std::string bytes((size_t{1} << 20U) + 17, '\0');
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(sha256_of_file(path), sha256_of(bytes));
  std::filesystem::remove(path);
}

TEST(Sha256, names_the_file_that_is_not_there) {
  try {
    (void)sha256_of_file("/nowhere/at.all");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at.all"), std::string::npos);
  }
}

TEST(Sha256, refuses_use_after_the_end) {
  Sha256 hash;
  (void)hash.hex();
  EXPECT_THROW(hash.update("more"), std::logic_error);
  EXPECT_THROW((void)hash.hex(), std::logic_error);
}

TEST(Sha256, knows_the_shape_of_a_digest) {
  EXPECT_TRUE(is_sha256(sha256_of("")));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
  EXPECT_FALSE(is_sha256(std::string(63, 'a')));
}

}  // namespace
}  // namespace noisemark::reports
