#include "memopt/accounting/allocation_log.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include "memopt/accounting/attribution.h"
#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "tests/memopt/nets.h"

namespace noisemark::memopt {
namespace {

/// Offers saved tensors to an open log, as the probes do.
class LogSink final : public SavedTensorSink {
 public:
  explicit LogSink(AllocationLog* log) : log_(log) {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return log_ == nullptr ? nullptr : log_->observe(or_keeping(nullptr));
  }

 private:
  AllocationLog* log_;
};

/// The trainer's part: one real step of the small network under a log.
class LoggedTraining {
 public:
  explicit LoggedTraining(Owner forgotten = Owner::kUnattributed, bool bf16 = false)
      : forgotten_(forgotten), bf16_(bf16) {
    input_ = at::randn({4, 3, 16, 16});
    target_ = at::randn({4, 3, 16, 16});
    run_step(nullptr);  // creates what LibTorch keeps between steps
  }

  AllocationRecord record_step() {
    AllocationLog log(cpu_allocation_source(), net_.parameters);
    run_step(&log);
    return log.close();
  }

  test::SmallNet& net() { return net_; }

 private:
  void forward() {
    at::autocast::set_autocast_enabled(at::kCPU, bf16_);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    prediction_ = net_.forward(input_);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    loss_ = at::mse_loss(prediction_.to(at::kFloat), target_);
  }

  void run_step(AllocationLog* log) {
    walk(log, "step_begin");
    {
      LogSink sink(log);
      const SavedTensorScope scope(sink);
      forward();
    }
    walk(log, "forward_end");
    loss_.backward();
    walk(log, "backward_end");
    net_.update();
    walk(log, "optimizer_end");
    net_.average();
    walk(log, "ema_end");
    net_.zero_grad();
    prediction_.reset();
    loss_.reset();
    walk(log, "step_end");
  }

  void walk(AllocationLog* log, const char* name) {
    if (log == nullptr) return;
    OwnedTensors owned = {{Owner::kWeights, net_.parameters},
                          {Owner::kOptimizer, net_.optimizer_state()},
                          {Owner::kEma, net_.ema},
                          {Owner::kInput, {input_, target_}},
                          {Owner::kActivations, {prediction_, loss_}}};
    for (const at::Tensor& p : net_.parameters) owned[Owner::kGradients].push_back(p.grad());
    owned.erase(forgotten_);
    log->walk(name, owned);
  }

  Owner forgotten_;
  bool bf16_;
  test::SmallNet net_;
  at::Tensor input_, target_, prediction_, loss_;
};

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& t : tensors) bytes += static_cast<int64_t>(t.nbytes());
  return bytes;
}

const OwnedBoundary& at_boundary(const Attribution& attribution, const std::string& name) {
  return *std::find_if(attribution.boundaries.begin(), attribution.boundaries.end(),
                       [&](const OwnedBoundary& boundary) { return boundary.name == name; });
}

/// Test programs hold nothing else, so what is live must be owned to the byte.
void expect_owned_to_the_byte(const Attribution& attribution) {
  for (const OwnedBoundary& boundary : attribution.boundaries) {
    EXPECT_EQ(boundary.at.of(Owner::kUnattributed), 0) << boundary.name;
    EXPECT_EQ(boundary.at.of(Owner::kTemporary), 0) << boundary.name;
    EXPECT_EQ(boundary.at.live_bytes, boundary.allocator_bytes) << boundary.name;
    EXPECT_EQ(std::accumulate(boundary.at.bytes.begin(), boundary.at.bytes.end(), int64_t{0}),
              boundary.allocator_bytes);
  }
  EXPECT_LE(attribution.peak.of(Owner::kUnattributed), attribution.peak.live_bytes / 100);
}

TEST(AllocationLog, owns_every_byte_of_a_training_step) {
  LoggedTraining training;
  const Attribution result = attribute(training.record_step());
  ASSERT_EQ(result.boundaries.size(), 6U);
  expect_owned_to_the_byte(result);
  const test::SmallNet& net = training.net();
  const OwnedBoundary& backward = at_boundary(result, "backward_end");
  EXPECT_EQ(backward.at.of(Owner::kWeights), bytes_of(net.parameters));
  EXPECT_EQ(backward.at.of(Owner::kGradients), bytes_of(net.parameters));
  EXPECT_EQ(backward.at.of(Owner::kOptimizer), bytes_of(net.optimizer_state()));
  EXPECT_EQ(backward.at.of(Owner::kEma), bytes_of(net.ema));
  EXPECT_EQ(at_boundary(result, "step_end").at.bytes, at_boundary(result, "step_begin").at.bytes);
}

TEST(AllocationLog, owns_every_byte_of_a_bf16_step_and_tells_the_casts_of_weights) {
  LoggedTraining training(Owner::kUnattributed, /*bf16=*/true);
  const Attribution result = attribute(training.record_step());
  expect_owned_to_the_byte(result);
  // Convolutions save the casts of their weights; those of the biases went with the cache.
  const auto& p = training.net().parameters;
  EXPECT_EQ(at_boundary(result, "forward_end").at.of(Owner::kAutocastCache),
            bytes_of({p[0], p[4], p[6], p[7]}) / 2);
}

