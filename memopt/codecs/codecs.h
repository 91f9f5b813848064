#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "memopt/codecs/codec.h"

namespace noisemark::memopt {

/// float32 as bfloat16 ("narrow") or float16 ("narrow_fp16") where every element survives bit for
/// bit, as autocast's float32 copy of a bfloat16 tensor does. Two to a word. It has an answer on a
/// GPU, but for what is known to be such a copy (EncodeKey::cast_from). `to` is bfloat16 or
/// float16, else throws c10::Error.
[[nodiscard]] std::unique_ptr<Codec> make_narrow_codec(at::ScalarType to = at::kBFloat16);

/// "mask1": bool, or a floating tensor in which every element is +0 or has the bits of one other
/// value, as the noise of dropout; 1 bit each. The value is found in the tensor, so nothing need be
/// known of it. Gist (Jain et al., ISCA 2018) does this for masks. It has an answer on a GPU,
/// except for bool.
[[nodiscard]] std::unique_ptr<Codec> make_mask_codec();

/// "sign1": 1 bit, 1 where "x <= 0" is false (so for NaN too); decoded as 1.0 and 0. It is not
/// lossless, but keeps_sign(): for a result of ReLU whose one use in backward is ReLU's own (Gist's
/// Binarize).
[[nodiscard]] std::unique_ptr<Codec> make_sign_codec();

/// The tensors that a codec which rounds takes.
enum class RoundedValues : uint8_t {
  kAll,
  /// On a CPU it takes those of which all elements are finite. On a GPU the host would have to wait
  /// for the answer: there it takes all.
  kFinite,
};

/// "dprN": Gist's delayed precision reduction (Jain et al., ISCA 2018). `bits` is that of one of
/// codecs::kReducedForms (arithmetic/jobs.h), else throws c10::Error. A word holds as many whole
/// codes as find room.
///
/// Laid out as IEEE 754 does, with its bias of 2^(exponent bits - 1) - 1: an exponent field of
/// zeros holds subnormals, one of ones infinity and NaN. Each element is first multiplied by 2^k, k
/// common to the tensor and such that its largest finite magnitude falls below the format's 2^(bias
/// + 1) by less than a factor of 2. Then round to nearest, ties to even. What rounds beyond the
/// largest finite value becomes that value; infinities stay; NaN keeps its sign and leading payload
/// bits; so does the sign of zero. The relative error of an element is at most 2^-(mantissa bits +
/// 1) where its code is normal.
///
/// Takes float32 and, where a word holds more than two codes, bfloat16 and float16. Parts: words
/// (arithmetic/fields.h), int32; the tensor's largest finite magnitude as bits of a float32, int32
/// [1], whose top bit says that there are infinities or NaN.
///
/// `values`: see RoundedValues.
[[nodiscard]] std::unique_ptr<Codec> make_reduced_codec(int bits,
                                                        RoundedValues values = RoundedValues::kAll);

/// "q4", "q2": groups of 256 elements that follow each other in memory, each element a code of 4 or
/// 2 bits between the group's minimum and maximum, rounded at random to one of its two neighbours
/// so that the expected value is the element (ActNN, Chen et al., ICML 2021). `bits` is 4 or 2,
/// else throws c10::Error.
///
/// decoded = (minimum + code * step) * 2^-k; minimum and step are float16, the first rounded down,
/// the second up; k is common to the tensor and takes its largest finite magnitude into [2^14,
/// 2^15). The code of an exact (element * 2^k - minimum) / step = i + f is i + 1 where r + 0.5 <
/// 65536 f, else i. r is 16 bits of Philox 4x32-10 with key seed and counter (low and high half of
/// 32 * group + lane, storage, step): element e of a group has lane e % 32 and half word e / 32. A
/// group with an infinity or a NaN decodes to NaN.
///
/// Takes float32, bfloat16 and float16. Parts: words (arithmetic/fields.h), int32; a word for each
/// group, minimum in its lower half, int32; the tensor's extent as that of make_reduced_codec(),
/// int32 [1].
///
/// `values`: see RoundedValues.
[[nodiscard]] std::unique_ptr<Codec> make_grouped_codec(int bits,
                                                        RoundedValues values = RoundedValues::kAll);

/// A two-dimensional max pooling; pairs are rows, columns. No figure above 2^20.
struct PoolGeometry {
  std::array<int64_t, 2> input{};     ///< height and width of the pooled planes
  std::array<int64_t, 2> kernel{};    ///< 1 to 4 each
  std::array<int64_t, 2> stride{};    ///< is at least 1
  std::array<int64_t, 2> padding{};   ///< is at least 0
  std::array<int64_t, 2> dilation{};  ///< is at least 1
};

/// "pool4": the index map of max_pool2d_with_indices (int64, [N, C, H, W] contiguous or
/// channels-last, or [C, H, W] contiguous) as the position in each window, 4 bits: Gist's pooling
/// map (Jain et al., ISCA 2018). It is lossless; it refuses an index that is none of 4 x 4
/// positions, and windows so narrow that their rows interleave in memory. It has an answer on a
/// GPU. Throws c10::Error for a geometry outside the ranges above.
[[nodiscard]] std::unique_ptr<Codec> make_pool_map_codec(const PoolGeometry& geometry);

/// "ssdc": sparse storage, dense compute, after Gist (Jain et al., ISCA 2018), but with a bit for
/// each element instead of indices, and room for a fixed fraction of the elements, so that a GPU
/// needs no answer from the host before it stores. It is lossless: zero is +0 only, -0 is stored.
/// Takes float32, bfloat16 and float16; refuses more values than there is room for. It has an
/// answer on a GPU.
///
/// Parts: the bits as words (arithmetic/fields.h), int32; for each block of 1024 elements the
/// offset of its first value, int32; the values in memory order, [capacity] of the tensor's type,
/// zeros behind the last (so that another codec may encode that part in turn).
///
/// `capacity_frac` in (0, 1], else throws c10::Error: room for ceil(capacity_frac * elements).
[[nodiscard]] std::unique_ptr<Codec> make_sparse_codec(double capacity_frac);

/// "ssdc+dpr8": what `outer` makes of a tensor is encoded in turn by `inner`: its part number
/// `part`, or every part where that is empty. It is lossless where both are. Refuses what either
/// refuses; holds where both hold. Parts: those of `outer`, an encoded one replaced by the parts
/// that `inner` made of it.
[[nodiscard]] std::unique_ptr<Codec> make_chained_codec(
    std::shared_ptr<const Codec> outer, std::shared_ptr<const Codec> inner,
    std::optional<std::size_t> part = std::nullopt);

}  // namespace noisemark::memopt
