#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

/// Small models of common shapes, as anybody may write them with torch::nn: they know nothing of
/// memopt.
namespace example {

/// A model and what it learns. Weights and batches are drawn from the process's generator.
struct Task {
  std::shared_ptr<torch::nn::Module> model;
  std::function<std::vector<at::Tensor>()> draw_batch;
  std::function<at::Tensor(const std::vector<at::Tensor>& batch)> loss;
};

struct TaskEntry {
  std::string_view name;  ///< "gpt"
  std::string_view summary;
  Task (*make)();
};

/// The tasks, in the order in which tables show them.
[[nodiscard]] std::span<const TaskEntry> tasks();

}  // namespace example
