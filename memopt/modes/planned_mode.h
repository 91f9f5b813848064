#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "memopt/accounting/allocation_source.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/modes/mode.h"
#include "memopt/plan/peak_timeline.h"
#include "memopt/plan/resolve.h"
#include "memopt/record/recorder.h"
#include "memopt/replay/execution.h"
#include "memopt/replay/rehearsal.h"
#include "memopt/replay/value_samples.h"
#include "memopt/treatment/treatment.h"

namespace noisemark::memopt {

/// Counts of events in the forward passes that followed a plan, or compared one.
struct ExecutionCounters {
  int64_t recipes_run = 0;
  int64_t recipes_run_again = 0;  ///< runs beyond one for each pass, for which the result was gone
                                  ///< too early
  int64_t codec_fallbacks = 0;    ///< tensors that a codec did not take, kept as they were
  int64_t departures = 0;         ///< passes that left the recorded path
  int64_t mismatches = 0;         ///< values that a recipe or codec did not give bit for bit
};

/// The host memory of a mode that offloads.
struct HostMemoryReport {
  int64_t capacity_bytes = 0;   ///< size of the pool
  int64_t refused_tensors = 0;  ///< saved storages that found it full, in at least one pass
  int64_t refused_bytes = 0;    ///< bytes of those storages, as they were saved
};

/// A mode's keeping of its budget, in the steps that began after it had watched as many forward
/// passes as it needs.
struct KeptBudget {
  int64_t steps = 0;
  int64_t exceeded = 0;  ///< steps that held more; of "saved=" those with a pass that followed no
                         ///< plan, was retained or ran beside a graph of an earlier step
  std::string reason;    ///< why the last of them did; empty when none did
  int64_t needed_bytes = 0;  ///< need of the plan in force, where that is not within the budget
  /// Steps whose gradient was so small that its error may have been more than twice what was
  /// allowed, and the reason of the last of them.
  int64_t uncertain = 0;
  std::string uncertain_reason;
};

/// The work of a planned mode since attach().
struct PlannedModeReport {
  PlanSummary plan;                     ///< figures of the plan in force
  ExecutionCounters counters;           ///< sums over all passes that are over
  int32_t kept_after_mismatch = 0;      ///< values whose recipe was not exact
  int32_t replayed_after_mismatch = 0;  ///< values whose shortcut was not exact
  int32_t unrepeatable = 0;      ///< operators whose arguments changed between recorded passes
  int64_t followed_passes = 0;   ///< passes that followed a verified plan from beginning to end
  int64_t retained_passes = 0;   ///< followed passes held after a backward, or, unlike the recorded
                                 ///< one, asked for by a second
  int64_t unplanned_passes = 0;  ///< passes from the last that followed a plan; they kept
                                 ///< everything
  int64_t recordings = 0;  ///< plans that were made for passes of a new kind, the first included
  bool verified = false;   ///< the next pass follows the plan
  std::optional<HostMemoryReport> host;  ///< is empty without offloading, and before there is a
                                         ///< plan
  std::string missing_reason;    ///< why there is no plan, or why it recomputes nothing; else empty
  std::string departure_reason;  ///< why the last pass did not follow the plan; empty: it did
  std::string keeps_all_reason;  ///< why the plan saves nothing, from report_of(); is empty where
                                 ///< it does, or chose not to
  std::optional<KeptBudget> budget;  ///< is empty where the mode has none
};

/// The bytes and the cost that are expected of a plan, from the recorded step
/// (plan/peak_timeline.h).
struct PlanEstimate {
  std::optional<int64_t> peak_bytes;  ///< the most bytes of all owners at once; empty: the
                                      ///< device's allocations could not be followed
  int64_t saved_bytes = 0;            ///< bytes held when forward returns
  int64_t peak_saved_bytes = 0;
  int64_t cost_ns = 0;  ///< time that a step is longer: what is recomputed, encoded and decoded
};

/// A mode that watches forward passes until two are alike, makes a plan from a policy, compares
/// every planned value with the true one bit for bit in the next such pass (but those that a codec
/// rounds), and follows the plan from then on. A codec that refuses a value makes room for the
/// policy's next one: in the third pass at once, later between passes, after it has refused twice;
/// until then the value is kept, and counted. A value for which host memory had no room goes the
/// same way, and report() tells of it whatever the pass. While the mode watches it keeps
/// everything, as mode "none" does. A pass that departs from the recorded one is finished by
/// keeping. After some of them, and at once where parameters have got other memory, the mode
/// watches again, each time after twice as many; the plans that it had serve the passes that still
/// go as theirs did, so batches of several shapes have a plan each, and so have two heads of one
/// trunk: a pass holds what every plan holds that it may still follow. Beyond four plans the one
/// that was not followed for the longest time goes. A value that is recomputed
/// and is not what forward had is an error of backward, or of check_step() where the device alone
/// knows it, and kept from the next pass on. A model that cannot be recorded is trained as under
/// "none", and report() says why. What is recorded or compared is what backward asked for before
/// end_step() or the next forward pass; a backward that comes later gets its tensors, and is heard
/// when the next pass begins.
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
  [[nodiscard]] virtual PlannedModeReport report() const;
  /// The estimate of the plan in force; empty when there is none. Measures codecs, where it has not
  /// been done.
  [[nodiscard]] std::optional<PlanEstimate> estimate() const;
  /// The saved bytes that no plan of this mode could recompute, by what is known of the
  /// recorded step (treatment/treatment.h); empty when there is no plan.
  [[nodiscard]] virtual std::optional<int64_t> irreplaceable_bytes() const;

