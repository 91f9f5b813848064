#include "suite/sampling/patches.h"

#include <algorithm>
#include <vector>

namespace noisemark::suite {
namespace {

/// Adds up, for one image, what the layers at one resolution give.
class Sum {
 public:
  explicit Sum(int64_t ranks) : ranks_(ranks) {}

  void convolution(int64_t channels, int64_t width) { elements_ += 2 * channels * width; }
  void padded_below(int64_t channels, int64_t width) { elements_ += channels * (width + 1); }
  void group_norm(int64_t groups) {
    elements_ += 2 * groups;
    norms_ += 2 * groups;
    ++group_norms_;
  }
  void attention(int64_t keys_and_values, int64_t width) {
    elements_ += width / ranks_ * width * keys_and_values;
  }
  [[nodiscard]] int64_t elements() const { return elements_; }
  [[nodiscard]] int64_t norms() const { return norms_; }
  [[nodiscard]] int64_t group_norms() const { return group_norms_; }

 private:
  int64_t ranks_;
  int64_t elements_ = 0;
  int64_t norms_ = 0;  ///< the part of them that group norms give
  int64_t group_norms_ = 0;
};

int64_t channels_of(const ModelConfig& model, size_t stage) {
  return model.dim * model.dim_mults[stage];
}

void ho_block(const ModelConfig& model, int64_t in, int64_t out, int64_t width, bool attention,
              Sum& sum) {
  sum.group_norm(model.groups);
  sum.convolution(in, width);
  sum.group_norm(model.groups);
  sum.convolution(out, width);
  if (!attention) return;
  sum.group_norm(model.groups);
  sum.attention(2 * out, width);
}

void ho_stage_down(const ModelConfig& model, size_t stage, bool attention, Sum& sum) {
  const int64_t width = model.resolution >> stage;
  const int64_t out = channels_of(model, stage);
  int64_t in = stage == 0 ? model.dim * model.dim_mults.front() : channels_of(model, stage - 1);
  for (int64_t i = 0; i < model.res_blocks; ++i) {
    ho_block(model, in, out, width, attention, sum);
    in = out;
  }
  if (stage + 1 == model.dim_mults.size()) return;
  if (model.downsample == "max_pool") {
    sum.convolution(out, width);
  } else {
    sum.padded_below(out, width);
  }
}

void ho_stage_up(const ModelConfig& model, size_t stage, bool attention, Sum& sum) {
  const int64_t width = model.resolution >> stage;
  const int64_t out = channels_of(model, stage);
  const bool innermost = stage + 1 == model.dim_mults.size();
  int64_t in = innermost ? out : channels_of(model, stage + 1);
  for (int64_t i = 0; i <= model.res_blocks; ++i) {
    const int64_t skip =
        i < model.res_blocks ? out : channels_of(model, stage == 0 ? 0 : stage - 1);
    ho_block(model, in + skip, out, width, attention, sum);
    in = out;
  }
  if (stage > 0) sum.convolution(out, 2 * width);
}

void ho_layers(const ModelConfig& model, Sum& sum) {
  const size_t stages = model.dim_mults.size();
  for (size_t stage = 0; stage < stages; ++stage) {
    const auto& there = model.attention_resolutions;
    const bool attention =
        std::find(there.begin(), there.end(), model.resolution >> stage) != there.end();
    ho_stage_down(model, stage, attention, sum);
    ho_stage_up(model, stage, attention, sum);
  }
  const int64_t lowest = model.resolution >> (stages - 1);
  const int64_t widest = channels_of(model, stages - 1);
  ho_block(model, widest, widest, lowest, true, sum);
  ho_block(model, widest, widest, lowest, false, sum);
  sum.group_norm(model.groups);
  sum.convolution(channels_of(model, 0), model.resolution);
}

/// Its norms are over channels, so that they need no other band.
void lucid_block(int64_t in, int64_t out, int64_t width, Sum& sum) {
  sum.convolution(in, width);
  sum.convolution(out, width);
}

void lucid_stage(const ModelConfig& model, size_t stage, Sum& sum) {
  const int64_t width = model.resolution >> stage;
  const int64_t outer = stage == 0 ? model.dim : channels_of(model, stage - 1);
  const int64_t inner = channels_of(model, stage);
  for (int i = 0; i < 2; ++i) {
    lucid_block(outer, outer, width, sum);
    lucid_block(inner + outer, inner, width, sum);
  }
  const int64_t keys_and_values = 2 * model.attn_heads * model.attn_dim_head;
  sum.attention(2 * keys_and_values, width);  // down and up
  if (stage + 1 == model.dim_mults.size()) sum.convolution(outer, width);
  sum.convolution(inner, stage == 0 ? width : 2 * width);
}

void lucid_layers(const ModelConfig& model, Sum& sum) {
  const size_t stages = model.dim_mults.size();
  for (size_t stage = 0; stage < stages; ++stage) lucid_stage(model, stage, sum);
  const int64_t lowest = model.resolution >> (stages - 1);
  const int64_t widest = channels_of(model, stages - 1);
  lucid_block(widest, widest, lowest, sum);
  lucid_block(widest, widest, lowest, sum);
  sum.attention(2 * model.attn_heads * model.attn_dim_head, lowest);
  lucid_block(2 * model.dim, model.dim, model.resolution, sum);
}

}  // namespace

PatchElements patch_elements(const ModelConfig& model, int64_t batch, int64_t ranks) {
  Sum sum(ranks);
  if (model.name == "ho-unet") {
    ho_layers(model, sum);
  } else {
    lucid_layers(model, sum);
  }
  const int64_t output = model.channels * model.resolution / ranks * model.resolution;
  return {batch * sum.elements(), batch * sum.norms(), sum.group_norms(), batch * output};
}

}  // namespace noisemark::suite
