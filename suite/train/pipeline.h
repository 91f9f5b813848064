#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "suite/config/definition.h"
#include "suite/models/denoiser.h"
#include "suite/parallel/group.h"
#include "suite/parallel/shards.h"
#include "suite/train/precision.h"

/// A network whose parts are divided among ranks, the stages, which work on different micro-batches
/// at the same time.
namespace noisemark::suite {

/// The order of a stage's work.
enum class PipelineSchedule {
  kGpipe,  ///< all forward passes, then all backward passes (Huang et al. 2019, GPipe)
  k1F1B,   ///< runs a backward pass after each forward pass as soon as it can, so that a stage
           ///< holds the tensors of at most as many micro-batches as there are stages
           ///< (PipeDream-Flush, Narayanan et al. 2021)
};

/// The words of --pipeline; the first is for no pipeline.
[[nodiscard]] std::vector<std::string> pipeline_schedules();
/// Returns the schedule of another one of these words.
[[nodiscard]] PipelineSchedule pipeline_schedule_of(const std::string& word);

/// One pass of a stage.
struct StagePass {
  bool backward = false;
  int64_t micro = 0;  ///< the number of its micro-batch
};

/// Returns of how many micro-batches such a stage holds tensors at the same time.
[[nodiscard]] int64_t passes_together(PipelineSchedule schedule, int64_t stage, int64_t stages,
                                      int64_t micro_batches);

/// All passes of a stage in one step, of which it holds the tensors of `together` at once.
[[nodiscard]] std::vector<StagePass> passes_of(int64_t together, int64_t micro_batches);

/// Divides parts in their order into `stages` groups, so that the longest group is as short as can
/// be. Returns each group's first part. No group is empty; there are at least as many parts.
[[nodiscard]] std::vector<size_t> divide_parts(const std::vector<double>& part_s, int64_t stages);

/// The division of a network among stages. Gradients that several stages give to one tensor are
/// summed stage by stage, so that another division may change last bits.
struct Division {
  std::vector<double> part_s;  ///< time of a micro-batch, forward and backward, as it was measured
  std::vector<size_t> firsts;  ///< the first part of every stage; empty: not divided yet
};

/// Writes a division in one line.
[[nodiscard]] std::string text_of(const Division& division);
/// Reads such a line; what cannot be read divides nothing.
[[nodiscard]] Division division_from(const std::string& line);

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t micro_batches = 0;  ///< number into which the batch of a step is divided; 0: no pipeline
  bool draws_masks = false;   ///< the network has dropout
  /// The first of the trainings that share it divides; null: each one by itself.
  std::shared_ptr<Division> division;
};

/// Throws Error, exit code 2, for a training that cannot be divided among stages: one with
/// accumulation or loss scaling, or with a batch that its micro-batches do not divide.
void require_pipeline(int64_t micro_batches, const Definition& definition,
                      const Precision& precision);

/// The work of one stage in a step. Forward passes make autograd's graph of the stage alone: what
/// comes from other stages is a leaf of it, and what goes to others is let go of once it is sent.
class Pipeline {
 public:
  /// Measures, on all ranks at once, how long each part takes for a micro-batch `x`
  /// [N, C, H, W], and divides by the means over the ranks, unless that was done before. `model`
  /// must outlive it, and is the same on all ranks. Throws Error, exit code 2, if there are more
  /// ranks than parts.
  Pipeline(std::shared_ptr<Group> group, Denoiser& model, PipelineOptions options,
           const Precision& precision, const at::Tensor& x);
  ~Pipeline();

  struct Stage {
    std::string first;  ///< names of its first and last part
    std::string last;
    int64_t parts = 0;
    double part_s = 0;  ///< the sum of its parts' times, forward and backward, for a micro-batch
  };
  [[nodiscard]] const std::vector<Stage>& stages() const;
  [[nodiscard]] const PipelineOptions& options() const;

  [[nodiscard]] bool is_first() const;
  [[nodiscard]] bool is_last() const;
  /// The stage's passes in one step: by the schedule, or each backward pass right after its forward
  /// pass. That takes longer, and a memory mode then sees one pass at a time.
  [[nodiscard]] std::vector<StagePass> passes(bool in_turn) const;
  /// By the schedule the stage holds the tensors of so many micro-batches at once.
  [[nodiscard]] int64_t together() const;
  /// Returns what it holds of each of them beside what autograd saves: inputs, and what it gave.
  [[nodiscard]] int64_t bytes_of_open_pass() const;
  /// The parameters of each stage, whole, as pieces of the model's.
  [[nodiscard]] std::vector<Pieces> shares() const;
  /// Returns whether this stage has the parameter of that name.
  [[nodiscard]] bool owns(const std::string& name) const;

  /// Frees the memory of the other stages' parameters, which keep their shapes.
  void release_others();
  /// Gives it back, without their values.
  void allocate_others();

  /// A forward pass of a micro-batch has three steps. This one waits for what other stages give;
  /// the first stage begins with `x` and `t` instead. Throws GroupLost.
  [[nodiscard]] Flow receive(int64_t micro, const at::Tensor& x, const at::Tensor& t);
  /// Runs the stage's parts.
  void run(int64_t micro, Flow& flow);
  /// Begins to give other stages what they need. Throws GroupLost.
  void give(int64_t micro, const Flow& flow);
  /// Runs the backward pass of that forward pass. Only the last stage reads `root`, the loss times
  /// its weight. Throws GroupLost.
  void backward(int64_t micro, const at::Tensor& root);
  /// Waits until the others have what this stage gave them. Throws GroupLost.
  void finish();

  /// Bytes that this stage gives others in one step, by formula.
  [[nodiscard]] int64_t given_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace noisemark::suite
