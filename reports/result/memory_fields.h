#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/base/fields.h"
#include "reports/result/result.h"

/// The fields of the memory sections of result.json, in the order in which they are written.
namespace noisemark::reports::json {

/// A field and a metric mean the same.
inline constexpr const char* kPeakSavedWords =
    "the most bytes like those of saved_bytes at any moment of a step, with what is recomputed";

template <>
inline constexpr std::array kNames<Verdict>{
    std::pair{Verdict::kPass, std::string_view{"pass"}},
    std::pair{Verdict::kFail, std::string_view{"fail"}},
    std::pair{Verdict::kNotApplied, std::string_view{"not_applied"}},
    std::pair{Verdict::kUnavailable, std::string_view{"unavailable"}}};

template <>
struct Fields<MemorySnapshot> {
  using T = MemorySnapshot;
  static constexpr About kAbout{"MemorySnapshot",
                                "Live bytes by owner at one instant; MemorySection::categories has "
                                "the names and their order."};
  static constexpr std::tuple kAll{
      field("at", &T::at, "\"forward_end\", \"peak\", ..."),
      field("by_category", &T::by_category, "live bytes of every category").at_least(0),
      field("allocator_bytes", &T::allocator_bytes, "live bytes by the allocator").at_least(0),
      field("unattributed_bytes", &T::unattributed_bytes,
            "allocator_bytes less the sum of by_category; 0 closes")};
};

template <>
struct Fields<MemoryPoint> {
  static constexpr About kAbout{"MemoryPoint", "One change of the live bytes, thinned for plots."};
  static constexpr std::tuple kAll{
      field("time_s", &MemoryPoint::time_s, "time since the step began").at_least(0),
      field("by_category", &MemoryPoint::by_category,
            "live bytes in the order of MemorySection::categories, then unattributed ones")};
};

template <>
struct Fields<DeviceMemory> {
  using T = DeviceMemory;
  static constexpr About kAbout{
      "DeviceMemory",
      "Memory that a GPU's allocator holds beyond live tensors, and the process beyond its "
      "allocator, around the step whose memory was measured. Empty on a CPU."};
  static constexpr std::tuple kAll{
      field("allocated_bytes", &T::allocated_bytes,
            "live bytes when the step ended, as the allocator rounds them")
          .at_least(0),
      field("rounding_bytes", &T::rounding_bytes,
            "part of what is in use then that nobody asked for")
          .at_least(0),
      field("reserved_bytes", &T::reserved_bytes, "bytes taken from the device when the step ended")
          .at_least(0),
      field("peak_allocated_bytes", &T::peak_allocated_bytes, "most live bytes in the step")
          .at_least(0),
      field("peak_reserved_bytes", &T::peak_reserved_bytes, "most reserved bytes in the step")
          .at_least(0),
      field("fragmentation_bytes", &T::fragmentation_bytes,
            "peak_reserved_bytes less peak_allocated_bytes: held, and not needed even then")
          .at_least(0),
      field("unusable_bytes", &T::unusable_bytes,
            "parts of split blocks, when the step ended, that can serve only what is no larger")
          .at_least(0),
      field("process_bytes", &T::process_bytes,
            "bytes of the process when the step ended, by the driver's count")
          .at_least(0),
      field("retries", &T::retries, "allocations in the step that had to give memory back first")
          .at_least(0),
      field("failures", &T::failures, "allocations that failed even then").at_least(0),
      field("missing_reason", &T::missing_reason, "reason why figures are null")};
};

template <>
struct Fields<ConvolutionWorkspace> {
  static constexpr About kAbout{
      "ConvolutionWorkspace",
      "Scratch memory that convolutions took from a GPU's allocator in the step whose memory was "
      "measured, beside the limit that was set for it."};
  static constexpr std::tuple kAll{
      field("largest_bytes", &ConvolutionWorkspace::largest_bytes,
            "largest block that one call of cuDNN had; 0 where none had any")
          .at_least(0),
      field("peak_bytes", &ConvolutionWorkspace::peak_bytes,
            "most that the category workspace held at one instant, including what cuBLAS keeps")
          .at_least(0),
      field("limit_bytes", &ConvolutionWorkspace::limit_bytes,
            "limit by CUDNN_CONV_WSCAP_DBG; null where it is not set or no number")
          .at_least(0),
      field("missing_reason", &ConvolutionWorkspace::missing_reason,
            "reason why the first two are null")};
};

template <>
struct Fields<TrainingMemory> {
  static constexpr About kAbout{
      "TrainingMemory",
      "Most memory that a GPU's allocator held in the training pass, evaluations included. The "
      "device may repeat its steps alone (baseline \"cuda-graph\"), from memory that is the "
      "recording's own; bytes by owner are of the memory pass, whose steps the host issues."};
  static constexpr std::tuple kAll{
      field("repeated_steps", &TrainingMemory::repeated_steps,
            "steps of the pass that the device repeated")
          .at_least(0),
      field("peak_allocated_bytes", &TrainingMemory::peak_allocated_bytes,
            "most live bytes as the allocator rounds them; null on a CPU")
          .at_least(0),
      field("peak_reserved_bytes", &TrainingMemory::peak_reserved_bytes,
            "most bytes taken from the device; null on a CPU")
          .at_least(0),
      field("recording_bytes", &TrainingMemory::recording_bytes,
            "part of the reserved bytes that only repetitions may use; null where no step was "
            "recorded")
          .at_least(0),
      field("missing_reason", &TrainingMemory::missing_reason, "reason why figures are null")};
};

template <>
struct Fields<MemorySection> {
  using T = MemorySection;
  static constexpr About kAbout{"MemorySection", "Memory of one steady step, by owner."};
  static constexpr std::tuple kAll{
      field("measured", &T::measured, "true where the memory pass was made"),
      field("missing_reason", &T::missing_reason, "reason why it was not"),
      field("source", &T::source, "allocator hook that counted"),
      field("categories", &T::categories, "owners of memory, in the order of every list by owner"),
      field("boundaries", &T::boundaries, "snapshots in the order of the step's phases"),
      field("peak", &T::peak, "snapshot at the peak"),
      field("peak_phase", &T::peak_phase, "phase of the peak"),
      field("peak_operator", &T::peak_operator, "operator that ran at the peak"),
      field("peak_bytes", &T::peak_bytes, "most live bytes of all categories").at_least(0),
      field("saved_bytes", &T::saved_bytes,
            "distinct storages that forward leaves: held for backward, as they are or encoded, and "
            "the prediction and losses of the step")
          .at_least(0),
      field("peak_saved_bytes", &T::peak_saved_bytes, kPeakSavedWords).at_least(0),
      field("naive_saved_bytes", &T::naive_saved_bytes,
            "bytes held for backward summed per saved variable, to show the over-count")
          .at_least(0),
      field("saved_tensors", &T::saved_tensors, "saved variables packed in the step").at_least(0),
      field("leaked_bytes", &T::leaked_bytes,
            "live bytes after the step less those before it, with gradients released"),
      field("outside_allocator_bytes", &T::outside_allocator_bytes,
            "bytes of the process beyond its allocator")
          .at_least(0),
      field("allocations", &T::allocations, "allocations in one steady step").at_least(0),
      field("timeline", &T::timeline, "changes of the live bytes over one step").on_one_line(),
      field("device_memory", &T::device_memory,
            "bytes that the allocator of a GPU held beyond the live ones"),
      field("convolution_workspace", &T::convolution_workspace,
            "limit and use of the workspace of convolutions"),
      field("training", &T::training,
            "memory of the training pass; also where the memory pass was not made")};
};

template <>
struct Fields<StepBytes> {
  using T = StepBytes;
  static constexpr About kAbout{"StepBytes", "Bytes of one steady step, as in MemorySection."};
  static constexpr std::tuple kAll{
      field("peak_bytes", &T::peak_bytes, "the most live bytes").at_least(0),
      field("saved_bytes", &T::saved_bytes, "bytes that autograd holds when the forward pass ends")
          .at_least(0),
      field("peak_saved_bytes", &T::peak_saved_bytes, "the most bytes that autograd holds at once")
          .at_least(0)};
};

template <>
struct Fields<ModeBudget> {
  static constexpr About kAbout{"ModeBudget",
                                "The request of a mode \"budget:...\". Empty for any other mode."};
  static constexpr std::tuple kAll{
      field("figure", &ModeBudget::figure, "figure that the budget bounds; empty without a budget")
          .one_of("|peak_bytes|peak_saved_bytes"),
      field("bytes", &ModeBudget::bytes, "bound of that figure").at_least(1),
      field("error_frac", &ModeBudget::error_frac,
            "bound of the gradient's relative error; null where no bit may differ")
          .at_least(0),
      field("measured_error_frac", &ModeBudget::measured_error_frac,
            "error of the step by which the plan was chosen, under that plan")
          .at_least(0)};
};

template <>
struct Fields<Certificate> {
  static constexpr About kAbout{"Certificate",
                                "The proof that a lossless mode changed nothing: digests of the "
                                "loss, every gradient and every weight, beside those of mode "
                                "\"none\", from a state in which all parameters were perturbed."};
  static constexpr std::tuple kAll{
      field("verdict", &Certificate::verdict,
            "not_applied: the mode is lossy, or no certificate was made; unavailable: a compared "
            "step did not follow a plan, or \"none\" differs from itself"),
      field("words", &Certificate::words, "one sentence, with the reason"),
      field("steps", &Certificate::steps, "compared steps; 1 is the first that followed the plan")
          .at_least(1),
      field("sha256", &Certificate::sha256, "digest after each of the steps, under the mode")
          .pattern(kSha256),
      field("reference_sha256", &Certificate::reference_sha256,
            "digest after each of the steps, under \"none\"")
          .pattern(kSha256)};
};

template <>
struct Fields<TensorError> {
  static constexpr About kAbout{"TensorError", "The error of one parameter's gradient."};
  static constexpr std::tuple kAll{
      field("name", &TensorError::name, "name of the parameter").not_empty(),
      field("error_frac", &TensorError::error_frac,
            "|g - g0| / |g0| in 2-norms of its gradient; absolute where g0 is 0")
          .at_least(0)};
};

template <>
struct Fields<GradientError> {
  static constexpr About kAbout{"GradientError",
                                "Error that a lossy mode makes in the gradient of one step, at the "
                                "same weights and batch as \"none\"."};
  static constexpr std::tuple kAll{
      field("error_frac", &GradientError::error_frac,
            "|g - g0| / |g0| of the vector of all gradients")
          .at_least(0),
      field("missing_reason", &GradientError::missing_reason, "reason why the error is null"),
      field("tensors", &GradientError::tensors, "error of each parameter")};
};

template <>
struct Fields<Overhead> {
  static constexpr About kAbout{
      "Overhead", "Time of a step beside mode \"none\", in turns within one process."};
  static constexpr std::tuple kAll{
      field("frac", &Overhead::frac, "time added to a step of \"none\"; 0.03 is 3 %"),
      field("ci95", &Overhead::ci95, "interval of 95 % confidence"),
      field("noise_frac", &Overhead::noise_frac, "the same figure of \"none\" beside itself"),
      field("missing_reason", &Overhead::missing_reason, "reason why the overhead is null"),
      field("step_s", &Overhead::step_s, "steps under the mode").at_least(0),
      field("reference_step_s", &Overhead::reference_step_s,
            "steps under \"none\", in the same rounds")
          .at_least(0)};
};

template <>
struct Fields<HeldStorages> {
  static constexpr About kAbout{
      "HeldStorages",
      "Saved storages that a plan holds as they were, by their maker and the reason."};
  static constexpr std::tuple kAll{
      field("made_by", &HeldStorages::made_by,
            "operator that made them; \"outside\" for the batch"),
      field("reason", &HeldStorages::reason, "reason why they stay"),
      field("storages", &HeldStorages::storages, "number of the storages").at_least(0),
      field("bytes", &HeldStorages::bytes, "bytes of the storages").at_least(0)};
};

template <>
struct Fields<HostMemory> {
  using T = HostMemory;
  static constexpr About kAbout{"HostMemory",
                                "Host memory of a mode that offloads. Empty for any other."};
  static constexpr std::tuple kAll{
      field("capacity_bytes", &T::capacity_bytes, "host memory that was taken for it").at_least(0),
      field("refused_tensors", &T::refused_tensors,
            "saved storages that found it full, in at least one step")
          .at_least(0),
      field("refused_bytes", &T::refused_bytes, "bytes of those as they were saved").at_least(0)};
};

template <>
struct Fields<BudgetSteps> {
  static constexpr About kAbout{"BudgetSteps",
                                "Steps of one pass of the run that had a plan within the budget."};
  static constexpr std::tuple kAll{
      field("steps", &BudgetSteps::steps, "all of them").at_least(0),
      field("exceeded", &BudgetSteps::exceeded, "those that did not keep the budget").at_least(0),
      field("exceeded_reason", &BudgetSteps::exceeded_reason, "reason of the last of them"),
      field("uncertain", &BudgetSteps::uncertain,
            "those whose gradient was so small that its error may have been above twice the bound")
          .at_least(0),
      field("uncertain_reason", &BudgetSteps::uncertain_reason, "reason of the last of them")};
};

template <>
struct Fields<PassFallbacks> {
  using T = PassFallbacks;
  static constexpr About kAbout{
      "PassFallbacks",
      "Counts of how often a mode did not do what it had planned, in one pass of the run."};
  static constexpr std::tuple kAll{
      field("pass", &T::pass, "pass of the run").one_of("memory|certificate|training"),
      field(
          "missing_reason", &T::missing_reason,
          "reason why the pass was not made, or was too short for a plan; empty where it was made"),
      field("plan_missing_reason", &T::plan_missing_reason,
            "reason why it ended without a plan; empty where it had one"),
      field("kept_after_mismatch", &T::kept_after_mismatch,
            "values whose recipe was not exact, held instead")
          .at_least(0),
      field("replayed_after_mismatch", &T::replayed_after_mismatch,
            "values whose shortcut was not exact, made by their operator instead")
          .at_least(0),
      field("unrepeatable", &T::unrepeatable,
            "operators whose arguments changed between recorded steps")
          .at_least(0),
      field("codec_fallbacks", &T::codec_fallbacks, "tensors that a codec did not take")
          .at_least(0),
      field("departures", &T::departures, "forward passes that left the recorded path").at_least(0),
      field("recipes_run_again", &T::recipes_run_again, "runs of a recipe beyond one per backward")
          .at_least(0),
      field("budget", &T::budget,
            "its steps under a budget; of peak_bytes the certificate pass has none, because it "
            "holds three trainings")
          .left_out_if_empty()};
};

template <>
struct Fields<MemoryMode> {
  using T = MemoryMode;
  static constexpr About kAbout{
      "MemoryMode", "Predicted and measured effects of a memory mode. Empty for mode \"none\"."};
  static constexpr std::tuple kAll{
      field("measured", &T::measured, "true where the run had a memory mode that was measured"),
      field("missing_reason", &T::missing_reason, "reason why it was not"),
      field("lossless", &T::lossless, "true where the mode changes no bit"),
      field("budget", &T::budget, "memory that the mode was allowed, and how well it kept to that"),
      field("reference", &T::reference,
            "variant beside which certificate, error and overhead are taken: \"none-plain-fp32\""),
      field("plain", &T::plain,
            "mode \"none\" of baseline \"plain\"; factors are these over the mode's"),
      field("predicted", &T::predicted, "prediction of the plan, from the recorded step"),
      field("predicted_added_s", &T::predicted_added_s,
            "predicted time that the plan adds to a step")
          .at_least(0),
      field("plan_missing_reason", &T::plan_missing_reason,
            "reason why nothing is known of a plan: the mode has none and keeps everything, or the "
            "memory pass was not made; what follows, up to held, is of the memory pass"),
      field("recorded_bytes", &T::recorded_bytes, "bytes saved without a plan").at_least(0),
      field("held_bytes", &T::held_bytes,
            "part of recorded_bytes that is held as saved, and the slices that are held for "
            "dropped_bytes")
          .at_least(0),
      field("encoded_from_bytes", &T::encoded_from_bytes,
            "part of recorded_bytes that is held encoded")
          .at_least(0),
      field("dropped_bytes", &T::dropped_bytes, "part of recorded_bytes that is recomputed")
          .at_least(0),
      field("irreplaceable_bytes", &T::irreplaceable_bytes,
            "part of recorded_bytes that no plan of the mode could recompute; null where it is "
            "not known")
          .at_least(0),
      field("encoded_bytes", &T::encoded_bytes,
            "measured bytes of the other forms when forward returns")
          .at_least(0),
      field("recipes", &T::recipes, "recipes of the plan").at_least(0),
      field("kept_after_mismatch", &T::kept_after_mismatch, "values whose recipe was not exact")
          .at_least(0),
      field("unrepeatable", &T::unrepeatable,
            "operators whose arguments changed between recorded steps")
          .at_least(0),
      field("codec_fallbacks", &T::codec_fallbacks, "tensors that a codec did not take")
          .at_least(0),
      field("departures", &T::departures, "forward passes that left the recorded path").at_least(0),
      field("recipes_run_again", &T::recipes_run_again, "runs of a recipe beyond one per backward")
          .at_least(0),
      field("host_memory", &T::host_memory, "host memory that an offloading mode used"),
      field("held", &T::held, "held storages, the largest first"),
      field("fallbacks", &T::fallbacks, "one row for each pass: memory, certificate, training"),
      field("overhead", &T::overhead, "time of a step under the mode beside one of the reference"),
      field("certificate", &T::certificate, "comparison of every bit with the reference"),
      field("gradient_error", &T::gradient_error,
            "error of the gradient beside that of the reference")};
};

template <>
struct Fields<BatchFit> {
  using T = BatchFit;
  static constexpr About kAbout{"BatchFit",
                                "The largest batch that trains within a given memory, under the "
                                "run's mode. Empty where nobody asked."};
  static constexpr std::tuple kAll{
      field("memory_bytes", &T::memory_bytes, "memory that a steady step may take, of all owners")
          .at_least(1),
      field("missing_reason", &T::missing_reason,
            "reason why the batch is not known though it was asked for"),
      field("batch", &T::batch, "largest batch that fits; 0 where not even the smallest does")
          .at_least(0),
      field("peak_bytes", &T::peak_bytes, "measured peak of a steady step of that batch")
          .at_least(0),
      field("next_peak_bytes", &T::next_peak_bytes,
            "measured peak of the next larger batch, which does not fit")
          .at_least(0),
      field("next_words", &T::next_words,
            "words in place of that peak, such as \"out of memory\"")};
};

}  // namespace noisemark::reports::json
