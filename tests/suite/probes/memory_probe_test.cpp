#include "suite/probes/memory_probe.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "suite/train/fault.h"
#include "tests/memopt/nets.h"

namespace noisemark::suite {
namespace {

std::vector<reports::MemoryPoint> wave(size_t points) {
  std::vector<reports::MemoryPoint> result;
  for (size_t i = 0; i < points; ++i) {
    const auto level = static_cast<int64_t>(1000 + 900 * std::sin(static_cast<double>(i) / 7));
    result.push_back({static_cast<double>(i) * 0.001, {level, 1}});
  }
  return result;
}

TEST(Timeline, keeps_a_short_one_whole) {
  EXPECT_EQ(thin_timeline(wave(400), 400).size(), 400U);
  EXPECT_TRUE(thin_timeline({}, 400).empty());
}

TEST(Timeline, stays_within_the_limit_in_order_with_its_ends) {
  const auto points = wave(10'007);
  const auto kept = thin_timeline(points, 400);
  EXPECT_LE(kept.size(), 400U);
  EXPECT_GE(kept.size(), 300U);
  EXPECT_EQ(kept.front().time_s, points.front().time_s);
  EXPECT_EQ(kept.back().time_s, points.back().time_s);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end(),
                             [](const auto& a, const auto& b) { return a.time_s < b.time_s; }));
}

TEST(Timeline, keeps_a_spike_of_one_point) {
  auto points = wave(5000);
  points[3210].by_category = {1'000'000, 0};
  const auto kept = thin_timeline(points, 400);
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(),
                          [](const auto& p) { return p.by_category[0] == 1'000'000; }));
}

TEST(Timeline, copes_with_points_at_one_instant) {
  auto points = wave(5000);
  for (auto& point : points) point.time_s = 1;
  const auto kept = thin_timeline(points, 400);
  EXPECT_LE(kept.size(), 400U);
  EXPECT_GE(kept.size(), 3U);
}

using memopt::test::SmallNet;

/// Trains the small network as the trainer does, told to a probe.
class ProbedTraining {
 public:
  explicit ProbedTraining(int accumulation = 1) : accumulation_(accumulation) { run(0); }

  void run(int64_t step) {
    probe.on_step_begin(step);
    phase(Phase::kData, [&] {
      const memopt::OwnerScope scope(memopt::Owner::kInput);
      batch_ = {at::randn({2, 3, 16, 16}), at::randn({2, 3, 16, 16})};
    });
    for (int i = 0; i < accumulation_; ++i) {
      phase(Phase::kForward, [&] {
        const memopt::SavedTensorScope scope(probe.sink());
        held_ = {at::mse_loss(net.forward(batch_[0]), batch_[1])};
      });
      phase(Phase::kBackward, [&] { held_[0].backward(); });
    }
    phase(Phase::kOptimizer, [&] {
      if (fail_in_step == step) throw std::runtime_error("in the middle of a step");
      net.update();
      net.zero_grad();
    });
    phase(Phase::kEma, [&] { net.average(); });
    batch_.clear();
    held_.clear();
    if (leak) leaked_.push_back(at::randn({256}));
    probe.on_step_end(step);
  }

  SmallNet net;
  std::unique_ptr<memopt::Mode> mode = memopt::make_mode("none");
  bool forget_ema = false;
  bool leak = false;
  bool fail_in_roots = false;
  int64_t fail_in_step = -1;
  int calls_of_roots = 0;
  MemoryProbe probe{*mode, [this] { return roots(); }};

 private:
  template <typename Work>
  void phase(Phase which, Work work) {
    struct End {
      ~End() { probe.on_phase_end(phase); }
      MemoryProbe& probe;
      Phase phase;
    };
    probe.on_phase_begin(which);
    const End end{probe, which};
    work();
  }

