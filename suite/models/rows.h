#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <optional>
#include <vector>

/// Layers of a network that computes one band of an image's rows, while other ranks compute the
/// others (Li et al. 2024, DistriFusion).
namespace noisemark::suite {

/// The origin of the statistics of a band's group norms, once activations are displaced.
enum class NormRule {
  kSynchronous,     ///< this step's, from all bands
  kCorrectedStale,  ///< last step's of all bands, moved by what changed in the own one
  kStale,           ///< this step's of the own band, last step's of the others
  kOwn,             ///< this step's of the own band alone
};

/// Gives what the others' bands have to a call of the network on one band of rows. A layer asks for
/// it in the order of the forward pass, the same on all ranks; the number of the question is its
/// place.
class RowExchange {
 public:
  virtual ~RowExchange() = default;
  /// This call waits for what the others have in it, and does not take what they had in the last.
  [[nodiscard]] virtual bool is_synchronous() const = 0;
  [[nodiscard]] virtual NormRule norm_rule() const = 0;
  /// The peer multiplies variances by n / (n - 1), n being the elements of the own band's group.
  [[nodiscard]] virtual bool unbiased_variance() const = 0;
  [[nodiscard]] virtual int64_t bands() const = 0;

  struct Parts {
    std::vector<at::Tensor> all;  ///< parts of all bands; the own one is always of this call
    at::Tensor own_before;        ///< this band's tensor at this place in the last call
  };
  /// Gives `own` to all bands and returns theirs: of this call where it is synchronous or `fresh`,
  /// else of the last one.
  [[nodiscard]] virtual Parts gather(const at::Tensor& own, bool fresh) = 0;
  /// Takes the place of a question that is not asked in this call, so that the numbers stay.
  virtual void skip() = 0;
  /// Rows next to the band, empty at the image's edges.
  struct Halo {
    std::optional<at::Tensor> above;
    std::optional<at::Tensor> below;
  };
  /// Gives the first and last rows to the neighbours, which want as many of them, and returns
  /// theirs; of this call or the last one, as gather() does.
  [[nodiscard]] virtual Halo halo(const at::Tensor& first, const at::Tensor& last) = 0;
};

/// While alive, this thread's forward passes compute one band of rows. Restores what was set.
class [[nodiscard]] RowsGuard {
 public:
  explicit RowsGuard(RowExchange& exchange);
  ~RowsGuard();
  RowsGuard(const RowsGuard&) = delete;
  RowsGuard& operator=(const RowsGuard&) = delete;

 private:
  RowExchange* previous_;
};

/// Returns null where a whole image is computed.
[[nodiscard]] RowExchange* rows_in_force();

/// A convolution of a band. `above` and `below` rows of padding stand around the whole image, and
/// between bands the neighbours' rows stand in their place; columns are padded by the convolution.
[[nodiscard]] at::Tensor convolve_rows(const torch::nn::Conv2d& conv, const at::Tensor& x,
                                       int64_t above, int64_t below, RowExchange& exchange);

/// Group norm of a band by the rule of the exchange. The variance is E[x^2] - E[x]^2; where a
/// correction makes it negative, that of the own band stands, as in the peer.
[[nodiscard]] at::Tensor normalize_rows(const at::Tensor& x, const torch::nn::GroupNorm& norm,
                                        RowExchange& exchange);

/// Keys or values of all bands' tokens, joined in the order of bands along dimension `dim`.
[[nodiscard]] at::Tensor gather_tokens(const at::Tensor& own, int64_t dim, RowExchange& exchange);

struct QueriesAndKeys {
  at::Tensor q;  ///< [N, C, H, W] of the own band
  at::Tensor k;  ///< [N, C, H, W] of the whole image, as v
  at::Tensor v;
};

/// Takes apart qkv [N, 3 C, H, W] of a band, with the keys and values of all bands.
[[nodiscard]] QueriesAndKeys join_keys(const at::Tensor& qkv, RowExchange& exchange);

}  // namespace noisemark::suite
