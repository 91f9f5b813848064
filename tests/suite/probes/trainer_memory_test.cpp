#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/modes/mode.h"
#include "reports/result/gate.h"
#include "suite/config/catalogue.h"
#include "suite/data/dataset.h"
#include "suite/models/denoiser.h"
#include "suite/probes/memory_probe.h"
#include "suite/run/passes/owners.h"
#include "suite/train/trainer.h"

namespace noisemark::suite {
namespace {

using Forget = std::function<void(OwnerRoots&)>;

/// The trainer's third step, measured; `forget` may leave owners out.
reports::MemorySection measure(
    const std::string& benchmark, const std::string& precision, std::vector<std::string> overrides,
    const Forget& forget = [](OwnerRoots&) {}) {
  overrides.insert(overrides.begin(), {"train.batch=4", "train.steps=3", "eval.every=0"});
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
    OwnerRoots roots = owner_roots(trainer);
    forget(roots);
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

struct Forgotten {
  std::string name;
  Forget forget;
};

void PrintTo(const Forgotten& tested, std::ostream* out) {
  *out << tested.name;
}

class ForgottenOwner : public testing::TestWithParam<Forgotten> {};

TEST_P(ForgottenOwner, shows_at_every_boundary_and_fails_its_gates) {
  reports::Result result;
  // One image, so that the owner is more than 1 % of the peak.
  result.memory = measure("gmm16", "fp32", {"train.batch=1"}, GetParam().forget);
  const auto gates = reports::evaluate_gates(result, {}, {});
  const auto expect_red = [&gates](std::string_view name) {
    const auto gate = std::find_if(gates.begin(), gates.end(),
                                   [&](const auto& gate) { return gate.name == name; });
    ASSERT_NE(gate, gates.end()) << name;
    EXPECT_EQ(gate->verdict, reports::Verdict::kFail) << gate->words;
  };
  for (const reports::MemorySnapshot& boundary : result.memory.boundaries) {
    EXPECT_GT(boundary.unattributed_bytes, 0) << boundary.at;
  }
  expect_red("closure_boundaries");
  // Most forgotten weights are found among what autograd saved, as long as that is alive.
  if (GetParam().name == std::string_view("weights")) return;
  EXPECT_GT(result.memory.peak.unattributed_bytes, result.memory.peak_bytes / 100);
  expect_red("closure_peak");
}

INSTANTIATE_TEST_SUITE_P(
    Owners, ForgottenOwner,
    testing::Values(
        Forgotten{"weights",
                  [](OwnerRoots& roots) { roots.held[memopt::Owner::kWeights].clear(); }},
        Forgotten{"optimizer",
                  [](OwnerRoots& roots) { roots.held[memopt::Owner::kOptimizer].clear(); }},
        Forgotten{"ema", [](OwnerRoots& roots) { roots.held[memopt::Owner::kEma].clear(); }}),
    [](const auto& info) { return info.param.name; });

// At a peak within backward they are what backward has made so far; its end tells.
TEST(ForgottenGradients, show_at_the_end_of_the_phase_that_made_them) {
  const auto section =
      measure("gmm16", "fp32", {}, [](OwnerRoots& roots) { roots.parameters.clear(); });
  const auto backward_end =
      std::find_if(section.boundaries.begin(), section.boundaries.end(),
                   [](const auto& boundary) { return boundary.at == "backward_end"; });
  ASSERT_NE(backward_end, section.boundaries.end());
  EXPECT_GT(backward_end->unattributed_bytes, backward_end->by_category.at("weights") / 2);
}

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
