#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "baselines/device_parts.h"
#include "memopt/modes/mode.h"
#include "suite/config/definition.h"
#include "suite/data/loader.h"
#include "suite/diffusion/process.h"
#include "suite/io/safetensors.h"
#include "suite/models/denoiser.h"
#include "suite/parallel/gradient_reducer.h"
#include "suite/parallel/shards.h"
#include "suite/train/adam.h"
#include "suite/train/ema.h"
#include "suite/train/fault.h"
#include "suite/train/observer.h"
#include "suite/train/pipeline.h"
#include "suite/train/precision.h"

namespace noisemark::suite {

/// The model's parameters under their names in the state dict, in the peer's order; shared, not
/// copied.
[[nodiscard]] NamedTensors named_parameters(const Denoiser& model);

/// Training met a NaN or an infinity that is not loss scaling's to skip.
class NonFinite : public std::runtime_error {
 public:
  NonFinite(int64_t step, const std::string& tensor)
      : std::runtime_error("step " + std::to_string(step) + ": first non-finite tensor: " + tensor),
        step_(step),
        tensor_(tensor) {}
  [[nodiscard]] int64_t step() const { return step_; }
  /// Names what was not finite first, in the order of the step: "weight mid.conv.weight", "input
  /// images", "output of aten::mul in forward" (where there are several, "of micro-batch 1 of 2";
  /// "loss" or "prediction" where the forward pass, repeated, is finite), "gradient of
  /// mid.conv.weight", or "norm of the gradients" where each of them is finite and their norm is
  /// not. Where ranks share a batch and differ in it, "on rank 1" follows.
  [[nodiscard]] const std::string& tensor() const { return tensor_; }

 private:
  int64_t step_;
  std::string tensor_;
};

struct TrainerOptions {
  at::Device device = at::kCPU;
  Precision precision;
  bool channels_last = false;
  LoaderOptions loader;          ///< first_step, last_step and share are the trainer's
  std::shared_ptr<Group> group;  ///< the ranks that train together; null: this process alone
  Reduction reduction = Reduction::kExact;
  bool shard_optimizer = false;  ///< each rank keeps its share of optimizer and average (Shards)
  PipelineOptions pipeline;      ///< the ranks are its stages, where it has micro-batches
  Fault fault;                   ///< none, but in a self-test
  /// Makes what repeats recorded steps on the device; empty: every step is issued by the host.
  std::function<std::unique_ptr<baselines::DeviceGraph>(at::Device)> make_graph;
};

struct StepRecord {
  int64_t step = 0;
  double loss = 0;  ///< mean over micro-batches and ranks; not finite: scaling skipped the step
  std::optional<double> grad_norm;  ///< norm before clipping
};

/// One model in training: owns the optimizer, the average and the loader, and knows nothing of
/// clocks, reports or gates. A step is: batch, (forward, backward) per micro-batch under the mode,
/// clip, Adam, EMA. Everything random comes from counters, so a step depends only on the weights,
/// the optimizer's state and the step's number.
///
/// In a group every rank trains on its share of each micro-batch, from the weights of rank 0, and
/// gradients and loss are the means over the ranks. All ranks make the same steps and end with the
/// same weights, those of one rank but for the order of sums.
///
/// In a pipeline every rank has the weights, the optimizer and the average of its stage alone, and
/// all ranks have the whole batch, which is divided into micro-batches. While a memory mode
/// watches, every stage has one of them at a time.
///
/// With a graph the first steps are as ever: until the mode is steady, and some on the stream that
/// is recorded. Then one is recorded, and from there on every step is a repetition of it: the batch
/// is copied to where the recorded step reads it, dropout is seeded, and the device does the rest
/// alone. Only an average that is not updated alike in every step ("power") stays with the host. To
/// observers all of a repeated step is kForward.
class Trainer {
 public:
  /// `mode` must outlive the trainer; the model is moved to the device, type and memory format of
  /// `options`. `observer`, needed here only, is told before the optimizer and the average are
  /// made.
  Trainer(const Definition& definition, std::shared_ptr<Denoiser> model,
          std::shared_ptr<const Dataset> dataset, memopt::Mode& mode, const TrainerOptions& options,
          BuildObserver* observer = nullptr);