 protected:
  /// The plan for a recorded step: the policy's. `verified`: its recipes and codecs were compared
  /// in a pass, and `overrides` knows the outcome; otherwise the plan is for that pass. What it
  /// throws ends the mode's work, not the training.
  [[nodiscard]] virtual TreatmentPlan plan_for(std::shared_ptr<const StepGraph> graph,
                                               const Overrides& overrides, bool verified);
  [[nodiscard]] c10::Device device() const;
  [[nodiscard]] const ModelView& model() const { return model_; }
  /// The memory that is read while a step is recorded. It is null where nobody follows it.
  [[nodiscard]] AllocationSource* recorded_memory() const;

  /// Compares values that are recomputed where they lie, without the host. It is null where the
  /// host does: on a CPU.
  [[nodiscard]] virtual const replay::SampleDevice* late_comparison() const;

  /// Returns whether a pass is needed, after the one that verified, in which everything is kept and
  /// plans are tried. It is asked before every pass.
  [[nodiscard]] virtual bool wants_rehearsal() const { return false; }
  /// Rehearses in such a pass, before each of its backwards. plan_for() is asked again when the
  /// pass is over.
  virtual void rehearse(GradientProbe& /*probe*/) {}
  /// Returns whether it may run hooks and functions of the program more often than the program
  /// does.
  [[nodiscard]] virtual bool rehearses_hooks() const { return true; }
  /// The reason why no backward of a pass was rehearsed.
  enum class Unrehearsed : uint8_t {
    kHooks,       ///< it runs what rehearses_hooks() tells of
    kUnwatched,   ///< it ran within the scope of its forward pass, or on another thread
    kNoGradient,  ///< the gradient was zero or not finite, or there was no backward
  };
  /// Returns whether the plan is followed nevertheless.
  [[nodiscard]] virtual bool follows_unrehearsed(Unrehearsed /*why*/) { return false; }
  /// The next pass rehearses again.
  virtual void forget_rehearsal() {}

  /// A pass begins that may follow the plan in force. What it throws ends the mode's work.
  virtual void before_pass() {}
  /// Returns whether the plan in force may be followed again once another is in force.
  [[nodiscard]] virtual bool serves_later() const { return true; }
  /// The plan in force is of the past: the next is for another kind of pass.
  virtual void forget_plan() {}
  /// The most forward passes so far that were held at once, for a backward after the last of them.
  [[nodiscard]] int64_t passes_together() const { return together_; }
  /// The passes that a step holds beside each of its own, as far as the program knew beforehand.
  [[nodiscard]] PassesBeside passes_beside() const {
    return {model_.passes_together - 1, model_.bytes_of_open_pass};
  }
  /// The most forward passes of earlier steps that were held when one of this step began.
  [[nodiscard]] int64_t passes_of_earlier_steps() const { return earlier_held_; }
  /// The most bytes by which the parameters had more gradients when a pass began that went the
  /// recorded way than when the recorded one did: those of the passes before it in its step.
  [[nodiscard]] int64_t bytes_beside() const { return beside_bytes_; }
  /// Bytes of the tensors that a pass under a plan has held since attach() as they were saved,
  /// because their codecs did not take them.
  [[nodiscard]] int64_t refused_bytes() const { return refused_bytes_; }
  /// The most bytes that a pass of this step held at its end for plans that it had followed for a
  /// while, beside those of the one that it follows.
  [[nodiscard]] int64_t bytes_for_other_plans() const { return other_plans_bytes_; }
  void require_attached() const;
  [[nodiscard]] bool has_open_scope() const { return open_on_.load() != std::thread::id(); }
  /// The backward of a pass is run to try plans. A scope that it opens is no pass of the program.
  [[nodiscard]] bool is_rehearsing() const { return rehearses_; }
  /// Says why a pass of the last step followed no plan, of which there was one.
  [[nodiscard]] std::string reason_without_plan() const;
  /// Plans for passes like the recorded one round none of these storages from now on.
  void must_be_exact(const std::vector<StorageId>& storages);
  /// They do not use these codecs for these tensors.
  void must_not_use(const std::vector<Refusal>& refused);
  /// Steps that have begun since attach(), whatever their numbers; a pass outside of them is one.
  [[nodiscard]] int64_t steps() const { return steps_; }
  /// Forward passes that have begun since attach().
  [[nodiscard]] int64_t passes() const { return passes_; }
  /// Forgets every plan and watches again.
  void start_over(const std::string& reason);
  /// Makes the plan in force anew, and forgets those of other passes.
  void plan_again();