TEST(AllocationLog, shows_an_owner_that_was_forgotten_as_unattributed) {
  for (const Owner owner : {Owner::kWeights, Owner::kOptimizer, Owner::kEma, Owner::kInput,
                            Owner::kGradients, Owner::kActivations}) {
    LoggedTraining training(owner);
    const Attribution result = attribute(training.record_step());
    const bool missed =
        std::any_of(result.boundaries.begin(), result.boundaries.end(),
                    [](const OwnedBoundary& b) { return b.at.of(Owner::kUnattributed) > 0; });
    EXPECT_TRUE(missed) << owner_name(owner);
  }
}

TEST(AllocationLog, shows_saved_tensors_that_nobody_observes_as_unattributed) {
  LoggedTraining training;
  AllocationRecord record = training.record_step();
  for (LogEvent& event : record.events) {
    if (event.kind == LogEvent::Kind::kSaved || event.kind == LogEvent::Kind::kUnsaved) {
      event.kind = LogEvent::Kind::kMark;
    }
  }
  const Attribution result = attribute(record);
  EXPECT_GT(at_boundary(result, "forward_end").at.of(Owner::kUnattributed), 0);
}

TEST(AllocationLog, counts_a_block_that_is_saved_often_once) {
  LoggedTraining training;
  const Attribution result = attribute(training.record_step());
  const OwnedBoundary& forward = at_boundary(result, "forward_end");
  EXPECT_GT(forward.naive_saved_bytes, forward.at.saved_bytes());
  EXPECT_EQ(result.peak_saved_bytes, std::max(result.peak_saved_bytes, forward.at.saved_bytes()));
  EXPECT_EQ(at_boundary(result, "backward_end").naive_saved_bytes, 0);
}

TEST(AllocationLog, has_the_allocators_own_peak) {
  LoggedTraining training;
  HighMark high(cpu_allocation_source());
  const Attribution result = attribute(training.record_step());
  EXPECT_EQ(result.peak.live_bytes, high.take());
  EXPECT_FALSE(result.peak_operator.empty());
}

TEST(AllocationLog, is_the_same_for_every_step) {
  LoggedTraining training;
  const Attribution first = attribute(training.record_step());
  const Attribution second = attribute(training.record_step());
  EXPECT_EQ(first.allocations, second.allocations);
  EXPECT_EQ(first.peak.bytes, second.peak.bytes);
  EXPECT_EQ(first.peak_saved_bytes, second.peak_saved_bytes);
}

TEST(AllocationLog, changes_no_result) {
  LoggedTraining training;
  test::SmallNet& net = training.net();
  const at::Tensor x = at::randn({2, 3, 8, 8});
  net.forward(x).square().mean().backward();
  std::vector<at::Tensor> expected;
  for (const at::Tensor& p : net.parameters) expected.push_back(p.grad());
  net.zero_grad();
  AllocationLog log(cpu_allocation_source(), net.parameters);
  LogSink sink(&log);
  const SavedTensorScope scope(sink);
  net.forward(x).square().mean().backward();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(net.parameters[i].grad().equal(expected[i])) << i;
  }
}

TEST(AllocationLog, survives_a_graph_that_outlives_it) {
  test::SmallNet net;
  const int64_t before = cpu_allocation_source().live_bytes();
  {
    auto log = std::make_unique<AllocationLog>(cpu_allocation_source(), net.parameters);
    LogSink sink(log.get());
    at::Tensor loss;
    {
      const SavedTensorScope scope(sink);
      loss = net.forward(at::randn({2, 3, 8, 8})).square().mean();
    }
    log.reset();
    loss.backward();
  }
  net.zero_grad();
  EXPECT_EQ(cpu_allocation_source().live_bytes(), before);
}

TEST(AllocationLog, gives_a_parallel_regions_blocks_to_the_operator_that_opened_it) {
  const int threads_before = at::get_num_threads();
  at::set_num_threads(2);
  const auto& schema = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "").schema();
  AllocationLog log(cpu_allocation_source(), {});
  {
    at::RecordFunction operation(at::RecordScope::FUNCTION);
    operation.before(std::cref(schema));
    at::parallel_for(0, 2, 1, [](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) at::empty({1000}, at::kByte);
    });
  }
  std::thread([] { at::empty({77}, at::kByte); }).join();
  const AllocationRecord record = log.close();
  at::set_num_threads(threads_before);
  std::set<uint32_t> threads;
  for (const LogEvent& event : record.events) {
    if (event.kind != LogEvent::Kind::kAllocate) continue;
    if (event.block.bytes == 77) {
      EXPECT_EQ(event.frame, 0U);  // a free thread works for no operator
    }
    if (event.block.bytes == 1000) {
      EXPECT_NE(event.frame, 0U);
      threads.insert(event.thread);
    }
  }
  EXPECT_EQ(threads.size(), 2U);
}

TEST(AllocationLog, is_open_once_at_a_time) {
  AllocationLog log(cpu_allocation_source(), {});
  EXPECT_THROW(AllocationLog(cpu_allocation_source(), {}), c10::Error);
  EXPECT_NE(log.close().events.capacity(), 0U);
  const AllocationLog again(cpu_allocation_source(), {});
}

}  // namespace
}  // namespace noisemark::memopt