  /// Runs the next optimizer step. `observers` are told of phases; `sink` receives saved tensors
  /// (null: the mode). Throws NonFinite before the optimizer touches the weights: without loss
  /// scaling for a loss or gradient that is not finite, with it for a loss that is not and has
  /// brought the scale below kLeastScale. Throws what Mode::check_step() throws, likewise, but
  /// after the update where the step was a repeated one; Error, exit code 2, when there is a graph
  /// and the mode needs the host.
  StepRecord step(const std::vector<StepObserver*>& observers = {},
                  memopt::SavedTensorSink* sink = nullptr);

  [[nodiscard]] int64_t next_step() const { return next_step_; }
  /// Continues as if `step` steps had been made; the caller has restored the state.
  void resume_at(int64_t step);
  /// Continues from `whole`, which is whole_state() with the values of `step` steps. In a group
  /// both are those of rank 0, and all ranks must call it.
  void restore(const NamedTensors& whole, int64_t step);

  [[nodiscard]] Denoiser& model() { return *model_; }
  /// The samples of the step that goes on.
  [[nodiscard]] const Batch& batch() const { return batch_; }
  /// Is null without a group.
  [[nodiscard]] const GradientReducer* reducer() const { return reducer_.get(); }
  /// Is null without a pipeline.
  [[nodiscard]] const Pipeline* pipeline() const { return pipeline_.get(); }
  /// Bytes that a step exchanges with other ranks, by formula.
  [[nodiscard]] int64_t exchanged_bytes() const;
  [[nodiscard]] const DiffusionProcess& process() const { return process_; }
  [[nodiscard]] const Ema& ema() const { return ema_; }
  [[nodiscard]] const TrainerOptions& options() const { return options_; }
  [[nodiscard]] const std::optional<LossScaler>& scaler() const { return scaler_; }
  /// Steps that repeated a recorded one.
  [[nodiscard]] int64_t repeated_steps() const { return repeated_steps_; }
  /// Returns the part of the device's memory that is the recorded step's own; empty before one was
  /// recorded.
  [[nodiscard]] std::optional<int64_t> recording_bytes() const;

  /// Parameters and buffers under the peers' names; in a pipeline those of this rank's stage.
  [[nodiscard]] NamedTensors weights() const;
  /// Those of all stages, which this rank then has until its next step. All ranks must call it.
  [[nodiscard]] NamedTensors whole_weights();
  /// The parameters among them, likewise.
  [[nodiscard]] NamedTensors whole_parameters();
  /// The average of each parameter; empty without one. Where ranks keep shards, all must call it,
  /// and it is a copy.
  [[nodiscard]] NamedTensors average() const;
  /// weights() with the average in the place of each parameter; empty without one. All ranks must
  /// call it.
  [[nodiscard]] NamedTensors averaged_weights() const;
  /// Returns the parameters; in a pipeline those of this rank's stage.
  [[nodiscard]] NamedTensors parameters() const;
  /// All that a checkpoint holds: weights, optimizer, average and loss scaler. It is shared with
  /// the trainer; but where ranks keep shards, all must call it, and only the weights are.
  [[nodiscard]] NamedTensors whole_state();
  /// The share of the optimizer that this rank keeps. They are shared.
  [[nodiscard]] NamedTensors optimizer_state() const { return adam_.state(); }
  /// Tensors of the current micro-batch that the trainer itself holds: x0, t, noise, x_t,
  /// prediction, loss.
  [[nodiscard]] std::vector<at::Tensor> inputs() const;
  [[nodiscard]] std::vector<at::Tensor> step_tensors() const;

 private:
  struct MicroBatch {
    at::Tensor images, timesteps, noise, noisy, target, prediction, loss;
  };

