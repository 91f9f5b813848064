#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "memopt/mode.h"
#include "memopt/tracking_allocator.h"
#include "suite/config/catalogue.h"
#include "suite/data/dataset.h"
#include "suite/models/denoiser.h"
#include "suite/probes/memory_probe.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

/// The trainer's third step, measured.
reports::MemorySection measure(const std::string& benchmark, const std::string& precision,
                               std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"train.batch=4", "train.steps=3", "eval.every=0"});
  const Definition definition = load_definition(benchmark, "cpu", overrides);
  TrainerOptions options;
  options.precision = parse_precision(precision, at::kCPU);
  const std::unique_ptr<memopt::Mode> mode = memopt::make_mode("none");
  std::optional<memopt::OwnerScope> scope(std::in_place, memopt::Owner::kInput);
  const auto dataset = open_dataset(definition, "");
  scope.reset();
  Trainer trainer(definition, make_denoiser(definition.model, baselines::plain_ops()), dataset,
                  *mode, options);
  MemoryProbe probe(*mode, [&] {
    OwnerRoots roots;
    roots.weights = tensors_of(trainer.weights());
    for (const at::Tensor& buffer : tensors_of(trainer.process().buffers())) {
      roots.weights.push_back(buffer);
    }
    roots.optimizer = tensors_of(trainer.optimizer_state());
    roots.ema = tensors_of(trainer.ema().shadows());
    roots.input = trainer.inputs();
    roots.step = trainer.step_tensors();
    roots.parameters = tensors_of(trainer.parameters());
    return roots;
  });
  probe.arm(2);
  for (int step = 0; step < 3; ++step) trainer.step({&probe}, &probe.sink());
  return probe.section();
}

void expect_closed(const reports::MemorySection& section) {
  ASSERT_TRUE(section.measured) << section.missing_reason;
  for (const reports::MemorySnapshot& boundary : section.boundaries) {
    EXPECT_EQ(boundary.unattributed_bytes, 0) << boundary.at;
    EXPECT_EQ(boundary.by_category.at("temporary"), 0) << boundary.at;
  }
  EXPECT_LE(section.peak.unattributed_bytes, section.peak_bytes / 100);
  EXPECT_EQ(section.leaked_bytes, 0);
}

struct Case {
  std::string name;
  std::string benchmark;
  std::string precision;
  std::vector<std::string> overrides;
};

void PrintTo(const Case& tested, std::ostream* out) {
  *out << tested.benchmark << ' ' << tested.precision;
  for (const std::string& change : tested.overrides) *out << ' ' << change;
}

class TrainerMemory : public testing::TestWithParam<Case> {};

TEST_P(TrainerMemory, has_an_owner_for_every_byte_at_every_boundary) {
  expect_closed(measure(GetParam().benchmark, GetParam().precision, GetParam().overrides));
}

INSTANTIATE_TEST_SUITE_P(
    Benchmarks, TrainerMemory,
    testing::Values(
        Case{"lucid_fp32", "gmm16", "fp32", {}}, Case{"lucid_bf16", "gmm16", "bf16", {}},
        Case{"ho_fp32", "gmm16-ho", "fp32", {}}, Case{"ho_bf16", "gmm16-ho", "bf16", {}},
        Case{"ho_fp64", "gmm16-ho", "fp64", {}}, Case{"ho_relu_fp32", "gmm16-ho-relu", "fp32", {}},
        Case{"ho_accumulated", "gmm16-ho", "fp32", {"train.accumulation=2"}},
        Case{"ho_v_min_snr",
             "gmm16-ho",
             "fp32",
             {"diffusion.objective=v", "diffusion.min_snr=true"}}),
    [](const auto& info) { return info.param.name; });

TEST(TrainerMemoryInBf16, tells_the_casts_of_weights_from_activations) {
  const reports::MemorySection section = measure("gmm16-ho", "bf16", {});
  const auto forward_end =
      std::find_if(section.boundaries.begin(), section.boundaries.end(),
                   [](const auto& boundary) { return boundary.at == "forward_end"; });
  const int64_t casts = forward_end->by_category.at("autocast_cache");
  const int64_t weights = forward_end->by_category.at("weights");
  EXPECT_GT(casts, weights / 4);
  EXPECT_LE(casts, weights / 2);
}

}  // namespace
}  // namespace noisemark::suite