  OwnerRoots roots() {
    ++calls_of_roots;
    if (fail_in_roots && calls_of_roots > 2) throw std::runtime_error("no roots");
    OwnerRoots roots;
    roots.held[memopt::Owner::kWeights] = net.parameters;
    roots.parameters = net.parameters;
    roots.held[memopt::Owner::kOptimizer] = net.optimizer_state();
    if (!forget_ema) roots.held[memopt::Owner::kEma] = net.ema;
    roots.held[memopt::Owner::kInput] = batch_;
    roots.held[memopt::Owner::kActivations] = held_;
    return roots;
  }

  int accumulation_;
  std::vector<at::Tensor> batch_, held_, leaked_;
};

std::vector<std::string> names(const reports::MemorySection& section) {
  std::vector<std::string> result;
  for (const auto& boundary : section.boundaries) result.push_back(boundary.at);
  return result;
}

int64_t at(const reports::MemorySection& section, const std::string& name,
           const std::string& category) {
  for (const auto& boundary : section.boundaries) {
    if (boundary.at == name) return boundary.by_category.at(category);
  }
  throw std::out_of_range(name);
}

TEST(MemoryProbe, closes_at_every_boundary_and_at_the_peak) {
  ProbedTraining training;
  training.probe.arm(1);
  training.run(1);
  const reports::MemorySection section = training.probe.section();
  ASSERT_TRUE(section.measured);
  EXPECT_EQ(names(section),
            (std::vector<std::string>{"step_begin", "data_end", "forward_end", "backward_end",
                                      "optimizer_end", "ema_end", "step_end"}));
  for (const auto& boundary : section.boundaries) {
    EXPECT_EQ(boundary.unattributed_bytes, 0) << boundary.at;
    EXPECT_EQ(boundary.by_category.at("temporary"), 0) << boundary.at;
  }
  EXPECT_LE(section.peak.unattributed_bytes, section.peak_bytes / 100);
  EXPECT_EQ(section.peak.allocator_bytes, section.peak_bytes);
  EXPECT_EQ(at(section, "data_end", "input"), 2 * 2 * 3 * 16 * 16 * 4);
  EXPECT_EQ(at(section, "optimizer_end", "gradients"), 0);
  EXPECT_EQ(at(section, "backward_end", "gradients"), at(section, "step_begin", "weights"));
}

TEST(MemoryProbe, orders_its_figures) {
  ProbedTraining training;
  training.probe.arm(1);
  training.run(1);
  const reports::MemorySection section = training.probe.section();
  EXPECT_GT(section.saved_bytes, 0);
  EXPECT_EQ(section.saved_bytes, at(section, "forward_end", "activations"));
  EXPECT_GE(section.peak_saved_bytes, section.saved_bytes);
  EXPECT_GE(section.peak_bytes, section.peak_saved_bytes);
  EXPECT_GT(section.naive_saved_bytes, section.saved_bytes);
  EXPECT_GT(section.saved_tensors, 10);
  EXPECT_GT(section.allocations, 10);
  EXPECT_EQ(section.leaked_bytes, 0);
  EXPECT_TRUE(section.peak_phase == "forward" || section.peak_phase == "backward");
  EXPECT_NE(section.peak_operator, "");
  EXPECT_EQ(section.source, "wrapping CPU allocator");
  EXPECT_TRUE(section.outside_allocator_bytes.has_value() !=
              section.missing_reason.starts_with("outside_allocator_bytes"));
}

TEST(MemoryProbe, draws_a_timeline_whose_peak_is_the_peak) {
  ProbedTraining training;
  training.probe.arm(1);
  training.run(1);
  const reports::MemorySection section = training.probe.section();
  EXPECT_LE(section.timeline.size(), 400U);
  int64_t highest = 0;
  for (const auto& point : section.timeline) {
    ASSERT_EQ(point.by_category.size(), section.categories.size() + 1);
    highest = std::max(
        highest, std::accumulate(point.by_category.begin(), point.by_category.end(), int64_t{0}));
  }
  EXPECT_EQ(highest, section.peak_bytes);
}

