#include "suite/sampling/noise.h"

#include <ATen/Parallel.h>
#include <ATen/ops/isfinite.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "reports/error.h"
#include "suite/io/npy.h"
#include "suite/random/counter_rng.h"

namespace noisemark::suite {
namespace {

template <typename T>
void fill(uint64_t seed, const NoiseDraw& draw, const at::Tensor& out) {
  const int64_t count = out.size(0);
  const int64_t values = out.numel() / count;
  T* const data = out.mutable_data_ptr<T>();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CounterRng(seed, Stream::kSampler, static_cast<uint64_t>(draw.number),
                 static_cast<uint64_t>(draw.first + i))
          .fill_normal(std::span(data + i * values, static_cast<size_t>(values)));
    }
  });
}

}  // namespace

NoiseSource counter_noise(uint64_t seed) {
  return [seed](const NoiseDraw& draw, const at::Tensor& out) {
    TORCH_CHECK(out.is_contiguous() && out.device().is_cpu(),
                "noise is drawn row-major on the CPU");
    if (out.numel() == 0) return;
    if (out.scalar_type() == at::kDouble) {
      fill<double>(seed, draw, out);
    } else {
      fill<float>(seed, draw, out);
    }
  };
}

NoiseSource with_initial_noise(const at::Tensor& initial, NoiseSource rest) {
  return [initial, rest = std::move(rest)](const NoiseDraw& draw, const at::Tensor& out) {
    if (draw.number > 0) return rest(draw, out);
    TORCH_CHECK(draw.first + out.size(0) <= initial.size(0), "no initial noise of sample ",
                draw.first + out.size(0) - 1, ", but of ", initial.size(0));
    out.copy_(initial.narrow(0, draw.first, out.size(0)));
  };
}

at::Tensor read_initial_noise(const std::string& path, int64_t channels, int64_t resolution) {
  const at::Tensor noise = read_npy(path);
  const bool real = noise.scalar_type() == at::kFloat || noise.scalar_type() == at::kDouble;
  const bool fits = real && noise.dim() == 4 && noise.size(0) >= 1 && noise.size(1) == channels &&
                    noise.size(2) == resolution && noise.size(3) == resolution;
  if (!fits) {
    throw bad_input(
        path, "",
        fmt::format("{} [{}]", real ? "numbers" : "another type than float",
                    fmt::join(noise.sizes(), ", ")),
        fmt::format("float32 or float64 [N, {}, {}, {}]", channels, resolution, resolution));
  }
  if (!at::isfinite(noise).all().item<bool>()) {
    throw bad_input(path, "", "a NaN or an infinity", "finite numbers");
  }
  return noise;
}

}  // namespace noisemark::suite
