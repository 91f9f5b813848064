#include "suite/models/layers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <variant>
#include <vector>

#include "reports/base/error.h"
#include "suite/models/module_scope.h"
#include "suite/models/rows.h"

namespace noisemark::suite {

void check_positive(const std::string& key, int64_t value) {
  if (value < 1) throw bad_input(key, "", std::to_string(value), "an integer of at least 1");
}

void check_common_shape(const ModelConfig& config) {
  check_positive("model.channels", config.channels);
  check_positive("model.resolution", config.resolution);
  if (config.dim < 4 || config.dim % 2 != 0) {
    throw bad_input("model.dim", "", std::to_string(config.dim), "an even integer of at least 4");
  }
  constexpr size_t kMostStages = 16;
  if (config.dim_mults.empty() || config.dim_mults.size() > kMostStages) {
    throw bad_input("model.dim_mults", "", fmt::format("{} numbers", config.dim_mults.size()),
                    fmt::format("1 to {} numbers, one per stage", kMostStages));
  }
  for (const int64_t mult : config.dim_mults) check_positive("model.dim_mults", mult);
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw bad_input("model.dropout", "", fmt::format("{}", config.dropout),
                    "at least 0 and less than 1");
  }
  const int64_t factor = int64_t{1} << (config.dim_mults.size() - 1);
  if (config.resolution % factor != 0) {
    throw bad_input(
        "model.resolution", "", std::to_string(config.resolution),
        fmt::format("a multiple of {}, for {} stages", factor, config.dim_mults.size()));
  }
}

void check_input(const at::Tensor& x, const at::Tensor& t, int64_t channels, int64_t factor) {
  TORCH_CHECK(x.dim() == 4 && x.size(1) == channels, "x must be [N, ", channels,
              ", H, W], but got ", x.sizes());
  TORCH_CHECK(x.size(2) % factor == 0 && x.size(3) % factor == 0,
              "height and width must be multiples of ", factor, ", but got ", x.sizes());
  TORCH_CHECK(t.dim() == 1 && t.size(0) == x.size(0) && t.scalar_type() == at::kLong,
              "t must be int64 [", x.size(0), "], but got ", t.scalar_type(), " ", t.sizes());
}

std::shared_ptr<torch::nn::Module> add_container(torch::nn::Module& parent,
                                                 const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

torch::nn::Conv2d same_conv(int64_t in_channels, int64_t out_channels, int64_t kernel) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in_channels, out_channels, kernel).padding(kernel / 2));
}

at::Tensor run_layer(torch::nn::Conv2d& conv, const at::Tensor& x) {
  const ModuleScope scope(*conv);
  RowExchange* const rows = rows_in_force();
  if (rows == nullptr) return conv->forward(x);
  const int64_t reach = std::get<torch::ExpandingArray<2>>(conv->options.padding())->at(0);
  return convolve_rows(conv, x, reach, reach, *rows);
}

at::Tensor upsample_twice(const at::Tensor& x) {
  const std::vector<double> factors{2.0, 2.0};
  return at::upsample_nearest2d(x, std::nullopt, factors);
}

namespace {

thread_local BatchShare share_in_force;

/// This rank's part of the masks that dropout gives the whole batch, whose kernels multiply by
/// them.
at::Tensor mask_of_share(const at::Tensor& x, double p) {
  const at::NoGradGuard no_grad;
  const auto [rank, ranks] = share_in_force;
  std::vector<int64_t> whole = x.sizes().vec();
  whole.front() *= ranks;
  // Masks are drawn in the order of memory, and at::ones() would not take the layout.
  const at::Tensor ones =
      at::empty(whole, x.options().memory_format(x.suggest_memory_format())).fill_(1);
  return at::dropout(ones, p, /*train=*/true).narrow(0, rank * x.size(0), x.size(0)).clone();
}

}  // namespace

ShareGuard::ShareGuard(const BatchShare& share) : previous_(share_in_force) {
  share_in_force = share;
}

ShareGuard::~ShareGuard() {
  share_in_force = previous_;
}

at::Tensor dropout(const at::Tensor& x, double p, bool training) {
  const bool whole = share_in_force.ranks == 1 || !training || p == 0;
  return whole ? at::dropout(x, p, training) : at::mul(x, mask_of_share(x, p));
}

}  // namespace noisemark::suite
