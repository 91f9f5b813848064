#include "memopt/example/models.h"

#include <ATen/Functions.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

namespace example {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel = 3, int64_t stride = 1) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2));
}

/// Two convolutions with batch norm beside a shortcut (He et al. 2016).
class ResidualBlockImpl : public nn::Module {
 public:
  ResidualBlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1_(register_module("conv1", convolution(in, out, 3, stride))),
        norm1_(register_module("norm1", nn::BatchNorm2d(out))),
        conv2_(register_module("conv2", convolution(out, out))),
        norm2_(register_module("norm2", nn::BatchNorm2d(out))),
        shortcut_(register_module("shortcut", nn::Sequential())) {
    if (stride == 1 && in == out) return;
    shortcut_->push_back(convolution(in, out, 1, stride));
    shortcut_->push_back(nn::BatchNorm2d(out));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = norm2_(conv2_(at::relu(norm1_(conv1_(x)))));
    return at::relu(h + (shortcut_->is_empty() ? x : shortcut_->forward(x)));
  }

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d norm1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d norm2_;
  nn::Sequential shortcut_;
};
TORCH_MODULE(ResidualBlock);

/// Names one of ten classes for every image [N, 3, 16, 16].
nn::Sequential make_resnet() {
  nn::Sequential net(convolution(3, 16), nn::BatchNorm2d(16), nn::ReLU());
  for (const auto& [in, out] :
       {std::pair(16, 16), {16, 16}, {16, 32}, {32, 32}, {32, 64}, {64, 64}})
    net->push_back(ResidualBlock(in, out, out / in));
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(64, 10));
  return net;
}

/// The same (Simonyan and Zisserman 2015).
nn::Sequential make_vgg() {
  nn::Sequential net;
  for (const auto& [in, out] : {std::pair(3, 32), {32, 64}, {64, 64}}) {
    net->push_back(convolution(in, out));
    net->push_back(nn::ReLU());
    net->push_back(convolution(out, out));
    net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool2d(2));
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(64 * 2 * 2, 128));
  net->push_back(nn::ReLU());
  net->push_back(nn::Dropout(0.5));
  net->push_back(nn::Linear(128, 10));
  return net;
}

/// Every position looks at every other one, or at those before it (Vaswani et al. 2017).
class AttentionImpl : public nn::Module {
 public:
  AttentionImpl(int64_t width, int64_t heads, bool causal)
      : heads_(heads),
        causal_(causal),
        in_(register_module("in", nn::Linear(width, 3 * width))),
        out_(register_module("out", nn::Linear(width, width))) {}

  /// x [N, length, width] -> [N, length, width]
  at::Tensor forward(const at::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    // [N, length, 3 width] -> 3 x [N, heads, length, width / heads]
    const std::vector<at::Tensor> qkv =
        in_(x).view({batch, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind();
    const at::Tensor h = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, causal_);
    return out_(h.transpose(1, 2).reshape({batch, length, width}));
  }

 private:
  int64_t heads_;
  bool causal_;
  nn::Linear in_, out_;
};
TORCH_MODULE(Attention);

nn::Sequential perceptron(int64_t width) {
  return nn::Sequential(nn::Linear(width, 4 * width), nn::GELU(), nn::Linear(4 * width, width));
}

nn::LayerNorm layer_norm(int64_t width, bool affine = true) {
  return nn::LayerNorm(nn::LayerNormOptions({width}).elementwise_affine(affine));
}

constexpr int64_t kWidth = 64;
constexpr int64_t kHeads = 4;
constexpr int64_t kLayers = 6;

/// A layer of a decoder (Radford et al. 2019).
class GptBlockImpl : public nn::Module {
 public:
  GptBlockImpl()
      : norm1_(register_module("norm1", layer_norm(kWidth))),
        attention_(register_module("attention", Attention(kWidth, kHeads, /*causal=*/true))),
        norm2_(register_module("norm2", layer_norm(kWidth))),
        perceptron_(register_module("perceptron", perceptron(kWidth))),
        dropout_(register_module("dropout", nn::Dropout(0.1))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = x + dropout_(attention_(norm1_(x)));
    return h + dropout_(perceptron_->forward(norm2_(h)));
  }

