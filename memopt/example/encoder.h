#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

/// A model as anybody may write one with torch::nn: it knows nothing of memopt.
namespace example {

struct EncoderOptions {
  int64_t vocabulary = 16;
  int64_t length = 32;  ///< of a sequence
  int64_t width = 64;   ///< a multiple of `heads`
  int64_t heads = 4;
  int64_t layers = 2;
  double dropout = 0.1;
};

/// Every position looks at every other one (Vaswani et al. 2017).
class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const EncoderOptions& options);
  /// x [N, length, width] -> [N, length, width]
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t heads_;
  torch::nn::Linear in_, out_;
};
TORCH_MODULE(Attention);

/// Two linear layers with GELU between them.
class PerceptronImpl : public torch::nn::Module {
 public:
  explicit PerceptronImpl(const EncoderOptions& options);
  /// x [N, length, width] -> [N, length, width]
  at::Tensor forward(const at::Tensor& x);

 private:
  torch::nn::Linear in_, out_;
};
TORCH_MODULE(Perceptron);

/// Attention and perceptron, each behind a layer norm and beside a residual connection.
class EncoderLayerImpl : public torch::nn::Module {
 public:
  explicit EncoderLayerImpl(const EncoderOptions& options);
  /// x [N, length, width] -> [N, length, width]
  at::Tensor forward(const at::Tensor& x);

 private:
  torch::nn::LayerNorm attention_norm_, perceptron_norm_;
  Attention attention_;
  Perceptron perceptron_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(EncoderLayer);

/// Names a token for every position of a sequence of tokens.
class EncoderImpl : public torch::nn::Module {
 public:
  explicit EncoderImpl(const EncoderOptions& options);
  /// tokens int64 [N, length] in [0, vocabulary) -> logits [N, length, vocabulary]
  at::Tensor forward(const at::Tensor& tokens);

 private:
  torch::nn::Embedding tokens_;
  at::Tensor positions_;  ///< a parameter [length, width]
  torch::nn::Dropout dropout_;
  torch::nn::ModuleList layers_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Encoder);

}  // namespace example
