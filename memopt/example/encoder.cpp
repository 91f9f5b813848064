#include "memopt/example/encoder.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>

namespace example {

AttentionImpl::AttentionImpl(const EncoderOptions& options)
    : heads_(options.heads),
      in_(register_module("in", torch::nn::Linear(options.width, 3 * options.width))),
      out_(register_module("out", torch::nn::Linear(options.width, options.width))) {}

at::Tensor AttentionImpl::forward(const at::Tensor& x) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  // [N, length, 3 width] -> 3 x [N, heads, length, width / heads]
  const std::vector<at::Tensor> qkv =
      in_(x).view({batch, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind();
  const at::Tensor h = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
  return out_(h.transpose(1, 2).reshape({batch, length, width}));
}

PerceptronImpl::PerceptronImpl(const EncoderOptions& options)
    : in_(register_module("in", torch::nn::Linear(options.width, 4 * options.width))),
      out_(register_module("out", torch::nn::Linear(4 * options.width, options.width))) {}

at::Tensor PerceptronImpl::forward(const at::Tensor& x) {
  return out_(at::gelu(in_(x)));
}

EncoderLayerImpl::EncoderLayerImpl(const EncoderOptions& options)
    : attention_norm_(register_module(
          "attention_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})))),
      perceptron_norm_(register_module(
          "perceptron_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})))),
      attention_(register_module("attention", Attention(options))),
      perceptron_(register_module("perceptron", Perceptron(options))),
      dropout_(register_module("dropout", torch::nn::Dropout(options.dropout))) {}

at::Tensor EncoderLayerImpl::forward(const at::Tensor& x) {
  const at::Tensor h = x + dropout_(attention_(attention_norm_(x)));
  return h + dropout_(perceptron_(perceptron_norm_(h)));
}

EncoderImpl::EncoderImpl(const EncoderOptions& options)
    : tokens_(register_module("tokens", torch::nn::Embedding(options.vocabulary, options.width))),
      positions_(register_parameter("positions", at::randn({options.length, options.width}))),
      dropout_(register_module("dropout", torch::nn::Dropout(options.dropout))),
      layers_(register_module("layers", torch::nn::ModuleList())),
      norm_(register_module("norm",
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})))),
      head_(register_module("head", torch::nn::Linear(options.width, options.vocabulary))) {
  for (int64_t i = 0; i < options.layers; ++i) layers_->push_back(EncoderLayer(options));
}

at::Tensor EncoderImpl::forward(const at::Tensor& tokens) {
  at::Tensor h = dropout_(tokens_(tokens) + positions_);
  for (const auto& layer : *layers_) h = layer->as<EncoderLayerImpl>()->forward(h);
  return head_(norm_(h));
}

}  // namespace example