 private:
  class Watcher;
  // The phases of a mode, in their order. Each owns the pass in progress.
  /// Keeps everything and watches, until two passes are alike.
  struct Recording {
    std::vector<std::shared_ptr<StepGraph>> seen;  ///< passes that were like none before them
    std::unique_ptr<StepRecorder> pass;
  };
  /// Keeps everything, after watching many passes in vain.
  struct Resting {
    int64_t passes_left = 0;
  };
  /// Keeps everything, and compares it with what the plan would have given.
  struct Verifying {
    std::unique_ptr<PlanExecution> pass;
  };
  /// Keeps everything, and tries plans before the pass's own backward.
  struct Rehearsing {
    std::unique_ptr<Rehearsal> pass;
    std::shared_ptr<Watcher> watcher;
    bool tried = false;      ///< plans were, before at least one backward
    bool met_hooks = false;  ///< a backward was let by, for what rehearses_hooks() says
    bool watched = false;    ///< a backward began that could be rehearsed, as far as that goes
  };
  /// Holds what the plan says.
  struct Following {
    std::unique_ptr<PlanExecution> pass;
  };
  /// Keeps everything from now on.
  struct GivenUp {};
  using Phase = std::variant<Recording, Resting, Verifying, Rehearsing, Following, GivenUp>;

  /// A verified plan that is not in force.
  struct KnownPlan {
    std::shared_ptr<const TreatmentPlan> plan;
    int64_t followed_at = 0;          ///< the last pass that did
    bool begins_like_others = false;  ///< passes of another kind begin as those that follow it
  };
  /// A verified plan that is not in force, and a pass that may follow it.
  struct Alternative {
    std::shared_ptr<const TreatmentPlan> plan;
    std::unique_ptr<PlanExecution> pass;
    bool begins_like_others = false;
  };
  class SharedPass;

  /// A forward pass that is over, unlike its backward perhaps.
  struct PastPass {
    std::shared_ptr<const BackwardFindings> findings;
    std::shared_ptr<const TreatmentPlan> plan;  ///< the plan it followed; null: it compared one
    BackwardFinding heard;                      ///< findings counted already
  };