 private:
  nn::LayerNorm norm1_;
  Attention attention_;
  nn::LayerNorm norm2_;
  nn::Sequential perceptron_;
  nn::Dropout dropout_;
};
TORCH_MODULE(GptBlock);

constexpr int64_t kVocabulary = 32;
constexpr int64_t kLength = 64;

/// Names the next token at every position of tokens [N, length].
class GptImpl : public nn::Module {
 public:
  GptImpl()
      : tokens_(register_module("tokens", nn::Embedding(kVocabulary, kWidth))),
        positions_(register_parameter("positions", at::randn({kLength, kWidth}).mul_(0.02))),
        layers_(register_module("layers", nn::Sequential())),
        norm_(register_module("norm", layer_norm(kWidth))),
        head_(register_module("head", nn::Linear(kWidth, kVocabulary))) {
    for (int64_t i = 0; i < kLayers; ++i) layers_->push_back(GptBlock());
  }

  /// -> logits [N, length, vocabulary]
  at::Tensor forward(const at::Tensor& tokens) {
    return head_(norm_(layers_->forward(tokens_(tokens) + positions_)));
  }

 private:
  nn::Embedding tokens_;
  at::Tensor positions_;
  nn::Sequential layers_;
  nn::LayerNorm norm_;
  nn::Linear head_;
};
TORCH_MODULE(Gpt);

/// Two layers of LSTM with the same task.
class LstmImpl : public nn::Module {
 public:
  LstmImpl()
      : tokens_(register_module("tokens", nn::Embedding(kVocabulary, kWidth))),
        lstm_(register_module(
            "lstm", nn::LSTM(nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true)))),
        head_(register_module("head", nn::Linear(kWidth, kVocabulary))) {}

  at::Tensor forward(const at::Tensor& tokens) {
    return head_(std::get<0>(lstm_(tokens_(tokens))));
  }

 private:
  nn::Embedding tokens_;
  nn::LSTM lstm_;
  nn::Linear head_;
};
TORCH_MODULE(Lstm);

/// time [N] -> [N, width], waves of many lengths through a perceptron.
class TimeEmbeddingImpl : public nn::Module {
 public:
  TimeEmbeddingImpl()
      : in_(register_module("in", nn::Linear(kWidth, kWidth))),
        out_(register_module("out", nn::Linear(kWidth, kWidth))) {}

  at::Tensor forward(const at::Tensor& time) {
    const at::Tensor frequencies = at::exp(at::arange(kWidth / 2) * (-8.0 / kWidth)) * 100;
    const at::Tensor phases = time.unsqueeze(1) * frequencies;
    return out_(at::silu(in_(at::cat({phases.sin(), phases.cos()}, 1))));
  }

 private:
  nn::Linear in_, out_;
};
TORCH_MODULE(TimeEmbedding);

/// A layer whose norms are scaled and shifted by the time (Peebles and Xie 2023).
class DitBlockImpl : public nn::Module {
 public:
  DitBlockImpl()
      : norm1_(register_module("norm1", layer_norm(kWidth, /*affine=*/false))),
        attention_(register_module("attention", Attention(kWidth, kHeads, /*causal=*/false))),
        norm2_(register_module("norm2", layer_norm(kWidth, /*affine=*/false))),
        perceptron_(register_module("perceptron", perceptron(kWidth))),
        modulation_(register_module("modulation", nn::Linear(kWidth, 6 * kWidth))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& time) {
    const std::vector<at::Tensor> m = modulation_(at::silu(time)).unsqueeze(1).chunk(6, 2);
    const at::Tensor h = x + m[2] * attention_(norm1_(x) * (1 + m[1]) + m[0]);
    return h + m[5] * perceptron_->forward(norm2_(h) * (1 + m[4]) + m[3]);
  }

