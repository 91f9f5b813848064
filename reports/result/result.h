#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/sha256.h"
#include "reports/base/statistics.h"

/// result.json as a value: everything that one run measured, and everything needed to repeat it.
/// The suite fills it. Units are in the names: `_s` seconds, `_bytes` bytes, `_frac` 0-1, `_per_s`
/// per second. A number that could not be had is an empty optional with its reason beside it, never
/// NaN. Member names are the JSON keys; what each means stands once, in result_fields.h and
/// memory_fields.h, from which the reader, the writer, the schema and fields.md follow.
namespace noisemark::reports {

using Strings = std::map<std::string, std::string>;

/// The text of `key`, or `otherwise` where there is none.
[[nodiscard]] inline std::string text_of(const Strings& strings, const std::string& key,
                                         const char* otherwise = "") {
  const auto found = strings.find(key);
  return found == strings.end() ? otherwise : found->second;
}

inline constexpr const char* kOwnFramework = "noisemark";  ///< Identity::framework of this program

struct Identity {
  std::string benchmark;
  std::string scale;
  int64_t version = 1;
  bool custom = false;
  std::vector<std::string> overrides;
  std::string definition_sha256;
  std::string mode = "none";
  std::string baseline = "plain";
  std::string precision;
  std::string device;
  std::string framework;
  int64_t threads = 0;
  std::optional<int64_t> ranks;
  std::string backend;
  std::string reduction;
  std::string shards;
  std::string pipeline;
  std::optional<int64_t> micro_batches;
  std::string data;
  Strings hardware;
  Strings software;

  /// Returns whether a memory mode changes what is kept.
  [[nodiscard]] bool has_mode() const { return mode != "none"; }
  [[nodiscard]] bool has_budget() const { return mode.starts_with("budget:"); }
  /// Returns whether this program trained, and not a peer.
  [[nodiscard]] bool is_own() const { return framework == kOwnFramework; }
  /// Returns whether the device repeats recorded steps, which the host does not issue.
  [[nodiscard]] bool repeats_steps() const {
    return baseline.find("cuda-graph") != std::string::npos;
  }
  /// "cpu" or "cuda".
  [[nodiscard]] std::string device_kind() const { return device.substr(0, device.find(':')); }
};

struct DataFile {
  std::string name;
  std::string sha256;
  int64_t bytes = 0;
  bool verified = false;
  std::optional<int64_t> pictures = std::nullopt;
};

/// Says whether the row names what was left out of a folder of images, which is no part of the
/// data.
[[nodiscard]] inline bool is_left_out(const DataFile& file) {
  return file.pictures == 0;
}

struct Provenance {
  std::string git_commit;
  bool git_dirty = false;
  std::string git_diff_sha256;
  std::string binary_sha256;
  Strings build;
  Strings container;
  std::vector<DataFile> data;
  std::string init_weights_sha256;

  /// The commit; "+" behind it says that files were changed since.
  [[nodiscard]] std::string commit() const { return git_commit + (git_dirty ? "+" : ""); }
  /// Returns it as pages show it.
  [[nodiscard]] std::string shown_commit() const {
    return shown_digits(git_commit) + (git_dirty ? "+" : "");
  }
};

struct Seeds {
  uint64_t base = 0;
  std::map<std::string, uint64_t> streams;
};

struct Protocol {
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t accumulation = 1;
  int64_t warmup_steps = 0;
  std::string warmup_reason;
  bool warmup_stable = false;
  int64_t memory_steps = 0;
  int64_t profile_steps = 0;
  bool deterministic = false;
  int64_t resumed_at_step = 0;
  int64_t loader_threads = 1;
};

struct Samples {
  std::vector<double> step_s;
  std::vector<double> data_wait_s;
  std::vector<double> forward_s;
  std::vector<double> backward_s;
  std::vector<double> optimizer_s;
  std::vector<double> ema_s;
  std::vector<double> loss;
  std::vector<double> grad_norm;
  std::vector<double> communication_s;
  std::vector<double> exposed_s;
};

/// A part of an optimizer step, as tables name it, and the seconds that it took.
struct SamplePhase {
  std::string_view name;
  std::vector<double> Samples::*seconds;
};
/// The parts in the order of a step.
inline constexpr std::array kSamplePhases{
    SamplePhase{"waiting for data", &Samples::data_wait_s},
    SamplePhase{"forward", &Samples::forward_s}, SamplePhase{"backward", &Samples::backward_s},
    SamplePhase{"optimizer", &Samples::optimizer_s}, SamplePhase{"EMA", &Samples::ema_s}};

/// The good direction of a figure is data, never code.
enum class Direction { kLower, kHigher, kNeutral };

struct Metric {
  std::string name;
  std::string unit;
  Direction direction = Direction::kNeutral;
  std::optional<double> value;
  std::string missing_reason;
  std::string statistic;
  std::optional<Interval> ci95;
  int64_t n = 0;
  std::string method;
};

struct MemorySnapshot {
  std::string at;
  std::map<std::string, int64_t> by_category;
  int64_t allocator_bytes = 0;
  int64_t unattributed_bytes = 0;

