#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// Parts of models that are more than one operator, as random programs call them.
namespace noisemark::memopt::programs {

/// silu(linear(x, w)), whose backward computes it again and calls backward itself.
[[nodiscard]] at::Tensor reentrant_linear(const at::Tensor& x, const at::Tensor& w);
/// linear(x, w), whose backward writes the gradient of `w` into the .grad of what it saved.
[[nodiscard]] at::Tensor grad_setting_linear(const at::Tensor& x, const at::Tensor& w);
/// x * x, whose backward overwrites what it saved.
[[nodiscard]] at::Tensor overwriting_square(const at::Tensor& x);
/// A product with a sparse COO matrix over the batch. x [B, C].
[[nodiscard]] at::Tensor sparse_mix(const at::Tensor& x);
/// The same with its rows compressed.
[[nodiscard]] at::Tensor sparse_rows_mix(const at::Tensor& x);
/// log_softmax where the last element is masked by minus infinity.
[[nodiscard]] at::Tensor masked_log_softmax(const at::Tensor& x);
/// Attention of a sequence with itself under a boolean mask. x [B, T, C].
[[nodiscard]] at::Tensor masked_attention(const at::Tensor& x);
/// The same under minus infinity that is added.
[[nodiscard]] at::Tensor added_mask_attention(const at::Tensor& x);
/// [B, 1]. x [B, C]
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& x);
[[nodiscard]] at::Tensor binary_cross_entropy(const at::Tensor& x);
/// The likelihood of `x` where the variance is learned.
[[nodiscard]] at::Tensor gaussian_likelihood(const at::Tensor& x, const at::Tensor& spread);
/// The nearest row of `codes`, straight through (vector quantisation). x [B, C], codes [N, C]
[[nodiscard]] at::Tensor nearest_code(const at::Tensor& x, const at::Tensor& codes);
/// linear(x, w / its norm), by one step of the power iteration, which writes `direction` [C].
[[nodiscard]] at::Tensor spectral_norm(const at::Tensor& x, const at::Tensor& w,
                                       const at::Tensor& direction, bool writes);
/// LSTM and GRU over a sequence. x [B, T, C], w and u [4C, C] or [3C, C].
[[nodiscard]] at::Tensor lstm(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u);
[[nodiscard]] at::Tensor gru(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u);

/// x * (x * n), where the second factor has no history and is the `out` of its operator.
[[nodiscard]] at::Tensor gated_by_out(const at::Tensor& x, double n);
/// x * exp(-x * x), where the second factor has no history and `out` was empty before.
[[nodiscard]] at::Tensor gated_by_resized_out(const at::Tensor& x);
/// x * gate, where `out` is a half of the gate.
[[nodiscard]] at::Tensor gated_by_half_out(const at::Tensor& x);
/// x * running, which moves towards the mean of `x` first. running [C]
[[nodiscard]] at::Tensor running_mean_out(const at::Tensor& x, const at::Tensor& running,
                                          bool writes);
/// Both halves of the last dimension times `n`, by one operator on lists.
[[nodiscard]] at::Tensor scaled_halves(const at::Tensor& x, double n);
/// x * y + 0.5 * y * x, by one operator on lists.
[[nodiscard]] at::Tensor list_products(const at::Tensor& x, const at::Tensor& y);
/// tanh(x) + tanh(x * n), by one operator that writes its list.
[[nodiscard]] at::Tensor list_tanh(const at::Tensor& x, double n);
/// h * x, where `h` is `x` whose halves were multiplied by `n` without history, as one list.
[[nodiscard]] at::Tensor list_written(const at::Tensor& x, double n);
/// n * tanh(x), by an operator that the program registers, with a backward of its own.
[[nodiscard]] at::Tensor scaled_tanh(const at::Tensor& x, double n);
/// x * d, where a registered operator has written `n` times `x` into `d`, without history.
[[nodiscard]] at::Tensor gated_by_decay(const at::Tensor& x, double n);
/// The forms in which half_square() may save: quantized to 8 bits, with names for its dimensions,
/// as a list of the rows, wrapped by a functional tensor.
enum class Form : uint8_t { kQuantized, kNamed, kNested, kWrapped };
/// 0.5 * x * x, whose backward reads `x` in another form. That of kQuantized is straight through.
[[nodiscard]] at::Tensor half_square(const at::Tensor& x, Form form);
/// `x` with names for its dimensions.
[[nodiscard]] at::Tensor named(const at::Tensor& x);
[[nodiscard]] at::Tensor unnamed(const at::Tensor& x);
/// The sequences of a batch as one nested tensor, every second without its last step, and back with
/// zeros for those steps. x [B, T, C]
[[nodiscard]] at::Tensor nested(const at::Tensor& x);
[[nodiscard]] at::Tensor padded(const at::Tensor& nested, const at::Tensor& like);
/// x + sum, to which a hook adds a tenth of the mean of the gradient's magnitude. sum [C]
[[nodiscard]] at::Tensor summing_hook(const at::Tensor& x, const at::Tensor& sum, bool writes);
/// A power between two linear layers, whose exponent `n` gives: between -2 and 9.
[[nodiscard]] at::Tensor power(const at::Tensor& x, const at::Tensor& w, double n);
/// silu or, for a large `n`, the power -2 of a view that is older than a write to its base, between
/// two linear layers.
[[nodiscard]] at::Tensor older_view(const at::Tensor& x, const at::Tensor& w, double n);
/// tanh or, for a large `n`, exp, which writes half of what is between two linear layers.
[[nodiscard]] at::Tensor written_part(const at::Tensor& x, const at::Tensor& w, double n);

}  // namespace noisemark::memopt::programs
