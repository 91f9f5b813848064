#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <span>
#include <utility>

#include "suite/quality/distance/frechet.h"
#include "suite/random/counter_rng.h"

namespace noisemark::suite::test {

inline at::TensorOptions doubles() {
  return at::TensorOptions().dtype(at::kDouble);
}

/// Standard normals [n, d], float64, the same on every machine.
inline at::Tensor normals(uint64_t seed, int64_t n, int64_t d) {
  const at::Tensor out = at::zeros({n, d}, doubles());
  CounterRng(seed, Stream::kData, 0, 0)
      .fill_normal(std::span(out.mutable_data_ptr<double>(), static_cast<size_t>(n * d)));
  return out;
}

/// Orthonormal columns [d, d].
inline at::Tensor rotation(uint64_t seed, int64_t d) {
  return std::get<0>(at::linalg_qr(normals(seed, d, d)));
}

/// Values from 1 down to 10^-decades, evenly in the logarithm.
inline at::Tensor spectrum(int64_t d, double decades) {
  return (at::linspace(0, -decades, d, doubles()) * std::log(10.0)).exp();
}

/// Q diag(values) Q'.
inline at::Tensor covariance_of(const at::Tensor& q, const at::Tensor& values) {
  const at::Tensor s = at::matmul(q * values, q.t());
  return (s + s.t()) / 2;
}

inline double number(const at::Tensor& scalar) {
  return scalar.item<double>();
}

inline double largest(const at::Tensor& x) {
  return x.abs().max().item<double>();
}

}  // namespace noisemark::suite::test
