#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "reports/result.h"

/// The keys of result.json: one constant table per struct of result.h, in the order in which they
/// are written. The reader, the writer and the test of the schema all work from these tables.
namespace noisemark::reports::json {

template <class Struct, class Value>
struct Field {
  std::string_view key;
  Value Struct::*member;
};

template <class Struct, class Value>
constexpr Field<Struct, Value> field(std::string_view key, Value Struct::*member) {
  return {key, member};
}

/// kFields<S>: a tuple of Field. Empty for types that are not structs of result.h.
template <class Struct>
inline constexpr std::tuple<> kFields{};

/// Keys that came after results had been published: a file without them is read with the defaults
/// of result.h, and the schema does not require them.
template <class Struct>
inline constexpr std::array<std::string_view, 0> kAddedLater{};

template <>
inline constexpr std::array kAddedLater<Protocol>{std::string_view{"loader_threads"}};

template <>
inline constexpr std::array kAddedLater<Determinism>{std::string_view{"ema_sha256"}};

template <>
inline constexpr std::array kAddedLater<Result>{std::string_view{"memory_mode"},
                                                std::string_view{"batch_fit"},
                                                std::string_view{"mixed_precision"}};

template <>
inline constexpr std::array kAddedLater<MemoryMode>{
    std::string_view{"budget"}, std::string_view{"host_memory"},
    std::string_view{"irreplaceable_bytes"}, std::string_view{"fallbacks"}};

template <>
inline constexpr std::array kAddedLater<MemorySection>{std::string_view{"device_memory"},
                                                       std::string_view{"training"}};

template <>
inline constexpr std::array kAddedLater<Utilization>{std::string_view{"device_use"}};

template <>
inline constexpr std::array kAddedLater<DeviceUse>{std::string_view{"trace"}};

template <>
inline constexpr std::array kAddedLater<DataFile>{std::string_view{"pictures"}};

template <class Struct>
concept Described = std::tuple_size_v<std::remove_const_t<decltype(kFields<Struct>)>> >
0;

/// kNames<E>: the texts of an enumeration.
template <class Enum>
inline constexpr std::array<std::pair<Enum, std::string_view>, 0> kNames{};

template <>
inline constexpr std::array kNames<Direction>{
    std::pair<Direction, std::string_view>{Direction::kLower, "lower"},
    std::pair<Direction, std::string_view>{Direction::kHigher, "higher"},
    std::pair<Direction, std::string_view>{Direction::kNeutral, "neutral"}};

template <>
inline constexpr std::array kNames<Verdict>{
    std::pair<Verdict, std::string_view>{Verdict::kPass, "pass"},
    std::pair<Verdict, std::string_view>{Verdict::kFail, "fail"},
    std::pair<Verdict, std::string_view>{Verdict::kNotApplied, "not_applied"},
    std::pair<Verdict, std::string_view>{Verdict::kUnavailable, "unavailable"}};

template <>
inline constexpr auto kFields<Identity> =
    std::tuple{field("benchmark", &Identity::benchmark),
               field("scale", &Identity::scale),
               field("version", &Identity::version),
               field("custom", &Identity::custom),
               field("overrides", &Identity::overrides),
               field("definition_sha256", &Identity::definition_sha256),
               field("mode", &Identity::mode),
               field("baseline", &Identity::baseline),
               field("precision", &Identity::precision),
               field("device", &Identity::device),
               field("framework", &Identity::framework),
               field("threads", &Identity::threads),
               field("data", &Identity::data),
               field("hardware", &Identity::hardware),
               field("software", &Identity::software)};

template <>
inline constexpr auto kFields<DataFile> =
    std::tuple{field("name", &DataFile::name), field("sha256", &DataFile::sha256),
               field("bytes", &DataFile::bytes), field("verified", &DataFile::verified),
               field("pictures", &DataFile::pictures)};

template <>
inline constexpr auto kFields<Provenance> =
    std::tuple{field("git_commit", &Provenance::git_commit),
               field("git_dirty", &Provenance::git_dirty),
               field("git_diff_sha256", &Provenance::git_diff_sha256),
               field("binary_sha256", &Provenance::binary_sha256),
               field("build", &Provenance::build),
               field("container", &Provenance::container),
               field("data", &Provenance::data),
               field("init_weights_sha256", &Provenance::init_weights_sha256)};

template <>
inline constexpr auto kFields<Seeds> =
    std::tuple{field("base", &Seeds::base), field("streams", &Seeds::streams)};

template <>
inline constexpr auto kFields<Protocol> =
    std::tuple{field("steps", &Protocol::steps),
               field("batch", &Protocol::batch),
               field("accumulation", &Protocol::accumulation),
               field("warmup_steps", &Protocol::warmup_steps),
               field("warmup_reason", &Protocol::warmup_reason),
               field("warmup_stable", &Protocol::warmup_stable),
               field("memory_steps", &Protocol::memory_steps),
               field("profile_steps", &Protocol::profile_steps),
               field("deterministic", &Protocol::deterministic),
               field("resumed_at_step", &Protocol::resumed_at_step),
               field("loader_threads", &Protocol::loader_threads)};

template <>
inline constexpr auto kFields<Samples> = std::tuple{field("step_s", &Samples::step_s),
                                                    field("data_wait_s", &Samples::data_wait_s),
                                                    field("forward_s", &Samples::forward_s),
                                                    field("backward_s", &Samples::backward_s),
                                                    field("optimizer_s", &Samples::optimizer_s),
                                                    field("ema_s", &Samples::ema_s),
                                                    field("loss", &Samples::loss),
                                                    field("grad_norm", &Samples::grad_norm)};

template <>
inline constexpr auto kFields<Interval> =
    std::tuple{field("low", &Interval::low), field("high", &Interval::high)};

template <>
inline constexpr auto kFields<Metric> = std::tuple{field("name", &Metric::name),
                                                   field("unit", &Metric::unit),
                                                   field("direction", &Metric::direction),
                                                   field("value", &Metric::value),
                                                   field("missing_reason", &Metric::missing_reason),
                                                   field("statistic", &Metric::statistic),
                                                   field("ci95", &Metric::ci95),
                                                   field("n", &Metric::n),
                                                   field("method", &Metric::method)};

template <>
inline constexpr auto kFields<MemorySnapshot> =
    std::tuple{field("at", &MemorySnapshot::at), field("by_category", &MemorySnapshot::by_category),
               field("allocator_bytes", &MemorySnapshot::allocator_bytes),
               field("unattributed_bytes", &MemorySnapshot::unattributed_bytes)};

template <>
inline constexpr auto kFields<MemoryPoint> = std::tuple{
    field("time_s", &MemoryPoint::time_s), field("by_category", &MemoryPoint::by_category)};

template <>
inline constexpr auto kFields<DeviceMemory> =
    std::tuple{field("allocated_bytes", &DeviceMemory::allocated_bytes),
               field("rounding_bytes", &DeviceMemory::rounding_bytes),
               field("reserved_bytes", &DeviceMemory::reserved_bytes),
               field("peak_allocated_bytes", &DeviceMemory::peak_allocated_bytes),
               field("peak_reserved_bytes", &DeviceMemory::peak_reserved_bytes),
               field("fragmentation_bytes", &DeviceMemory::fragmentation_bytes),
               field("unusable_bytes", &DeviceMemory::unusable_bytes),
               field("process_bytes", &DeviceMemory::process_bytes),
               field("retries", &DeviceMemory::retries),
               field("failures", &DeviceMemory::failures),
               field("missing_reason", &DeviceMemory::missing_reason)};

template <>
inline constexpr auto kFields<TrainingMemory> =
    std::tuple{field("repeated_steps", &TrainingMemory::repeated_steps),
               field("peak_allocated_bytes", &TrainingMemory::peak_allocated_bytes),
               field("peak_reserved_bytes", &TrainingMemory::peak_reserved_bytes),
               field("recording_bytes", &TrainingMemory::recording_bytes),
               field("missing_reason", &TrainingMemory::missing_reason)};

template <>
inline constexpr auto kFields<MemorySection> =
    std::tuple{field("measured", &MemorySection::measured),
               field("missing_reason", &MemorySection::missing_reason),
               field("source", &MemorySection::source),
               field("categories", &MemorySection::categories),
               field("boundaries", &MemorySection::boundaries),
               field("peak", &MemorySection::peak),
               field("peak_phase", &MemorySection::peak_phase),
               field("peak_operator", &MemorySection::peak_operator),
               field("peak_bytes", &MemorySection::peak_bytes),
               field("saved_bytes", &MemorySection::saved_bytes),
               field("peak_saved_bytes", &MemorySection::peak_saved_bytes),
               field("naive_saved_bytes", &MemorySection::naive_saved_bytes),
               field("saved_tensors", &MemorySection::saved_tensors),
               field("leaked_bytes", &MemorySection::leaked_bytes),
               field("outside_allocator_bytes", &MemorySection::outside_allocator_bytes),
               field("allocations", &MemorySection::allocations),
               field("timeline", &MemorySection::timeline),
               field("device_memory", &MemorySection::device_memory),
               field("training", &MemorySection::training)};

template <>
inline constexpr auto kFields<OperatorRow> =
    std::tuple{field("name", &OperatorRow::name), field("calls", &OperatorRow::calls),
               field("self_s", &OperatorRow::self_s), field("share_frac", &OperatorRow::share_frac),
               field("flops", &OperatorRow::flops)};

template <>
inline constexpr auto kFields<DeviceColumn> =
    std::tuple{field("name", &DeviceColumn::name),
               field("unit", &DeviceColumn::unit),
               field("value", &DeviceColumn::value),
               field("over_kernels", &DeviceColumn::over_kernels),
               field("lowest", &DeviceColumn::lowest),
               field("highest", &DeviceColumn::highest),
               field("readings", &DeviceColumn::readings),
               field("window_s", &DeviceColumn::window_s),
               field("source", &DeviceColumn::source),
               field("missing_reason", &DeviceColumn::missing_reason)};

template <>
inline constexpr auto kFields<DeviceReading> =
    std::tuple{field("at_s", &DeviceReading::at_s),
               field("power_w", &DeviceReading::power_w),
               field("sm_clock_mhz", &DeviceReading::sm_clock_mhz),
               field("memory_clock_mhz", &DeviceReading::memory_clock_mhz),
               field("temperature_c", &DeviceReading::temperature_c),
               field("clock_reasons", &DeviceReading::clock_reasons)};

template <>
inline constexpr auto kFields<DeviceUse> = std::tuple{
    field("measured", &DeviceUse::measured), field("missing_reason", &DeviceUse::missing_reason),
    field("steps", &DeviceUse::steps),       field("images", &DeviceUse::images),
    field("window_s", &DeviceUse::window_s), field("clock_reasons", &DeviceUse::clock_reasons),
    field("columns", &DeviceUse::columns),   field("trace", &DeviceUse::trace)};

template <>
inline constexpr auto kFields<Utilization> =
    std::tuple{field("measured", &Utilization::measured),
               field("missing_reason", &Utilization::missing_reason),
               field("parameters", &Utilization::parameters),
               field("forward_flop_per_image", &Utilization::forward_flop_per_image),
               field("backward_flop_per_image", &Utilization::backward_flop_per_image),
               field("achieved_flop_per_s", &Utilization::achieved_flop_per_s),
               field("gemm_peak_flop_per_s", &Utilization::gemm_peak_flop_per_s),
               field("gemm_peak_method", &Utilization::gemm_peak_method),
               field("mfu_frac", &Utilization::mfu_frac),
               field("profiler_overhead_frac", &Utilization::profiler_overhead_frac),
               field("operators", &Utilization::operators),
               field("device_use", &Utilization::device_use)};

template <>
inline constexpr auto kFields<Evaluation> =
    std::tuple{field("step", &Evaluation::step),
               field("samples_seen", &Evaluation::samples_seen),
               field("elapsed_s", &Evaluation::elapsed_s),
               field("loss", &Evaluation::loss),
               field("weighted_loss", &Evaluation::weighted_loss),
               field("timesteps", &Evaluation::timesteps),
               field("per_timestep", &Evaluation::per_timestep),
               field("optimal_per_timestep", &Evaluation::optimal_per_timestep),
               field("excess_frac", &Evaluation::excess_frac)};

template <>
inline constexpr auto kFields<Quality> =
    std::tuple{field("weights", &Quality::weights),
               field("samples", &Quality::samples),
               field("evaluations", &Quality::evaluations),
               field("target_loss", &Quality::target_loss),
               field("time_to_quality_s", &Quality::time_to_quality_s),
               field("samples_to_quality", &Quality::samples_to_quality),
               field("missing_reason", &Quality::missing_reason)};

template <>
inline constexpr auto kFields<StepBytes> = std::tuple{
    field("peak_bytes", &StepBytes::peak_bytes), field("saved_bytes", &StepBytes::saved_bytes),
    field("peak_saved_bytes", &StepBytes::peak_saved_bytes)};

template <>
inline constexpr auto kFields<ModeBudget> =
    std::tuple{field("figure", &ModeBudget::figure), field("bytes", &ModeBudget::bytes),
               field("error_frac", &ModeBudget::error_frac),
               field("measured_error_frac", &ModeBudget::measured_error_frac)};

template <>
inline constexpr auto kFields<Certificate> =
    std::tuple{field("verdict", &Certificate::verdict), field("words", &Certificate::words),
               field("steps", &Certificate::steps), field("sha256", &Certificate::sha256),
               field("reference_sha256", &Certificate::reference_sha256)};

template <>
inline constexpr auto kFields<TensorError> =
    std::tuple{field("name", &TensorError::name), field("error_frac", &TensorError::error_frac)};

template <>
inline constexpr auto kFields<GradientError> =
    std::tuple{field("error_frac", &GradientError::error_frac),
               field("missing_reason", &GradientError::missing_reason),
               field("tensors", &GradientError::tensors)};

template <>
inline constexpr auto kFields<Overhead> =
    std::tuple{field("frac", &Overhead::frac),
               field("ci95", &Overhead::ci95),
               field("noise_frac", &Overhead::noise_frac),
               field("missing_reason", &Overhead::missing_reason),
               field("step_s", &Overhead::step_s),
               field("reference_step_s", &Overhead::reference_step_s)};

template <>
inline constexpr auto kFields<HeldStorages> =
    std::tuple{field("made_by", &HeldStorages::made_by), field("reason", &HeldStorages::reason),
               field("storages", &HeldStorages::storages), field("bytes", &HeldStorages::bytes)};

template <>
inline constexpr auto kFields<HostMemory> =
    std::tuple{field("capacity_bytes", &HostMemory::capacity_bytes),
               field("refused_tensors", &HostMemory::refused_tensors),
               field("refused_bytes", &HostMemory::refused_bytes)};

template <>
inline constexpr auto kFields<PassFallbacks> =
    std::tuple{field("pass", &PassFallbacks::pass),
               field("missing_reason", &PassFallbacks::missing_reason),
               field("plan_missing_reason", &PassFallbacks::plan_missing_reason),
               field("kept_after_mismatch", &PassFallbacks::kept_after_mismatch),
               field("replayed_after_mismatch", &PassFallbacks::replayed_after_mismatch),
               field("unrepeatable", &PassFallbacks::unrepeatable),
               field("codec_fallbacks", &PassFallbacks::codec_fallbacks),
               field("departures", &PassFallbacks::departures),
               field("recipes_run_again", &PassFallbacks::recipes_run_again)};

template <>
inline constexpr auto kFields<MemoryMode> =
    std::tuple{field("measured", &MemoryMode::measured),
               field("missing_reason", &MemoryMode::missing_reason),
               field("lossless", &MemoryMode::lossless),
               field("budget", &MemoryMode::budget),
               field("reference", &MemoryMode::reference),
               field("plain", &MemoryMode::plain),
               field("predicted", &MemoryMode::predicted),
               field("predicted_added_s", &MemoryMode::predicted_added_s),
               field("plan_missing_reason", &MemoryMode::plan_missing_reason),
               field("recorded_bytes", &MemoryMode::recorded_bytes),
               field("held_bytes", &MemoryMode::held_bytes),
               field("encoded_from_bytes", &MemoryMode::encoded_from_bytes),
               field("dropped_bytes", &MemoryMode::dropped_bytes),
               field("irreplaceable_bytes", &MemoryMode::irreplaceable_bytes),
               field("encoded_bytes", &MemoryMode::encoded_bytes),
               field("recipes", &MemoryMode::recipes),
               field("kept_after_mismatch", &MemoryMode::kept_after_mismatch),
               field("unrepeatable", &MemoryMode::unrepeatable),
               field("codec_fallbacks", &MemoryMode::codec_fallbacks),
               field("departures", &MemoryMode::departures),
               field("recipes_run_again", &MemoryMode::recipes_run_again),
               field("host_memory", &MemoryMode::host_memory),
               field("held", &MemoryMode::held),
               field("fallbacks", &MemoryMode::fallbacks),
               field("overhead", &MemoryMode::overhead),
               field("certificate", &MemoryMode::certificate),
               field("gradient_error", &MemoryMode::gradient_error)};

template <>
inline constexpr auto kFields<BatchFit> =
    std::tuple{field("memory_bytes", &BatchFit::memory_bytes),
               field("missing_reason", &BatchFit::missing_reason),
               field("batch", &BatchFit::batch),
               field("peak_bytes", &BatchFit::peak_bytes),
               field("next_peak_bytes", &BatchFit::next_peak_bytes),
               field("next_words", &BatchFit::next_words)};

template <>
inline constexpr auto kFields<Determinism> =
    std::tuple{field("loss_trace_sha256", &Determinism::loss_trace_sha256),
               field("weights_sha256", &Determinism::weights_sha256),
               field("ema_sha256", &Determinism::ema_sha256)};

template <>
inline constexpr auto kFields<WideOperator> =
    std::tuple{field("name", &WideOperator::name), field("calls", &WideOperator::calls),
               field("result_bytes", &WideOperator::result_bytes)};

template <>
inline constexpr auto kFields<MixedPrecision> =
    std::tuple{field("measured", &MixedPrecision::measured),
               field("missing_reason", &MixedPrecision::missing_reason),
               field("type", &MixedPrecision::type),
               field("loss_scale", &MixedPrecision::loss_scale),
               field("operators", &MixedPrecision::operators),
               field("wide", &MixedPrecision::wide)};

template <>
inline constexpr auto kFields<Gate> =
    std::tuple{field("name", &Gate::name),         field("metric", &Gate::metric),
               field("relation", &Gate::relation), field("value", &Gate::value),
               field("bound", &Gate::bound),       field("unit", &Gate::unit),
               field("verdict", &Gate::verdict),   field("words", &Gate::words)};

template <>
inline constexpr auto kFields<Artifact> =
    std::tuple{field("path", &Artifact::path), field("sha256", &Artifact::sha256)};

template <>
inline constexpr auto kFields<Exit> = std::tuple{
    field("code", &Exit::code), field("status", &Exit::status), field("reasons", &Exit::reasons)};

template <>
inline constexpr auto kFields<Result> =
    std::tuple{field("run_id", &Result::run_id),
               field("created_utc", &Result::created_utc),
               field("title", &Result::title),
               field("argv", &Result::argv),
               field("repeat_command", &Result::repeat_command),
               field("exit", &Result::exit),
               field("identity", &Result::identity),
               field("definition", &Result::definition),
               field("provenance", &Result::provenance),
               field("environment", &Result::environment),
               field("seeds", &Result::seeds),
               field("protocol", &Result::protocol),
               field("samples", &Result::samples),
               field("metrics", &Result::metrics),
               field("memory", &Result::memory),
               field("memory_mode", &Result::memory_mode),
               field("batch_fit", &Result::batch_fit),
               field("utilization", &Result::utilization),
               field("quality", &Result::quality),
               field("determinism", &Result::determinism),
               field("mixed_precision", &Result::mixed_precision),
               field("gates", &Result::gates),
               field("artifacts", &Result::artifacts)};

}  // namespace noisemark::reports::json