 private:
  nn::LayerNorm norm1_;
  Attention attention_;
  nn::LayerNorm norm2_;
  nn::Sequential perceptron_;
  nn::Linear modulation_;
};
TORCH_MODULE(DitBlock);

/// x [N, 3, 16, 16], time [N] -> the noise in x; in patches of 2x2.
class DitImpl : public nn::Module {
 public:
  DitImpl()
      : time_(register_module("time", TimeEmbedding())),
        patches_(register_module("patches", nn::Conv2d(nn::Conv2dOptions(3, kWidth, 2).stride(2)))),
        positions_(register_parameter("positions", at::randn({64, kWidth}).mul_(0.02))),
        layers_(register_module("layers", nn::ModuleList())),
        norm_(register_module("norm", layer_norm(kWidth))),
        head_(register_module("head", nn::Linear(kWidth, 3 * 2 * 2))) {
    for (int64_t i = 0; i < kLayers; ++i) layers_->push_back(DitBlock());
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& time) {
    const at::Tensor embedded = time_(time);
    at::Tensor h = patches_(x).flatten(2).transpose(1, 2) + positions_;
    for (const auto& layer : *layers_) h = layer->as<DitBlockImpl>()->forward(h, embedded);
    return at::pixel_shuffle(head_(norm_(h)).transpose(1, 2).reshape({x.size(0), 12, 8, 8}), 2);
  }

 private:
  TimeEmbedding time_;
  nn::Conv2d patches_;
  at::Tensor positions_;
  nn::ModuleList layers_;
  nn::LayerNorm norm_;
  nn::Linear head_;
};
TORCH_MODULE(Dit);

nn::GroupNorm group_norm(int64_t channels) {
  return nn::GroupNorm(nn::GroupNormOptions(8, channels));
}

/// Group norm, SiLU and convolution, twice, with the time between (Ho et al. 2020).
class TimedBlockImpl : public nn::Module {
 public:
  TimedBlockImpl(int64_t in, int64_t out)
      : norm1_(register_module("norm1", group_norm(in))),
        conv1_(register_module("conv1", convolution(in, out))),
        time_(register_module("time", nn::Linear(kWidth, out))),
        norm2_(register_module("norm2", group_norm(out))),
        dropout_(register_module("dropout", nn::Dropout(0.1))),
        conv2_(register_module("conv2", convolution(out, out))),
        shortcut_(register_module("shortcut", convolution(in, out, 1))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& time) {
    const at::Tensor h = conv1_(at::silu(norm1_(x))) + time_(time).unsqueeze(2).unsqueeze(3);
    return shortcut_(x) + conv2_(dropout_(at::silu(norm2_(h))));
  }

 private:
  nn::GroupNorm norm1_;
  nn::Conv2d conv1_;
  nn::Linear time_;
  nn::GroupNorm norm2_;
  nn::Dropout dropout_;
  nn::Conv2d conv2_, shortcut_;
};
TORCH_MODULE(TimedBlock);

/// Attention between the pixels.
class PixelAttentionImpl : public nn::Module {
 public:
  explicit PixelAttentionImpl(int64_t channels)
      : norm_(register_module("norm", group_norm(channels))),
        attention_(register_module("attention", Attention(channels, 1, /*causal=*/false))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = attention_(norm_(x).flatten(2).transpose(1, 2));
    return x + h.transpose(1, 2).reshape(x.sizes());
  }

 private:
  nn::GroupNorm norm_;
  Attention attention_;
};
TORCH_MODULE(PixelAttention);

