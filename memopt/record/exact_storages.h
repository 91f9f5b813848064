#pragma once

#include "memopt/record/step_graph.h"

namespace noisemark::memopt {

/// Marks what a lossy mode must not round: slots (RecordedSlot::exact), and the storages of their
/// values (RecordedStorage::exact). An error of rounding must reach the gradient as it is, or
/// smaller. What a derivative divides by, raises to a negative power, exponentiates or compares
/// could turn it into any error. A slot is exact unless all of this holds:
///
/// - The operator that saved it is on a list of those whose derivative is linear in what they
///   saved, or bends it by a bounded factor: matrix products, convolutions, products, norms (whose
///   statistics are exact; for the rest see replay/bounded_rounding.h), activations. What an
///   unknown operator saved is exact.
/// - Its result reaches no steep operator, one with an unbounded derivative, through element-wise
///   operators, reductions and views: log(p + eps) gives the derivative of p the factor 1 / p.
/// - Nothing whose gradient it serves comes from a steep operator in the same way: in a * exp(b)
///   the gradient of b is a, multiplied by exp(b) once more.
/// - It is no softmax or logarithm of one whose result reaches the end of the pass unmixed, and
///   nothing that follows such a one: its gradient is what is left of two that nearly cancel where
///   all get much the same. What a matrix product reads it for has a gradient of its own, which
///   does not.
/// - Something bounds it: it is not what a growing operator (exp, reciprocal, pow ...) made and no
///   norm followed, and no softmax of that. One element may be so large that nothing is left of the
///   others in its group, and a saturated softmax has a gradient smaller than any rounding.
/// - No other scope was open in the pass, because an operator seen only there may be steep. For the
///   same reason what leaves the pass, and is not a single number, counts as read by a steep one.
///
/// Matrix products, convolutions, norms and attention end such a way, because each of their
/// gradients is a sum over many elements. But what one of them saved whose own result reaches a
/// steep operator is exact too, unless that reads a norm of each row: the gradient may be all in
/// one row. A mean or sum is such a norm where nothing that it reads is negative.
void mark_exact_storages(StepGraph& graph);

}  // namespace noisemark::memopt
