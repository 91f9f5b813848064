#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/// cuDNN's convolutions called directly, by algorithm. Knows nothing of LibTorch.
namespace noisemark::baselines::test {

/// cuDNN refused or failed one call; others may work.
class CudnnError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// CUDA failed.
class CudaError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws where a call failed.
inline void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw CudnnError(std::string(what) + ": " + cudnnGetErrorString(status));
}

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw CudaError(std::string(what) + ": " + cudaGetErrorString(status));
}

/// Describes a square 3x3 convolution that is padded to keep the resolution.
struct Shape {
  int in, out, resolution, stride;
};

enum class Direction { kForward, kData, kWeight };

/// Says how numbers are stored, and what cuDNN may do with them.
struct Type {
  const char* name;
  cudnnDataType_t storage;
  cudnnMathType_t math;
};

/// One way to compute a convolution.
struct Choice {
  int algorithm = 0;
  size_t workspace = 0;
  bool deterministic = false;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::string why_not;  ///< cuDNN's own words, where it lists this and then does not take it
};

/// Device memory that frees itself, with no values yet; null for no bytes. Throws CudaError.
[[nodiscard]] std::shared_ptr<void> device_memory(size_t bytes);

/// A descriptor of cuDNN's.
template <typename T, cudnnStatus_t (*kCreate)(T*), cudnnStatus_t (*kDestroy)(T)>
class Described {
 public:
  Described() {
    if (kCreate(&value_) != CUDNN_STATUS_SUCCESS) throw CudnnError("a descriptor was not made");
  }
  ~Described() { (void)kDestroy(value_); }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  [[nodiscard]] T get() const { return value_; }

 private:
  T value_ = nullptr;
};

/// One convolution at batch kBatch. Its methods throw CudnnError.
class Convolution {
 public:
  static constexpr int kBatch = 128;

  struct Operands {
    std::shared_ptr<void> x, y, w;
  };

  Convolution(cudnnHandle_t handle, const Shape& shape, const Type& type,
              cudnnTensorFormat_t format);

  [[nodiscard]] double flop() const;
  /// Device memory for one call, with the same pseudo-random values of either sign in every run:
  /// with constants fewer bits of a GPU change, so that under its power limit it clocks higher than
  /// in training. Throws CudaError.
  [[nodiscard]] Operands operands() const;
  /// The handle's, to which all work is issued.
  [[nodiscard]] cudaStream_t stream() const;

  /// All that cuDNN offers, in the order of its heuristics, which run nothing.
  [[nodiscard]] std::vector<Choice> guessed(Direction direction) const;
  /// The same in the order of the times that cuDNN measures, of all that need no more than
  /// `workspace_bytes`.
  [[nodiscard]] std::vector<Choice> timed(Direction direction, const Operands& operands,
                                          void* workspace, size_t workspace_bytes) const;

  /// The arithmetic of the next run().
  void use(cudnnMathType_t math) const;
  void run(Direction direction, const Choice& choice, const Operands& operands,
           void* workspace) const;

 private:
  template <typename Found>
  [[nodiscard]] std::vector<Choice> usable(Direction direction, const std::vector<Found>& found,
                                           int count) const;
  [[nodiscard]] size_t workspace_of(Direction direction, const Choice& choice) const;

  using Tensor =
      Described<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
  using Filter =
      Described<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
  using Rule = Described<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                         cudnnDestroyConvolutionDescriptor>;

  cudnnHandle_t handle_;
  Shape shape_;
  Type type_;
  Tensor x_, y_;
  Filter w_;
  Rule rule_;
};

}  // namespace noisemark::baselines::test
