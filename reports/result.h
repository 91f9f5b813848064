#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// result.json as a value: everything that one run measured, and everything needed to repeat it.
/// It is the only type that crosses from the suite into reports, and nothing flows back. Units are
/// in the names: `_s` seconds, `_bytes` bytes, `_frac` 0-1, `_per_s` per second. A number that
/// could not be had is an empty optional with its reason beside it, never NaN. Field names are the
/// JSON keys (docs: reports/README.md; schema: reports/schema/).
namespace noisemark::reports {

using Strings = std::map<std::string, std::string>;

/// What must agree before two results may be compared.
struct Identity {
  std::string benchmark;               ///< "ho-cifar10"
  std::string scale;                   ///< "cpu" or "gpu"
  int64_t version = 1;                 ///< of the definition
  bool custom = false;                 ///< not the locked definition: its gates do not apply
  std::vector<std::string> overrides;  ///< "key=value" as given to --set
  std::string definition_sha256;       ///< of the canonical resolved definition
  std::string mode = "none";           ///< canonical spelling
  std::string baseline = "plain";
  std::string precision;  ///< fp32, tf32, bf16, fp16 or fp64
  std::string device;     ///< "cpu", "cuda:0"
  std::string framework;  ///< "noisemark", or "peer:eager", "peer:compiled", "peer:channels-last"
  int64_t threads = 0;
  std::string data;  ///< "official", "unofficial" or "generated"
  Strings hardware;  ///< cpu model, instruction set, gpu model, memory ...
  Strings software;  ///< libtorch, oneDNN, CUDA, cuDNN, driver, compiler ...
};

struct DataFile {
  std::string name;  ///< path relative to the data folder
  std::string sha256;
  int64_t bytes = 0;
  bool verified = false;                           ///< equals the locked checksum
  std::optional<int64_t> pictures = std::nullopt;  ///< whole ones in it; empty: not counted
};

struct Provenance {
  std::string git_commit;
  bool git_dirty = false;
  std::string git_diff_sha256;  ///< empty when clean
  std::string binary_sha256;
  Strings build;      ///< type, compiler, flags
  Strings container;  ///< image, digest; empty outside one
  std::vector<DataFile> data;
  std::string init_weights_sha256;
};

/// Seeds of every stream that the run drew from.
struct Seeds {
  uint64_t base = 0;
  std::map<std::string, uint64_t> streams;
};

struct Protocol {
  int64_t steps = 0;         ///< optimizer steps of the training pass
  int64_t batch = 0;         ///< images per optimizer step
  int64_t accumulation = 1;  ///< micro-batches per optimizer step
  int64_t warmup_steps = 0;  ///< detected, not chosen
  std::string warmup_reason;
  bool warmup_stable = false;
  int64_t memory_steps = 0;   ///< steps of the memory pass, 0: not made
  int64_t profile_steps = 0;  ///< steps of the profile pass, 0: not made
  bool deterministic = false;
  int64_t resumed_at_step = 0;  ///< 0: from the start
  int64_t loader_threads = 1;   ///< that make batches ahead of time; 0: the training loop itself
};

/// Raw per-step samples of the training pass; index = optimizer step, warm-up included.
struct Samples {
  std::vector<double> step_s;
  std::vector<double> data_wait_s;
  std::vector<double> forward_s;
  std::vector<double> backward_s;
  std::vector<double> optimizer_s;
  std::vector<double> ema_s;
  std::vector<double> loss;       ///< training loss of the step, mean over micro-batches
  std::vector<double> grad_norm;  ///< before clipping; empty when not clipped
};

/// Which way is good is data, never code.
enum class Direction { kLower, kHigher, kNeutral };

struct Interval {
  double low = 0;
  double high = 0;
};

struct Metric {
  std::string name;  ///< "images_per_s"
  std::string unit;
  Direction direction = Direction::kNeutral;
  std::optional<double> value;
  std::string missing_reason;  ///< why value is empty
  std::string statistic;       ///< "median", "exact", ...
  std::optional<Interval> ci95;
  int64_t n = 0;  ///< samples behind the value
  std::string method;
};

/// Live bytes by owner at one instant. Category names and their order: MemorySection::categories.
struct MemorySnapshot {
  std::string at;                              ///< "forward_end", "peak", ...
  std::map<std::string, int64_t> by_category;  ///< every category of MemorySection::categories
  int64_t allocator_bytes = 0;                 ///< what the allocator says is live
  int64_t unattributed_bytes = 0;              ///< allocator_bytes - sum of by_category; 0 closes
};

/// One change of the live bytes, thinned for plots.
struct MemoryPoint {
  double time_s = 0;  ///< since the step began
  std::vector<int64_t>
      by_category;  ///< in the order of MemorySection::categories, then unattributed
};

/// What a GPU's allocator holds beyond live tensors, and the process beyond its allocator, around
/// the step whose memory was measured. Empty on a CPU.
struct DeviceMemory {
  std::optional<int64_t> allocated_bytes;  ///< live when the step ended, as the allocator rounds
  std::optional<int64_t> rounding_bytes;   ///< of what is in use then, asked for by nobody
  std::optional<int64_t> reserved_bytes;   ///< taken from the device when the step ended
  std::optional<int64_t> peak_allocated_bytes;  ///< in the step
  std::optional<int64_t> peak_reserved_bytes;   ///< in the step
  std::optional<int64_t> fragmentation_bytes;   ///< the second peak less the first: held, and not
                                                ///< needed even then
  std::optional<int64_t> unusable_bytes;  ///< when the step ended, parts of split blocks that can
                                          ///< serve only what is no larger
  std::optional<int64_t> process_bytes;   ///< when the step ended, by the driver's count
  int64_t retries = 0;   ///< allocations in the step that had to give memory back first
  int64_t failures = 0;  ///< that failed even then
  std::string missing_reason;
};

/// What a GPU's allocator held at most in the training pass, evaluations included. Its steps may be
/// repeated by the device alone (baseline "cuda-graph"), from memory that is the recording's own;
/// bytes by owner are of the memory pass, whose steps the host issues.
struct TrainingMemory {
  int64_t repeated_steps = 0;                   ///< by the device, of the pass
  std::optional<int64_t> peak_allocated_bytes;  ///< as the allocator rounds; empty on a CPU
  std::optional<int64_t> peak_reserved_bytes;   ///< taken from the device; empty on a CPU
  std::optional<int64_t> recording_bytes;  ///< of the reserved ones, what only repetitions may use;
                                           ///< empty where no step was recorded
  std::string missing_reason;
};

struct MemorySection {
  bool measured = false;
  std::string missing_reason;
  std::string source;  ///< which allocator hook
  std::vector<std::string> categories;
  std::vector<MemorySnapshot> boundaries;  ///< in the order of the step's phases
  MemorySnapshot peak;
  std::string peak_phase;
  std::string peak_operator;
  int64_t peak_bytes = 0;   ///< maximum of all categories
  int64_t saved_bytes = 0;  ///< distinct storages held only for backward when forward returns
  int64_t peak_saved_bytes =
      0;  ///< maximum over the step of activations + encoded + rematerialized
  int64_t naive_saved_bytes = 0;  ///< the same summed per saved variable, to show the over-count
  int64_t saved_tensors = 0;      ///< saved variables packed in the step
  int64_t leaked_bytes = 0;       ///< live after the step minus before it, gradients released
  std::optional<int64_t> outside_allocator_bytes;
  int64_t allocations = 0;  ///< in one steady step
  std::vector<MemoryPoint> timeline;
  DeviceMemory device_memory;
  TrainingMemory training;  ///< also where the section was not measured
};

struct OperatorRow {
  std::string name;   ///< "aten::convolution_backward"
  int64_t calls = 0;  ///< per step
  double self_s = 0;  ///< per step, host time on CPU, device time on CUDA
  double share_frac = 0;
  int64_t flops = 0;  ///< per step, 0 when the operator has no formula
};

/// One figure of a GPU in one window of time.
struct DeviceColumn {
  std::string name;             ///< "sm_active"
  std::string unit;             ///< "frac", "W", "MHz", "C" (degrees Celsius), "J"
  std::optional<double> value;  ///< over the window's wall time; the mean where it is of readings
  std::optional<double> over_kernels;  ///< a share while at least one kernel ran: the value over
                                       ///< the kernels' share of the window; empty where it would
                                       ///< be more than all
  std::optional<double> lowest;        ///< of readings
  std::optional<double> highest;       ///< of readings
  int64_t readings = 0;                ///< 0: of counters, or counted
  double window_s = 0;
  std::string source;  ///< "NVML GPM SM_UTIL"
  std::string missing_reason;
};

/// A GPU at one moment of a window.
struct DeviceReading {
  double at_s = 0;  ///< since the window's beginning
  std::optional<double> power_w;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_c;
  std::optional<int64_t> clock_reasons;  ///< NVML's mask of what holds the clocks down
};

/// What a GPU did while training went on, read beside it. Empty on a CPU.
struct DeviceUse {
  bool measured = false;
  std::string missing_reason;
  int64_t steps = 0;  ///< in the window
  int64_t images = 0;
  double window_s = 0;
  std::string clock_reasons;  ///< what held the clocks down, and in how many of the readings
  std::vector<DeviceColumn> columns;
  std::vector<DeviceReading> trace;  ///< every reading, in its order
};

struct Utilization {
  bool measured = false;
  std::string missing_reason;
  int64_t parameters = 0;
  int64_t forward_flop_per_image = 0;  ///< one fused multiply-add counts as two
  int64_t backward_flop_per_image = 0;
  double achieved_flop_per_s = 0;
  double gemm_peak_flop_per_s = 0;  ///< measured in the same process, same precision and threads
  std::string gemm_peak_method;
  double mfu_frac = 0;  ///< achieved / measured peak
  double profiler_overhead_frac = 0;
  std::vector<OperatorRow> operators;  ///< by falling self time
  DeviceUse device_use;
};

struct Evaluation {
  int64_t step = 0;
  int64_t samples_seen = 0;
  double elapsed_s = 0;      ///< since data was first touched: opened, trained, evaluated
  double loss = 0;           ///< unweighted
  double weighted_loss = 0;  ///< with the training weights
  std::vector<int64_t> timesteps;
  std::vector<double> per_timestep;          ///< unweighted, one per timestep
  std::vector<double> optimal_per_timestep;  ///< Bayes-optimal, empty where it is not known
  std::optional<double> excess_frac;         ///< (loss - optimal) / optimal
};

struct Quality {
  std::string weights;  ///< "model" or "ema"
  int64_t samples = 0;  ///< per evaluation
  std::vector<Evaluation> evaluations;
  std::optional<double> target_loss;
  std::optional<double> time_to_quality_s;
  std::optional<int64_t> samples_to_quality;
  std::string missing_reason;  ///< why the target was not reached or not set
};

/// Bytes of one steady step, as in MemorySection.
struct StepBytes {
  std::optional<int64_t> peak_bytes;
  std::optional<int64_t> saved_bytes;
  std::optional<int64_t> peak_saved_bytes;
};

enum class Verdict {
  kPass,
  kFail,
  kNotApplied,
  kUnavailable,  ///< of a certificate alone
};

/// The proof that a lossless mode changed nothing: digests of the loss, every gradient and every
/// weight, beside those of mode "none", from a state in which all parameters were perturbed.
struct Certificate {
  Verdict verdict = Verdict::kNotApplied;  ///< not applied: lossy or not made; unavailable: a step
                                           ///< that is compared did not follow a plan, or "none"
                                           ///< differs from itself
  std::string words;                       ///< one sentence, with the reason
  std::vector<int64_t> steps;              ///< after which: 1 is the first that followed the plan
  std::vector<std::string> sha256;         ///< one for each of `steps`, under the mode
  std::vector<std::string> reference_sha256;  ///< under "none"
};

struct TensorError {
  std::string name;       ///< of the parameter
  double error_frac = 0;  ///< |g - g0| / |g0|, 2-norms of its gradient; absolute where g0 is 0
};

/// How far a lossy mode moves the gradient of one step, at the same weights and batch as "none".
struct GradientError {
  std::optional<double> error_frac;  ///< |g - g0| / |g0| of the vector of all gradients
  std::string missing_reason;
  std::vector<TensorError> tensors;
};

/// What a mode "budget:..." was asked for. Empty for any other mode.
struct ModeBudget {
  std::string figure;  ///< that it bounds: "peak_bytes" or "peak_saved_bytes"
  std::optional<int64_t> bytes;
  std::optional<double>
      error_frac;  ///< bound of the gradient's relative error; null: no bit may differ
  std::optional<double> measured_error_frac;  ///< of the step by which the plan was chosen, under
                                              ///< that plan
};

/// Time of a step beside mode "none", in turns within one process.
struct Overhead {
  std::optional<double> frac;  ///< more time than "none"; 0.03 is 3 %
  std::optional<Interval> ci95;
  std::optional<double> noise_frac;  ///< the same figure of "none" beside itself
  std::string missing_reason;
  std::vector<double> step_s;            ///< under the mode
  std::vector<double> reference_step_s;  ///< under "none", in the same round
};

/// Saved storages that a plan holds as they were, by who made them and why they stay.
struct HeldStorages {
  std::string made_by;  ///< operator; "outside" for the batch
  std::string reason;
  int64_t storages = 0;
  int64_t bytes = 0;
};

/// Host memory of a mode that offloads. Empty for any other.
struct HostMemory {
  std::optional<int64_t> capacity_bytes;  ///< what was taken for it
  int64_t refused_tensors = 0;  ///< saved storages that found it full, in at least one step
  int64_t refused_bytes = 0;    ///< of those, as they were saved
};

/// How often a mode did not do what it had planned, in one pass of the run.
struct PassFallbacks {
  std::string pass;                     ///< "memory", "certificate" or "training"
  std::string missing_reason;           ///< why not made, or too short for a plan; empty: it was
  std::string plan_missing_reason;      ///< why it ended without a plan; empty: with one
  int64_t kept_after_mismatch = 0;      ///< values whose recipe was not exact, held instead
  int64_t replayed_after_mismatch = 0;  ///< values whose shortcut was not exact, made by their
                                        ///< operator instead
  int64_t unrepeatable = 0;       ///< operators whose arguments changed between recorded steps
  int64_t codec_fallbacks = 0;    ///< tensors that a codec did not take
  int64_t departures = 0;         ///< forward passes that left the recorded path
  int64_t recipes_run_again = 0;  ///< beyond once per backward
};

/// What a memory mode did, predicted and measured. Empty for mode "none".
struct MemoryMode {
  bool measured = false;
  std::string missing_reason;
  bool lossless = false;
  ModeBudget budget;
  std::string reference;  ///< "none-plain-fp32": beside what certificate, error, overhead are taken
  StepBytes plain;        ///< mode "none" of baseline "plain": factors are these over the mode's
  StepBytes predicted;    ///< by the plan, from the recorded step
  std::optional<double> predicted_added_s;  ///< to a step
  /// Why nothing is known of a plan: the mode has none and keeps everything, or the memory pass was
  /// not made. What follows, up to `held`, is of the memory pass.
  std::string plan_missing_reason;
  int64_t recorded_bytes = 0;                  ///< saved without a plan
  int64_t held_bytes = 0;                      ///< of those, held as saved, with slices
  int64_t encoded_from_bytes = 0;              ///< of those, held in another form
  int64_t dropped_bytes = 0;                   ///< of those, made again
  std::optional<int64_t> irreplaceable_bytes;  ///< of those, that no plan of the mode could make
                                               ///< again; empty: not known
  int64_t encoded_bytes = 0;                   ///< measured: the other forms, when forward returns
  int64_t recipes = 0;
  int64_t kept_after_mismatch = 0;  ///< values whose recipe was not exact
  int64_t unrepeatable = 0;         ///< operators whose arguments changed between recorded steps
  int64_t codec_fallbacks = 0;      ///< tensors that a codec did not take
  int64_t departures = 0;           ///< passes that left the recorded path
  int64_t recipes_run_again = 0;    ///< beyond once per backward
  HostMemory host_memory;
  std::vector<HeldStorages> held;        ///< the largest first
  std::vector<PassFallbacks> fallbacks;  ///< by pass: memory, certificate, training
  Overhead overhead;
  Certificate certificate;
  GradientError gradient_error;
};

/// The largest batch that trains within a given memory, under the run's mode. Empty where nobody
/// asked.
struct BatchFit {
  std::optional<int64_t> memory_bytes;     ///< that a steady step may take, of all owners
  std::string missing_reason;              ///< why it is not known though it was asked for
  int64_t batch = 0;                       ///< 0: not even the smallest fits
  std::optional<int64_t> peak_bytes;       ///< measured, of a steady step of that batch
  std::optional<int64_t> next_peak_bytes;  ///< measured, of the next larger batch, which does not
                                           ///< fit
  std::string next_words;                  ///< in its place: "all of the data fit", "out of memory"
};

struct Determinism {
  std::string loss_trace_sha256;  ///< over the bits of every training loss
  std::string weights_sha256;     ///< over (name, dtype, shape, bytes) after training
  std::string ema_sha256;         ///< the same of their average; empty: the definition has none
};

/// An operator that computed in float32 although autocast was on.
struct WideOperator {
  std::string name;          ///< "aten::native_group_norm"
  int64_t calls = 0;         ///< in one forward pass, with a result in float32
  int64_t result_bytes = 0;  ///< of those results
};

/// What computing in less than float32 did. Empty where nothing is.
struct MixedPrecision {
  bool measured = false;  ///< `operators` and `wide`
  std::string missing_reason;
  std::string type;                  ///< of autocast: "BF16"; empty: none
  std::optional<double> loss_scale;  ///< after the last step; empty without scaling
  int64_t operators = 0;             ///< calls with a floating-point result in one forward pass
  std::vector<WideOperator> wide;    ///< of those, the ones in float32; the most bytes first
};

struct Gate {
  std::string name;
  std::string metric;
  std::string relation;  ///< "at most", "at least", "equals"
  std::optional<double> value;
  double bound = 0;
  std::string unit;
  Verdict verdict = Verdict::kNotApplied;
  std::string words;  ///< one sentence a person can read
};

struct Artifact {
  std::string path;  ///< relative to the result
  std::string sha256;
};

struct Exit {
  int code = 0;
  std::string status;  ///< "pass", "failed", "interrupted", "custom", "out of memory" ...
  std::vector<std::string> reasons;
};

struct Result {
  std::string run_id;       ///< 16 hexadecimal digits
  std::string created_utc;  ///< RFC 3339
  std::string title;        ///< of the benchmark
  std::vector<std::string> argv;
  std::string repeat_command;
  Exit exit;
  Identity identity;
  std::string definition;  ///< the canonical resolved definition, JSON text
  Provenance provenance;
  Strings environment;  ///< everything else about the machine: governor, kernel, libc, packages,
                        ///< variables
  Seeds seeds;
  Protocol protocol;
  Samples samples;
  std::vector<Metric> metrics;
  MemorySection memory;
  MemoryMode memory_mode;
  BatchFit batch_fit;
  Utilization utilization;
  Quality quality;
  Determinism determinism;
  MixedPrecision mixed_precision;
  std::vector<Gate> gates;
  std::vector<Artifact> artifacts;
};

}  // namespace noisemark::reports