TEST(MemoryProbe, measures_steps_of_several_micro_batches) {
  ProbedTraining training(3);
  training.probe.arm(1);
  training.run(1);
  const reports::MemorySection section = training.probe.section();
  EXPECT_EQ(names(section),
            (std::vector<std::string>{"step_begin", "data_end", "forward_end", "backward_end",
                                      "forward_end[2]", "backward_end[2]", "forward_end[3]",
                                      "backward_end[3]", "optimizer_end", "ema_end", "step_end"}));
  for (const auto& boundary : section.boundaries) {
    EXPECT_EQ(boundary.unattributed_bytes, 0) << boundary.at;
  }
  EXPECT_EQ(at(section, "forward_end[2]", "gradients"), at(section, "step_begin", "weights"));
}

TEST(MemoryProbe, shows_a_forgotten_owner_and_a_leak) {
  ProbedTraining training;
  training.forget_ema = true;
  training.leak = true;
  training.probe.arm(1);
  training.run(1);
  const reports::MemorySection section = training.probe.section();
  EXPECT_EQ(section.boundaries.front().unattributed_bytes,
            at(section, "step_begin", "weights"));  // the average is as large
  EXPECT_EQ(section.leaked_bytes, 1024);
}

TEST(MemoryProbe, does_nothing_in_other_steps) {
  ProbedTraining training;
  training.probe.arm(2);
  training.run(1);
  EXPECT_EQ(training.calls_of_roots, 0);
  EXPECT_EQ(training.probe.sink().make_hooks(), nullptr);
  EXPECT_FALSE(training.probe.section().measured);
  EXPECT_EQ(training.probe.section().missing_reason, "step 2 has not ended");
  training.run(2);
  EXPECT_TRUE(training.probe.section().measured);
}

TEST(MemoryProbe, changes_no_weight) {
  at::manual_seed(7);
  ProbedTraining plain;
  plain.run(1);
  at::manual_seed(7);
  ProbedTraining probed;
  probed.probe.arm(1);
  probed.run(1);
  for (size_t i = 0; i < plain.net.parameters.size(); ++i) {
    EXPECT_TRUE(plain.net.parameters[i].equal(probed.net.parameters[i])) << i;
  }
}

TEST(MemoryProbe, survives_a_step_that_fails) {
  ProbedTraining training;
  training.probe.arm(1);
  training.fail_in_step = 1;
  EXPECT_THROW(training.run(1), std::runtime_error);
  EXPECT_FALSE(training.probe.section().measured);
  training.net.zero_grad();
  training.probe.arm(2);
  training.run(2);
  EXPECT_TRUE(training.probe.section().measured);
}

TEST(MemoryProbe, keeps_an_error_for_whoever_asks) {
  ProbedTraining training;
  training.fail_in_roots = true;
  training.probe.arm(1);
  EXPECT_NO_THROW(training.run(1));
  EXPECT_THROW(static_cast<void>(training.probe.section()), std::runtime_error);
}

int64_t bytes_of(const memopt::AllocationSource& source, const at::Tensor& tensor) {
  return source.find(*tensor.storage().unsafeGetStorageImpl()).value().bytes;
}

TEST(ShortCount, is_wrong_about_one_storage_alone) {
  const at::Tensor short_one = at::empty({100});
  const at::Tensor other = at::empty({100});
  memopt::AllocationSource& truth = memopt::cpu_allocation_source();
  const ShortCount source(truth, short_one, 1);
  EXPECT_EQ(bytes_of(source, short_one), 399);
  EXPECT_EQ(bytes_of(source, short_one.narrow(0, 10, 5)), 399);
  EXPECT_EQ(bytes_of(source, other), 400);
  EXPECT_EQ(source.live_bytes(), truth.live_bytes());
  EXPECT_EQ(source.name(), truth.name());
}

}  // namespace

}  // namespace noisemark::suite
