#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memopt/allocation_source.h"
#include "memopt/backward_watch.h"
#include "memopt/gradient_probe.h"
#include "memopt/mode.h"
#include "memopt/plan/resolve.h"
#include "memopt/plan/treatment.h"
#include "memopt/record/recorder.h"
#include "memopt/replay/device_doubt.h"
#include "memopt/replay/execution.h"
#include "memopt/replay/rehearsal.h"

namespace noisemark::memopt {

/// What happened in the forward passes that followed a plan, or compared one.
struct ExecutionCounters {
  int64_t recipes_run = 0;
  int64_t recipes_run_again = 0;  ///< beyond once per pass: their result was gone too early
  int64_t codec_fallbacks = 0;    ///< tensors that a codec did not take, kept as they were
  int64_t departures = 0;         ///< passes that left the recorded path
  int64_t mismatches = 0;         ///< values that a recipe or codec did not give bit for bit
};

/// The host memory of a mode that offloads.
struct HostMemoryReport {
  int64_t capacity_bytes = 0;   ///< what was taken for it
  int64_t refused_tensors = 0;  ///< saved storages that found it full, in at least one pass
  int64_t refused_bytes = 0;    ///< of those, as they were saved
};

/// What a planned mode did since attach().
struct PlannedModeReport {
  PlanSummary plan;                     ///< of the plan in force
  ExecutionCounters counters;           ///< over all passes that are over
  int32_t kept_after_mismatch = 0;      ///< values whose recipe was not exact
  int32_t replayed_after_mismatch = 0;  ///< values whose shortcut was not exact
  int32_t unrepeatable = 0;     ///< operators whose arguments changed between recorded passes
  int64_t followed_passes = 0;  ///< that followed a verified plan from beginning to end
  bool verified = false;        ///< the next pass follows the plan
  std::optional<HostMemoryReport> host;  ///< of a mode that offloads, since it has planned
  std::string missing_reason;            ///< why there is no plan, empty when there is one
};

/// What a plan is expected to hold and to cost, from the recorded step (plan/peak_timeline.h).
struct PlanEstimate {
  std::optional<int64_t> peak_bytes;  ///< of all owners; empty where the device's allocations could
                                      ///< not be followed
  int64_t saved_bytes = 0;            ///< when forward returns
  int64_t peak_saved_bytes = 0;
  int64_t cost_ns = 0;  ///< added to a step: what is made again, encoded and decoded
};

/// A mode that watches two forward passes, makes a plan from a policy, compares every planned value
/// with the true one bit for bit in the third pass (but those that a codec rounds), and follows the
/// plan from then on. A codec that refuses a value makes room for the policy's next one: in the
/// third pass at once, later between passes, after it has refused twice; until then the value is
/// kept, and counted. A value for which host memory had no room goes the same way, and report()
/// tells of it whatever the pass. While the mode watches it keeps everything, as mode "none" does.
/// A pass that departs from the recorded one is finished by keeping. A value that is made again and
/// is not what forward had is an error of backward, or of check_step() where the device alone knows
/// it, and kept from the next pass on. A model that cannot be recorded is trained as under "none",
/// and report() says why. What is recorded or compared is what backward asked for before end_step()
/// or the next forward pass; a backward that comes later gets its tensors, and is heard when the
/// next pass begins.
class PlannedMode : public Mode {
 public:
  PlannedMode(std::string name, bool lossless, Policy policy);
  ~PlannedMode() override;

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool lossless() const override { return lossless_; }
  void attach(const ModelView& model) override;
  void begin_step(int64_t step) override;
  void end_step() override;
  void check_step() override;
  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override;
  void begin_forward() override;
  void end_forward() override;
  [[nodiscard]] int64_t forwards_until_steady() const override { return 3; }
  /// It follows a verified plan, or has given up making one.
  [[nodiscard]] bool steady() const override;
  [[nodiscard]] std::vector<at::Tensor> held() const override;

  /// Null before the second recorded pass has ended.
  [[nodiscard]] std::shared_ptr<const TreatmentPlan> plan() const { return plan_; }
  [[nodiscard]] PlannedModeReport report() const;
  /// Of the plan in force; empty when there is none. Measures codecs, where it has not been done.
  [[nodiscard]] std::optional<PlanEstimate> estimate() const;
  /// Of what autograd saves, what no plan of this mode could make again, by what is known of the
  /// recorded step (plan/treatment.h); empty when there is no plan.
  [[nodiscard]] virtual std::optional<int64_t> irreplaceable_bytes() const;

