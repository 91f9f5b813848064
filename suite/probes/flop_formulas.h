#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string_view>

namespace noisemark::suite {

/// Floating-point operations of one call of an operator, from its arguments alone; a fused
/// multiply-add counts as two, additions of a bias and what an operator makes once more instead of
/// keeping do not count. Null for an operator that is not a matrix product, a convolution or an
/// attention.
using FlopFormula = int64_t (*)(c10::ArrayRef<c10::IValue> arguments);
[[nodiscard]] FlopFormula find_flop_formula(std::string_view operator_name);

/// Whether operators of this name do the work for one that has a formula and only passes on to
/// them: mkldnn_convolution or cudnn_convolution for convolution.
[[nodiscard]] bool works_for_another(std::string_view operator_name);

}  // namespace noisemark::suite