  [[nodiscard]] std::optional<HostMemoryReport> host_memory() const;
  /// Returns null where nothing is compared late, and the same for all passes, so that a repetition
  /// of one writes where the host looks.
  [[nodiscard]] std::shared_ptr<DeviceDoubt> doubt();
  void check_unchecked_step();
  void refuse_doubtful_step();
  /// The one place where the phase changes: from recording to verifying, when two passes were
  /// alike; from there to following, when all that was compared was right; between following and
  /// rehearsing, before each pass; between recording and resting, where no two passes are alike;
  /// back to recording, when passes are of another kind; and from anywhere to giving up.
  void enter(Phase next) { phase_ = std::move(next); }
  template <typename InPhase>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<InPhase>(phase_);
  }
  /// All that the plan recomputes was compared in a pass, and was right.
  [[nodiscard]] bool verified() const { return is<Following>() || is<Rehearsing>(); }
  /// Returns null where the pass in progress has no plan.
  [[nodiscard]] PlanExecution* execution() const;
  [[nodiscard]] std::shared_ptr<const TreatmentPlan> followed_plan() const;
  void begin_pass();
  void warn_of_unplanned_passes();
  void finish_pass();
  void note_open_pass();
  void settle_shared_pass();
  void finish_alternative();
  [[nodiscard]] std::unique_ptr<torch::autograd::SavedVariableHooks> hooks_of_pass();
  void drop_pass();
  /// Asks the pass in progress where it is under the plan in force, or rehearses others for it.
  template <typename Says>
  [[nodiscard]] bool says_of_pass(const Says& says) {
    if (PlanExecution* pass = execution()) return says(*pass);
    const auto* rehearsing = std::get_if<Rehearsing>(&phase_);
    return rehearsing != nullptr && rehearsing->pass != nullptr && says(*rehearsing->pass);
  }
  [[nodiscard]] bool begins_as_planned(const at::Tensor& tensor);
  [[nodiscard]] bool has_departed();
  [[nodiscard]] bool is_complete();
  void forget_other_models();
  void note_followed();
  void note_recorded_way();
  void note_other_plans(const std::vector<std::shared_ptr<const TreatmentPlan>>& shared);
  void note_departure();
  /// Watches again; passes that begin as the plan's did still follow it, if it was verified.
  void record_again(const std::string& reason);
  void rehearse_before(const BackwardToCome& backward);
  void finish_rehearsing(Rehearsing& rehearsing, const Rehearsal& pass);
  [[nodiscard]] static Unrehearsed why_unrehearsed(const Rehearsing& rehearsing,
                                                   const Rehearsal& pass);
  [[nodiscard]] bool must_not_round(const std::vector<SlotId>& slots);
  void finish_recording(Recording& recording);
  void keep_recording(Recording& recording, StepGraph graph);
  void finish_verifying(const PlanExecution& pass);
  void finish_following(PlanExecution& pass);
  /// Notes what any pass under a plan tells, whatever its purpose.
  void note_pass(const PlanExecution& pass, std::shared_ptr<const TreatmentPlan> followed);
  void learn_from(const PlanExecution& execution);
  void learn_from_answers();
  void count_fallbacks(const std::vector<Refusal>& refused, const TreatmentPlan& plan);
  [[nodiscard]] bool give_up_shortcuts(const std::set<ValueId>& wrong);
  void learn_from_backwards();
  void keep_what_differed(std::vector<ValueId> suspects, const TreatmentPlan& plan);
  /// It is asked about a pass whose backward did not come to its end.
  [[nodiscard]] bool is_seen_again();
  void replace_codecs(const std::vector<Refusal>& refused);
  [[nodiscard]] ValueId encoded_as(ValueId value) const;
  void make_plan();
  void give_up(const std::string& reason);

  std::string name_;
  bool lossless_;
  Policy policy_;
  ModelView model_;
  bool attached_ = false;
  int64_t step_ = 0;  ///< the number that begin_step() was given last
  int64_t steps_ = 0;
  bool step_is_open_ = false;
  Phase phase_ = Recording{};
  std::vector<PastPass> past_;
  std::vector<AwaitedAnswer> awaited_;  ///< answers for passes that are over
  std::shared_ptr<DeviceDoubt> doubt_;
  std::shared_ptr<const TreatmentPlan> doubted_;  ///< the last plan that was followed
  std::unique_ptr<DeviceAnswer> asked_;      ///< answer of `doubt_`, if nobody calls check_step()
  bool unchecked_ = false;                   ///< a plan was followed since check_step()
  std::shared_ptr<StepGraph> graph_;         ///< the pass that is planned for; null: recording
  std::vector<KnownPlan> known_;             ///< verified plans that are not in force
  int64_t followed_at_ = 0;                  ///< the last pass that followed the plan in force
  bool begins_like_others_ = false;          ///< the plan in force is one, as in KnownPlan
  std::shared_ptr<SharedPass> shared_pass_;  ///< is null after the forward pass, and where only the
                                             ///< plan in force is known
  bool was_shared_ = false;                  ///< the pass went on as several plans do for a while
  int64_t other_plans_bytes_ = 0;
  Alternative other_;       ///< the one that the pass follows; null: none
  int64_t departures_ = 0;  ///< their number from the making of the plan on
  int64_t patience_ = 0;    ///< number of departures that are let by
  std::vector<std::weak_ptr<const void>> open_passes_;     ///< passes of this step that are held
  std::vector<std::weak_ptr<const void>> earlier_passes_;  ///< passes of earlier steps that are
                                                           ///< held
  int64_t earlier_held_ = 0;
  int64_t together_ = 1;
  int64_t begin_gradient_bytes_ = 0;  ///< those of the parameters' gradients when the pass began
  int64_t beside_bytes_ = 0;
  int64_t refused_bytes_ = 0;
  int64_t passes_ = 0;
  int64_t followed_until_ = 0;  ///< passes_ at the end of the last that followed a plan
  bool warned_ = false;         ///< it warned that no plan was followed for long
  std::atomic<std::thread::id> open_on_ = {};  ///< thread with a scope; that of none: no scope is
  bool rehearses_ = false;  ///< scopes that a backward opens meanwhile keep everything
  int cut_short_ = 0;       ///< passes whose backward was, while they were watched
  Overrides overrides_;
  std::map<ValueId, int> refusals_;  ///< refusals by the plan's codecs, by value
  std::shared_ptr<const TreatmentPlan> plan_;
  bool makes_nothing_again_ = false;  ///< the plan in force, since that would hold more
  PlannedModeReport report_;
};

/// The work of a mode since it was attached. For one that makes no plan it says just that.
[[nodiscard]] PlannedModeReport report_of(const Mode& mode);

}  // namespace noisemark::memopt