 protected:
  /// The plan for a recorded step: the policy's. `verified`: its recipes and codecs were compared
  /// in a pass, and `overrides` knows the outcome; otherwise the plan is for that pass. What it
  /// throws ends the mode's work, not the training.
  [[nodiscard]] virtual TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph,
                                               const Overrides& overrides, bool verified);
  [[nodiscard]] c10::Device device() const;

  /// What compares values that are made again where they lie, without the host. Null where the host
  /// does: on a CPU.
  [[nodiscard]] virtual const replay::SampleDevice* late_comparison() const;

  /// Whether a pass is needed, after the one that verified, in which everything is kept and plans
  /// are tried. Asked before every pass.
  [[nodiscard]] virtual bool wants_rehearsal() const { return false; }
  /// In such a pass, before its backward. Afterwards plan_for() is asked again.
  virtual void rehearse(GradientProbe& /*probe*/) {}

 private:
  class Watcher;
  /// A forward pass that is over, unlike its backward perhaps.
  struct PastPass {
    std::shared_ptr<const BackwardFindings> findings;
    std::shared_ptr<const TreatmentPlan> plan;  ///< that it followed; null where it compared one
    BackwardFinding heard;                      ///< of its findings
  };

  /// Whose memory is read while a step is recorded. Null where nobody follows it.
  [[nodiscard]] AllocationSource* recorded_memory() const;
  [[nodiscard]] std::optional<HostMemoryReport> host_memory() const;
  /// Null where nothing is compared late. The same for all passes, so that a repetition of one
  /// writes where the host looks.
  [[nodiscard]] std::shared_ptr<DeviceDoubt> doubt();
  void check_unchecked_step();
  void refuse_doubtful_step();
  void finish_pass();
  void rehearse_before(const BackwardAgain& again);
  [[nodiscard]] std::unique_ptr<GradientProbe> probe_of(const BackwardAgain& again,
                                                        std::vector<at::Tensor> parameters);
  void finish_recording();
  void finish_following();
  void learn_from(const PlanExecution& execution);
  void learn_from_verdicts();
  void count_fallbacks(const std::vector<Refusal>& refused);
  [[nodiscard]] bool give_up_shortcuts(const std::set<ValueId>& wrong);
  void learn_from_backwards();
  void keep_what_differed(std::vector<ValueId> suspects, const TreatmentPlan& plan);
  /// Of a pass whose backward did not come to its end.
  [[nodiscard]] bool is_seen_again();
  void replace_codecs(const std::vector<Refusal>& refused);
  [[nodiscard]] ValueId encoded_as(ValueId value) const;
  void make_plan();
  void give_up(const std::string& reason);

  std::string name_;
  bool lossless_;
  Policy policy_;
  ModelView model_;
  int64_t step_ = 0;
  std::unique_ptr<StepRecorder> recorder_;    ///< of the pass in progress
  std::unique_ptr<PlanExecution> execution_;  ///< of the pass in progress
  std::vector<PastPass> past_;
  std::vector<AwaitedVerdict> awaited_;  ///< of passes that are over
  std::shared_ptr<DeviceDoubt> doubt_;
  std::shared_ptr<const TreatmentPlan> doubted_;  ///< the last plan that was followed
  std::unique_ptr<Verdict> asked_;                ///< of `doubt_`, where nobody calls check_step()
  bool unchecked_ = false;                        ///< a plan was followed since check_step()
  std::unique_ptr<Rehearsal> rehearsal_;          ///< of the pass in progress
  std::shared_ptr<Watcher> watcher_;              ///< of the backward of a rehearsal
  std::shared_ptr<StepGraph> graph_;              ///< of the first recorded pass
  bool reconciled_ = false;
  bool verified_ = false;
  bool gave_up_ = false;  ///< keeps everything from then on
  int cut_short_ = 0;     ///< passes whose backward was, while they were watched
  Overrides overrides_;
  std::map<ValueId, int> refusals_;  ///< of the codecs of the plan in force
  std::shared_ptr<const TreatmentPlan> plan_;
  PlannedModeReport report_;
};

/// What a mode did since it was attached. Of one that makes no plan it says just that.
[[nodiscard]] PlannedModeReport report_of(const Mode& mode);

}  // namespace noisemark::memopt
