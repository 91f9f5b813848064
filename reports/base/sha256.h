#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace noisemark::reports {

/// Incremental SHA-256 (FIPS 180-4). Feed bytes with update(); hex() ends it and may be called
/// once. Throws std::logic_error when used after hex(), std::runtime_error when OpenSSL itself
/// fails.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

[[nodiscard]] std::string sha256_of(std::string_view text);

/// Throws Error (bad input) when the file cannot be read.
[[nodiscard]] std::string sha256_of_file(const std::filesystem::path& path);

/// Returns the first digits of a checksum or a commit, as pages show them.
[[nodiscard]] std::string shown_digits(std::string_view hex);

/// Returns whether `text` is 64 lower-case hexadecimal digits.
[[nodiscard]] bool is_sha256(std::string_view text);

}  // namespace noisemark::reports