/// x [N, 3, 16, 16], time [N] -> the noise in x.
class UNetImpl : public nn::Module {
 public:
  UNetImpl()
      : time_(register_module("time", TimeEmbedding())),
        stem_(register_module("stem", convolution(3, 32))),
        down_(register_module("down", TimedBlock(32, 32))),
        halve_(register_module("halve", convolution(32, 64, 3, 2))),
        middle1_(register_module("middle1", TimedBlock(64, 64))),
        attention_(register_module("attention", PixelAttention(64))),
        middle2_(register_module("middle2", TimedBlock(64, 64))),
        up_(register_module("up", TimedBlock(96, 32))),
        norm_(register_module("norm", group_norm(32))),
        head_(register_module("head", convolution(32, 3))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& time) {
    const at::Tensor embedded = time_(time);
    const at::Tensor skip = down_(stem_(x), embedded);
    at::Tensor h = attention_(middle1_(halve_(skip), embedded));
    h = at::upsample_nearest2d(middle2_(h, embedded), at::IntArrayRef{16, 16});
    h = up_(at::cat({h, skip}, 1), embedded);
    return head_(at::silu(norm_(h)));
  }

 private:
  TimeEmbedding time_;
  nn::Conv2d stem_;
  TimedBlock down_;
  nn::Conv2d halve_;
  TimedBlock middle1_;
  PixelAttention attention_;
  TimedBlock middle2_, up_;
  nn::GroupNorm norm_;
  nn::Conv2d head_;
};
TORCH_MODULE(UNet);

constexpr int64_t kBatch = 16;

/// Waves with a frequency of their own for every class [N], a phase of their own for every image.
at::Tensor images_of(const at::Tensor& classes) {
  const at::Tensor place = at::arange(3 * 16 * 16).view({1, 3, 16, 16});
  const at::Tensor frequency = (classes + 1).view({-1, 1, 1, 1}) * 0.2;
  return at::sin(place * frequency + at::rand({classes.size(0), 1, 1, 1}) * 6.28);
}

/// {images, classes}
std::vector<at::Tensor> draw_classified_images() {
  const at::Tensor classes = at::randint(10, {kBatch}, at::kLong);
  return {images_of(classes) + at::randn({kBatch, 3, 16, 16}) * 0.3, classes};
}

/// {noisy images, time, noise}
std::vector<at::Tensor> draw_noisy_images() {
  const at::Tensor time = at::rand({kBatch});
  const at::Tensor noise = at::randn({kBatch, 3, 16, 16});
  const at::Tensor angle = time.view({-1, 1, 1, 1}) * 1.57;
  const at::Tensor images = images_of(at::randint(10, {kBatch}, at::kLong));
  return {angle.cos() * images + angle.sin() * noise, time, noise};
}

/// {tokens, the token behind each}: every token names the next one.
std::vector<at::Tensor> draw_sequences() {
  const at::Tensor first = at::randint(kVocabulary, {kBatch, 1}, at::kLong);
  const at::Tensor sequence = (first + at::arange(kLength + 1) * 5).remainder(kVocabulary);
  return {sequence.slice(1, 0, kLength), sequence.slice(1, 1)};
}

Task classifier(nn::Sequential model) {
  return {model.ptr(), &draw_classified_images, [model](const std::vector<at::Tensor>& b) mutable {
            return at::cross_entropy_loss(model->forward(b[0]), b[1]);
          }};
}

template <typename Model>
Task denoiser() {
  Model model;
  return {model.ptr(), &draw_noisy_images, [model](const std::vector<at::Tensor>& b) mutable {
            return at::mse_loss(model(b[0], b[1]), b[2]);
          }};
}

template <typename Model>
Task next_token() {
  Model model;
  return {model.ptr(), &draw_sequences, [model](const std::vector<at::Tensor>& b) mutable {
            return at::cross_entropy_loss(model(b[0]).flatten(0, 1), b[1].flatten());
          }};
}

constexpr TaskEntry kTasks[] = {
    {"resnet", "residual blocks with batch norm", [] { return classifier(make_resnet()); }},
    {"vgg", "convolutions, ReLU and max pooling", [] { return classifier(make_vgg()); }},
    {"dit", "a diffusion transformer", &denoiser<Dit>},
    {"gpt", "a decoder of tokens", &next_token<Gpt>},
    {"lstm", "two layers of LSTM", &next_token<Lstm>},
    {"unet", "a diffusion U-Net with attention", &denoiser<UNet>},
};

}  // namespace

std::span<const TaskEntry> tasks() {
  return kTasks;
}

}  // namespace example