  /// The tensors that a recorded step reads and writes at fixed places.
  struct Recorded {
    std::unique_ptr<baselines::DeviceGraph> graph;
    at::Tensor images, timesteps, noise;
    std::vector<at::Tensor> losses;  ///< losses of the micro-batches
    at::Tensor norm;                 ///< norm of the gradients; undefined unless they are clipped
    at::Tensor bad;                  ///< is not 0 where nothing was updated
    int64_t warm_ups = 0;
    bool captured = false;
  };

  class StepCleanup;

  [[nodiscard]] std::vector<at::Tensor> gathered(const std::vector<at::Tensor>& own) const;
  [[nodiscard]] NamedTensors whole_optimizer_state() const;
  void take_own_pieces(const NamedTensors& whole);
  void start_loader();
  void load_batch();
  void halve_batch();
  void seed_dropout() const;
  void prepare(int64_t micro);
  [[nodiscard]] std::unique_ptr<BrokenSaving> broken_saving(memopt::SavedTensorSink& sink) const;
  void forward(memopt::SavedTensorSink& sink);
  void predict();
  void backward(bool last);
  void run_micro_batches(const std::vector<StepObserver*>& observers, memopt::SavedTensorSink& sink,
                         StepRecord& record);
  [[nodiscard]] std::unique_ptr<Pipeline> make_pipeline() const;
  void run_pipeline(const std::vector<StepObserver*>& observers, memopt::SavedTensorSink& sink,
                    StepRecord& record);
  void forward_of_stage(int64_t micro, memopt::SavedTensorSink& sink);
  void measure_loss();
  [[nodiscard]] int64_t micro_batches() const;
  [[nodiscard]] at::Tensor root_of(const at::Tensor& loss) const;
  [[nodiscard]] at::Tensor joint_norm() const;
  [[nodiscard]] std::string own_non_finite();
  [[nodiscard]] std::string gradient_of_stage_not_finite() const;
  void issued_by_host(const std::vector<StepObserver*>& observers, memopt::SavedTensorSink& sink,
                      StepRecord& record);
  [[nodiscard]] bool repeats(const memopt::SavedTensorSink* sink) const;
  void repeat_step(const std::vector<StepObserver*>& observers, StepRecord& record);
  void place_batch();
  void issue_step(int64_t step);
  void capture_step(int64_t step);
  [[nodiscard]] at::Tensor issue_checks(const std::vector<at::Tensor>& gradients);
  void read_repeated(StepRecord& record);
  [[nodiscard]] double mean_loss() const;
  void update_weights(StepRecord& record);
  [[nodiscard]] bool gradients_finite(const StepRecord& record) const;
  void throw_if_not_finite(const StepRecord& record);
  void throw_if_beyond_scaling(const StepRecord& record);
  [[nodiscard]] std::string first_non_finite();
  [[nodiscard]] std::string not_finite_in_forward(int64_t micro);
  [[nodiscard]] std::string operator_not_finite(int64_t micro);
  [[nodiscard]] std::string gradient_not_finite() const;
  [[nodiscard]] std::string own_gradient_not_finite();

  Definition definition_;
  TrainerOptions options_;
  std::shared_ptr<Denoiser> model_;
  std::shared_ptr<const Dataset> dataset_;
  memopt::Mode& mode_;
  DiffusionProcess process_;
  std::unique_ptr<Pipeline> pipeline_;  ///< is null unless ranks are stages
  bool has_others_ = true;              ///< this rank has the memory of the other stages' weights
  std::unique_ptr<Shards> shards_;      ///< is null unless ranks keep shards, or are stages
  Adam adam_;
  Ema ema_;
  std::optional<LossScaler> scaler_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<GradientReducer> reducer_;  ///< is null outside a group
  int64_t next_step_ = 0;
  Batch batch_;
  MicroBatch micro_;
  Recorded recorded_;
  int64_t issued_steps_ = 0;        // number that the host issued
  int64_t repeated_steps_ = 0;      // number that the device repeated
  std::vector<at::Tensor> losses_;  // losses of the step's micro-batches
  std::vector<at::Tensor> roots_;   // losses, in a pipeline, whose backward pass is to come
  std::vector<at::Tensor> leaked_;  // tensors that options_.fault leaks; nobody's, so not among
                                    // what is owned
};

}  // namespace noisemark::suite