  /// The bytes of an owner; 0 where it has none.
  [[nodiscard]] int64_t bytes_of(const std::string& owner) const {
    const auto entry = by_category.find(owner);
    return entry == by_category.end() ? 0 : entry->second;
  }
};

struct MemoryPoint {
  double time_s = 0;
  std::vector<int64_t> by_category;
};

struct DeviceMemory {
  std::optional<int64_t> allocated_bytes;
  std::optional<int64_t> rounding_bytes;
  std::optional<int64_t> reserved_bytes;
  std::optional<int64_t> peak_allocated_bytes;
  std::optional<int64_t> peak_reserved_bytes;
  std::optional<int64_t> fragmentation_bytes;
  std::optional<int64_t> unusable_bytes;
  std::optional<int64_t> process_bytes;
  int64_t retries = 0;
  int64_t failures = 0;
  std::string missing_reason;
};

struct ConvolutionWorkspace {
  std::optional<int64_t> largest_bytes;
  std::optional<int64_t> peak_bytes;
  std::optional<int64_t> limit_bytes;
  std::string missing_reason;
};

struct TrainingMemory {
  int64_t repeated_steps = 0;
  std::optional<int64_t> peak_allocated_bytes;
  std::optional<int64_t> peak_reserved_bytes;
  std::optional<int64_t> recording_bytes;
  std::string missing_reason;
};

struct MemorySection {
  bool measured = false;
  std::string missing_reason;
  std::string source;
  std::vector<std::string> categories;
  std::vector<MemorySnapshot> boundaries;
  MemorySnapshot peak;
  std::string peak_phase;
  std::string peak_operator;
  int64_t peak_bytes = 0;
  int64_t saved_bytes = 0;
  int64_t peak_saved_bytes = 0;
  int64_t naive_saved_bytes = 0;
  int64_t saved_tensors = 0;
  int64_t leaked_bytes = 0;
  std::optional<int64_t> outside_allocator_bytes;
  int64_t allocations = 0;
  std::vector<MemoryPoint> timeline;
  DeviceMemory device_memory;
  ConvolutionWorkspace convolution_workspace;
  TrainingMemory training;
};

struct OperatorRow {
  std::string name;
  int64_t calls = 0;
  double self_s = 0;
  double share_frac = 0;
  int64_t flops = 0;
};

struct DeviceColumn {
  std::string name;
  std::string unit;
  std::optional<double> value;
  std::optional<double> over_kernels;
  std::optional<double> lowest;
  std::optional<double> highest;
  int64_t readings = 0;
  double window_s = 0;
  std::string source;
  std::string missing_reason;
};

struct DeviceReading {
  double at_s = 0;
  std::optional<double> power_w;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_c;
  std::optional<int64_t> clock_reasons;
};

struct DeviceUse {
  bool measured = false;
  std::string missing_reason;
  int64_t steps = 0;
  int64_t images = 0;
  double window_s = 0;
  std::string clock_reasons;
  std::vector<DeviceColumn> columns;
  std::vector<DeviceReading> trace;
};

struct ConvolutionKernel {
  std::string direction;
  std::vector<int64_t> input;
  std::vector<int64_t> weight;
  std::vector<int64_t> stride;
  std::string kernel;
  double calls = 0;
  double time_s = 0;
};

struct ConvolutionKernels {
  bool measured = false;
  std::string missing_reason;
  std::vector<ConvolutionKernel> kernels;
};

struct Utilization {
  bool measured = false;
  std::string missing_reason;
  int64_t parameters = 0;
  int64_t forward_flop_per_image = 0;
  int64_t backward_flop_per_image = 0;
  double achieved_flop_per_s = 0;
  double gemm_peak_flop_per_s = 0;
  std::string gemm_peak_method;
  double mfu_frac = 0;
  double profiler_overhead_frac = 0;
  std::vector<OperatorRow> operators;
  DeviceUse device_use;
  ConvolutionKernels convolutions;
};

struct Evaluation {
  int64_t step = 0;
  int64_t samples_seen = 0;
  double elapsed_s = 0;
  double loss = 0;
  double weighted_loss = 0;
  std::vector<int64_t> timesteps;
  std::vector<double> per_timestep;
  std::vector<double> optimal_per_timestep;
  std::optional<double> excess_frac;
};

struct Quality {
  std::string weights;
  int64_t samples = 0;
  std::vector<Evaluation> evaluations;
  std::optional<double> target_loss;
  std::optional<double> time_to_quality_s;
  std::optional<int64_t> samples_to_quality;
  std::string missing_reason;
};

/// The words for weights, "model" or "ema", as pages have them.
[[nodiscard]] constexpr const char* weights_words(std::string_view kind) {
  return kind == "ema" ? "averaged (EMA)" : "trained";
}

struct StepBytes {
  std::optional<int64_t> peak_bytes;
  std::optional<int64_t> saved_bytes;
  std::optional<int64_t> peak_saved_bytes;
};

enum class Verdict {
  kPass,
  kFail,
  kNotApplied,
  kUnavailable,
};

struct Certificate {
  Verdict verdict = Verdict::kNotApplied;
  std::string words;
  std::vector<int64_t> steps;
  std::vector<std::string> sha256;
  std::vector<std::string> reference_sha256;
};

struct TensorError {
  std::string name;
  double error_frac = 0;
};

struct GradientError {
  std::optional<double> error_frac;
  std::string missing_reason;
  std::vector<TensorError> tensors;
};

struct ModeBudget {
  std::string figure;
  std::optional<int64_t> bytes;
  std::optional<double> error_frac;
  std::optional<double> measured_error_frac;
};

struct Overhead {
  std::optional<double> frac;
  std::optional<Interval> ci95;
  std::optional<double> noise_frac;
  std::string missing_reason;
  std::vector<double> step_s;
  std::vector<double> reference_step_s;
};

struct HeldStorages {
  std::string made_by;
  std::string reason;
  int64_t storages = 0;
  int64_t bytes = 0;
};

struct HostMemory {
  std::optional<int64_t> capacity_bytes;
  int64_t refused_tensors = 0;
  int64_t refused_bytes = 0;
};

struct BudgetSteps {
  int64_t steps = 0;
  int64_t exceeded = 0;
  std::string exceeded_reason;
  int64_t uncertain = 0;
  std::string uncertain_reason;
};

struct PassFallbacks {
  std::string pass;
  std::string missing_reason;
  std::string plan_missing_reason;
  int64_t kept_after_mismatch = 0;
  int64_t replayed_after_mismatch = 0;
  int64_t unrepeatable = 0;
  int64_t codec_fallbacks = 0;
  int64_t departures = 0;
  int64_t recipes_run_again = 0;
  std::optional<BudgetSteps> budget = std::nullopt;
};

struct MemoryMode {
  bool measured = false;
  std::string missing_reason;
  bool lossless = false;
  ModeBudget budget;
  std::string reference;
  StepBytes plain;
  StepBytes predicted;
  std::optional<double> predicted_added_s;
  std::string plan_missing_reason;
  int64_t recorded_bytes = 0;
  int64_t held_bytes = 0;
  int64_t encoded_from_bytes = 0;
  int64_t dropped_bytes = 0;
  std::optional<int64_t> irreplaceable_bytes;
  int64_t encoded_bytes = 0;
  int64_t recipes = 0;
  int64_t kept_after_mismatch = 0;
  int64_t unrepeatable = 0;
  int64_t codec_fallbacks = 0;
  int64_t departures = 0;
  int64_t recipes_run_again = 0;
  HostMemory host_memory;
  std::vector<HeldStorages> held;
  std::vector<PassFallbacks> fallbacks;
  Overhead overhead;
  Certificate certificate;
  GradientError gradient_error;
};

struct BatchFit {
  std::optional<int64_t> memory_bytes;
  std::string missing_reason;
  int64_t batch = 0;
  std::optional<int64_t> peak_bytes;
  std::optional<int64_t> next_peak_bytes;
  std::string next_words;
};

struct Determinism {
  std::string loss_trace_sha256;
  std::string weights_sha256;
  std::string ema_sha256;
};

/// One of the processes that trained together.
struct RankRecord {
  int64_t rank = 0;
  std::optional<int64_t> local_rank;
  Samples samples;
  std::optional<int64_t> exchanges;
  std::optional<int64_t> exchanged_bytes;
  std::optional<int64_t> expected_bytes;
  std::vector<MemorySnapshot> boundaries;
  MemorySnapshot peak;
  std::optional<int64_t> peak_saved_bytes;
  int64_t leaked_bytes = 0;
  std::string noise_sha256;
  Determinism determinism;
  std::vector<PassFallbacks> fallbacks;
  std::string first_block;
  std::string last_block;
  std::optional<int64_t> blocks;
  std::optional<double> blocks_s;
};

struct WideOperator {
  std::string name;
  int64_t calls = 0;
  int64_t result_bytes = 0;
};

struct MixedPrecision {
  bool measured = false;
  std::string missing_reason;
  std::string type;
  std::optional<double> loss_scale;
  int64_t operators = 0;
  std::vector<WideOperator> wide;
};

struct Gate {
  std::string name;
  std::string metric;
  std::string relation;
  std::optional<double> value;
  double bound = 0;
  std::string unit;
  Verdict verdict = Verdict::kNotApplied;
  std::string words;
};

struct Artifact {
  std::string path;
  std::string sha256;
};

/// The statuses of runs that ended with exit code 0: "custom" where the definition was changed.
inline constexpr const char* kPassStatus = "pass";
inline constexpr const char* kCustomStatus = "custom";

struct Exit {
  int code = 0;
  std::string status;
  std::vector<std::string> reasons;

  [[nodiscard]] bool is_custom() const { return status == kCustomStatus; }
};

struct Result {
  std::string run_id;
  std::string created_utc;
  std::string title;
  std::vector<std::string> argv;
  std::string repeat_command;
  Exit exit;
  Identity identity;
  std::string definition;
  Provenance provenance;
  Strings environment;
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
  std::vector<RankRecord> ranks;
  MixedPrecision mixed_precision;
  std::vector<Gate> gates;
  std::vector<Artifact> artifacts;
};

}  // namespace noisemark::reports
