#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Memory that a kernel cannot leave at its end.
namespace noisemark::test::gpu {

/// `bytes` that end where a page begins that nobody may touch: what reads or writes behind them
/// ends the process. Their beginning is aligned as far as their number allows. It is filled with
/// ones, which is NaN where it is floating.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t bytes);
  ~GuardedBytes();
  GuardedBytes(GuardedBytes&& other) noexcept;
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  GuardedBytes& operator=(GuardedBytes&&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] size_t size() const { return bytes_; }

 private:
  void* pages_ = nullptr;
  size_t all_bytes_ = 0;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// The same as elements.
template <typename T>
class Guarded {
 public:
  explicit Guarded(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(T)) {}
  explicit Guarded(const std::vector<T>& values) : Guarded(static_cast<int64_t>(values.size())) {
    for (size_t i = 0; i < values.size(); ++i) data()[i] = values[i];
  }

  [[nodiscard]] T* data() const { return static_cast<T*>(bytes_.data()); }
  [[nodiscard]] std::vector<T> values() const {
    return {data(), data() + bytes_.size() / sizeof(T)};
  }

 private:
  GuardedBytes bytes_;
};

}  // namespace noisemark::test::gpu
