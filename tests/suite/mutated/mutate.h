#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

/// Files as accidents and careless programs leave them.
namespace noisemark::suite::test {

using Random = std::mt19937_64;

/// Draws a number below `count`, which is at least 1.
[[nodiscard]] inline size_t below(size_t count, Random& random) {
  return static_cast<size_t>(random() % count);
}

/// Returns `bytes` after one to three accidents: bits that fell over, bytes that were lost,
/// doubled, moved or zeroed, a file that was cut off, integers at their limits.
[[nodiscard]] std::string mutated_bytes(const std::string& bytes, Random& random);

/// The same for text: numbers become extreme, words strange, lines go, double or change places.
[[nodiscard]] std::string mutated_text(const std::string& text, Random& random);

/// Changes one to three values or keys anywhere in a JSON text and leaves it JSON. Where it has a
/// checksum over itself, that holds again: what a program with a mistake would write.
[[nodiscard]] std::string mutated_json(const std::string& text, Random& random);

/// Changes values behind the "=" of TOML and leaves what surrounds them.
[[nodiscard]] std::string mutated_values(const std::string& text, Random& random);

// These leave what a careless writer of a format does: parts of a file go, double, change places or
// change inside. Lengths and checksums of the format hold again, so that a reader goes on past
// them.
[[nodiscard]] std::string mutated_png(const std::string& bytes, Random& random);
[[nodiscard]] std::string mutated_jpeg(const std::string& bytes, Random& random);
[[nodiscard]] std::string mutated_npy(const std::string& bytes, Random& random);
/// `bytes` is a ZIP of arrays; the result is one without compression.
[[nodiscard]] std::string mutated_npz(const std::string& bytes, Random& random);
[[nodiscard]] std::string mutated_safetensors(const std::string& bytes, Random& random);

/// A PNG of 16 pixels by 16: interlaced, of 4 bits, with a palette that is transparent in
/// part.
[[nodiscard]] std::string interlaced_png();

}  // namespace noisemark::suite::test
