#pragma once

#include <ATen/Context.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/modes/budget.h"
#include "memopt/plan/options.h"
#include "tests/memopt/nets.h"
#include "tests/memopt/recording_sink.h"

/// Recorded steps for tests of planning.
namespace noisemark::memopt::test {

inline std::shared_ptr<StepGraph> record(const ModelView& view,
                                         const std::function<at::Tensor()>& run) {
  RecordingSink sink(view, &cpu_allocation_source());
  at::Tensor loss;
  {
    const SavedTensorScope scope(sink);
    loss = run();
  }
  loss.backward();
  return std::make_shared<StepGraph>(sink.take());
}

/// Costs that do not depend on the machine.
inline void set_costs(StepGraph& graph) {
  for (RecordedOperator& op : graph.operators) {
    const bool heavy = op.name == "aten::convolution" || op.name == "aten::addmm" ||
                       op.name == "aten::mm" || op.name == "aten::linear";
    op.cost_ns = heavy ? 90'000 : 7'000;
  }
}

inline std::shared_ptr<StepGraph> recorded_block_net() {
  at::manual_seed(3);
  const BlockNet net;
  const at::Tensor x = at::randn({2, 3, 16, 16});
  auto graph = record(net.view(), [&] { return net.forward(x).square().mean(); });
  set_costs(*graph);
  return graph;
}

/// Two blocks of two linear layers with two activations each: few enough tensors to try every
/// subset.
inline std::shared_ptr<StepGraph> recorded_small_net(
    const std::function<at::Tensor(const at::Tensor&)>& activation = &at::silu) {
  at::manual_seed(4);
  ModelView view;
  for (const char* name : {"a.0.weight", "a.1.weight", "b.0.weight", "b.1.weight"}) {
    view.parameters.emplace_back(name, at::randn({32, 32}).set_requires_grad(true));
  }
  const at::Tensor x = at::randn({64, 32});
  auto graph = record(view, [&] {
    at::Tensor h = x;
    for (const auto& [name, weight] : view.parameters) h = activation(at::linear(h, weight)).tanh();
    return h.sum();
  });
  set_costs(*graph);
  return graph;
}

/// The same with ReLU, of whose results backward asks for the signs alone.
inline std::shared_ptr<StepGraph> recorded_small_relu_net() {
  return recorded_small_net([](const at::Tensor& x) { return at::relu(x); });
}

/// The storages that the step saved and that are not the model's or the batch's.
inline std::vector<StorageId> saved_storages(const StepGraph& graph) {
  std::vector<StorageId> saved;
  for (size_t s = 0; s < graph.storages.size(); ++s) {
    bool any = false;
    for (const ValueId value : graph.storages[s].values) {
      any = any || !graph.values[static_cast<size_t>(value)].slots.empty();
    }
    if (any && !graph.storages[s].external) saved.push_back(static_cast<StorageId>(s));
  }
  return saved;
}

/// Figures by which every codec holds the same part of a value's bytes, and takes so much time each
/// way.
inline CodecFigures even_codecs(int64_t one_in, int64_t ns) {
  return [one_in, ns](const Codec&, const RecordedValue& value) {
    return CodecFigure{value.bytes() / one_in, ns, ns};
  };
}

inline CodecFigures no_codecs() {
  return [](const Codec&, const RecordedValue& value) { return CodecFigure{value.bytes(), 0, 0}; };
}

/// Every lossless way to treat a block, without codecs.
inline std::vector<BlockOption> options_without_codecs() {
  std::vector<BlockOption> options = lossless_options();
  for (BlockOption& option : options) option.policy.codec = nullptr;
  return options;
}

inline std::shared_ptr<BlockOptions> options_of(std::shared_ptr<const StepGraph> graph) {
  return std::make_shared<BlockOptions>(std::move(graph), options_without_codecs(), Overrides{});
}

/// The first option of that name or, with `rest`, whose name begins so.
inline size_t option_named(const BlockOptions& options, const std::string& name,
                           bool rest = false) {
  for (size_t o = 0; o < options.options().size(); ++o) {
    const std::string& found = options.options()[o].name;
    if (rest ? found.starts_with(name) : found == name) return o;
  }
  ADD_FAILURE() << name;
  return 0;
}

}  // namespace noisemark::memopt::test
