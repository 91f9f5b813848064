#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/base/fields.h"
#include "reports/result/memory_fields.h"
#include "reports/result/result.h"

/// The fields of result.json, in the order in which they are written.
namespace noisemark::reports::json {

inline constexpr Document kResultDocument{
    "noisemark.result",
    "Everything that one run measured, and everything needed to repeat it. Units are in the names: "
    "_s seconds, _bytes bytes, _frac 0-1, _per_s per second. A number that could not be had is "
    "null with its reason beside it."};

template <>
inline constexpr std::array kNames<Direction>{
    std::pair{Direction::kLower, std::string_view{"lower"}},
    std::pair{Direction::kHigher, std::string_view{"higher"}},
    std::pair{Direction::kNeutral, std::string_view{"neutral"}}};

template <>
struct Fields<Identity> {
  using T = Identity;
  static constexpr About kAbout{"Identity",
                                "Everything that must agree before two results may be compared."};
  static constexpr std::tuple kAll{
      field("benchmark", &T::benchmark, "name of the benchmark: \"ho-cifar10\"").not_empty(),
      field("scale", &T::scale, "size of the work: numbers of steps and images").one_of("cpu|gpu"),
      field("version", &T::version, "version of the definition").at_least(1),
      field("custom", &T::custom,
            "true where this is not the locked definition; its gates do not apply then"),
      field("overrides", &T::overrides,
            "changes to the definition, \"key=value\" as given to --set"),
      field("definition_sha256", &T::definition_sha256,
            "SHA-256 of the canonical resolved definition")
          .pattern(kSha256),
      field("mode", &T::mode, "memory mode in its canonical spelling"),
      field("baseline", &T::baseline, "how a step is executed: \"plain\", \"cuda-graph\""),
      field("precision", &T::precision, "type of the numbers that the network computes with")
          .one_of("fp32|tf32|bf16|fp16|fp64"),
      field("device", &T::device, "\"cpu\", \"cuda:0\"").pattern("^(cpu|cuda:[0-9]+)$"),
      field("framework", &T::framework,
            "\"noisemark\", or \"peer:\" and the peer's variant: \"peer:eager\", "
            "\"peer:compiled-budget=0.5\"")
          .pattern("^(noisemark|peer:[a-z0-9.=-]+)$"),
      field("threads", &T::threads, "threads of one operator on the CPU").at_least(0),
      field("ranks", &T::ranks, "processes that trained together, each on its share of the batch")
          .at_least(2)
          .left_out_if_empty(),
      field("backend", &T::backend, "by which they exchanged gradients: \"gloo\" or \"nccl\"")
          .left_out_if_empty(),
      field("reduction", &T::reduction,
            "type to which they rounded gradients for it: \"bf16\"; absent where none was rounded")
          .left_out_if_empty(),
      field("shards", &T::shards,
            "\"optimizer\" where each rank keeps a share of its state and of the average; else "
            "absent")
          .left_out_if_empty(),
      field("pipeline", &T::pipeline,
            "schedule of the stages that the ranks are: \"gpipe\", \"1f1b\"; absent where each "
            "rank has the whole network")
          .left_out_if_empty(),
      field("micro_batches", &T::micro_batches,
            "into which the stages divide a batch; absent without stages")
          .at_least(1)
          .left_out_if_empty(),
      field("data", &T::data, "whether the data are the published files")
          .one_of("official|unofficial|generated"),
      field("hardware", &T::hardware, "CPU model, instruction set, GPU model, memory ..."),
      field("software", &T::software, "LibTorch, oneDNN, CUDA, cuDNN, driver, compiler ...")};
};

template <>
struct Fields<DataFile> {
  static constexpr About kAbout{"DataFile", "A file of the data folder."};
  static constexpr std::tuple kAll{
      field("name", &DataFile::name, "path relative to the data folder"),
      field("sha256", &DataFile::sha256, "SHA-256 of the file").pattern(kSha256),
      field("bytes", &DataFile::bytes, "size of the file").at_least(0),
      field("verified", &DataFile::verified, "true where the digest equals the locked one"),
      field("pictures", &DataFile::pictures,
            "whole pictures in the file; null where they were not counted")
          .at_least(0)};
};

template <>
struct Fields<Provenance> {
  using T = Provenance;
  static constexpr About kAbout{"Provenance", "The sources, the program and the data of the run."};
  static constexpr std::tuple kAll{
      field("git_commit", &T::git_commit, "commit of the sources"),
      field("git_dirty", &T::git_dirty,
            "true where the sources had changes that were not committed"),
      field("git_diff_sha256", &T::git_diff_sha256, "SHA-256 of those changes; empty without any")
          .pattern(kSha256OrEmpty),
      field("binary_sha256", &T::binary_sha256, "SHA-256 of the program").pattern(kSha256OrEmpty),
      field("build", &T::build, "type, compiler and flags of the build"),
      field("container", &T::container, "image and digest; empty outside a container"),
      field("data", &T::data, "every file of the data folder that was read"),
      field("init_weights_sha256", &T::init_weights_sha256,
            "SHA-256 of the weights before the first step")
          .pattern(kSha256OrEmpty)};
};

template <>
struct Fields<Seeds> {
  static constexpr About kAbout{"Seeds",
                                "The seed of the run, and what its generators draw first."};
  static constexpr std::tuple kAll{
      field("base", &Seeds::base, "the seed, 0 to 2^64 - 1"),
      field("streams", &Seeds::streams,
            "first number of each random stream, by name; of `init` the seed itself")};
};

template <>
struct Fields<Protocol> {
  using T = Protocol;
  static constexpr About kAbout{"Protocol", "The protocol of the run."};
  static constexpr std::tuple kAll{
      field("steps", &T::steps, "optimizer steps of the training pass").at_least(0),
      field("batch", &T::batch, "images per optimizer step").at_least(0),
      field("accumulation", &T::accumulation, "micro-batches per optimizer step").at_least(1),
      field("warmup_steps", &T::warmup_steps, "steps before the steady part; detected, not chosen")
          .at_least(0),
      field("warmup_reason", &T::warmup_reason, "one sentence on how the warm-up was detected"),
      field("warmup_stable", &T::warmup_stable, "true where a steady part was found"),
      field("memory_steps", &T::memory_steps, "steps of the memory pass; 0 where it was not made")
          .at_least(0),
      field("profile_steps", &T::profile_steps,
            "steps of the profile pass; 0 where it was not made")
          .at_least(0),
      field("deterministic", &T::deterministic, "true where only deterministic operators ran"),
      field("resumed_at_step", &T::resumed_at_step,
            "step at which the run was resumed; 0 from the start")
          .at_least(0),
      field("loader_threads", &T::loader_threads,
            "threads that make batches ahead of time; 0 where the training loop does it itself")
          .at_least(0)};
};

template <>
struct Fields<Samples> {
  static constexpr About kAbout{
      "Samples", "Raw samples of every optimizer step of the training pass, warm-up included."};
  static constexpr std::tuple kAll{
      field("step_s", &Samples::step_s, "whole steps").at_least(0),
      field("data_wait_s", &Samples::data_wait_s, "waits for the batch").at_least(0),
      field("forward_s", &Samples::forward_s, "forward passes").at_least(0),
      field("backward_s", &Samples::backward_s, "backward passes").at_least(0),
      field("optimizer_s", &Samples::optimizer_s, "optimizer updates").at_least(0),
      field("ema_s", &Samples::ema_s, "updates of the averaged weights").at_least(0),
      field("loss", &Samples::loss,
            "training losses, each the mean over micro-batches; null where it was not finite and "
            "loss scaling skipped the step")
          .gaps(),
      field("grad_norm", &Samples::grad_norm,
            "norms of the gradient before clipping; empty where it is not clipped"),
      field("communication_s", &Samples::communication_s,
            "times during which a sum or broadcast of ranks was on its way")
          .at_least(0)
          .left_out_if_empty(),
      field("exposed_s", &Samples::exposed_s,
            "parts of it during which this rank did nothing but wait: in the backward pass since "
            "its last bucket of gradients was full")
          .at_least(0)
          .left_out_if_empty()};
};

struct SampleList {
  std::string_view key;
  std::vector<double> Samples::*values;
};
/// All lists of Samples.
inline constexpr auto kSampleLists = std::apply(
    [](const auto&... field) {
      return std::array{SampleList{field.key, field.member}...};
    },
    Fields<Samples>::kAll);

template <>
struct Fields<Interval> {
  static constexpr About kAbout{"Interval", "An interval with both its ends."};
  static constexpr std::tuple kAll{field("low", &Interval::low, "lower end of the interval"),
                                   field("high", &Interval::high, "upper end of the interval")};
};

template <>
struct Fields<Metric> {
  static constexpr About kAbout{"Metric", "A named figure of the run."};
  static constexpr std::tuple kAll{
      field("name", &Metric::name, "\"images_per_s\"").not_empty(),
      field("unit", &Metric::unit, "unit of the value"),
      field("direction", &Metric::direction, "good direction of the value"),
      field("value", &Metric::value, "figure of the metric; null where it could not be had"),
      field("missing_reason", &Metric::missing_reason, "reason why the value is null"),
      field("statistic", &Metric::statistic, "\"median\", \"exact\", ..."),
      field("ci95", &Metric::ci95, "interval of 95 % confidence"),
      field("n", &Metric::n, "samples behind the value").at_least(0),
      field("method", &Metric::method, "how the value was obtained")};
};

template <>
struct Fields<OperatorRow> {
  using T = OperatorRow;
  static constexpr About kAbout{"OperatorRow", "One operator of the profile."};
  static constexpr std::tuple kAll{
      field("name", &T::name, "\"aten::convolution_backward\""),
      field("calls", &T::calls, "calls per step").at_least(0),
      field("self_s", &T::self_s, "time per step: host time on a CPU, device time on a GPU")
          .at_least(0),
      field("share_frac", &T::share_frac, "share of the time of all operators")
          .at_least(0)
          .at_most(1),
      field("flops", &T::flops, "FLOP per step; 0 where the operator has no formula").at_least(0)};
};

template <>
struct Fields<DeviceColumn> {
  static constexpr About kAbout{"DeviceColumn", "One figure of a GPU in one window of time."};
  static constexpr std::tuple kAll{
      field("name", &DeviceColumn::name, "\"sm_active\"").not_empty(),
      field("unit", &DeviceColumn::unit, "\"C\" is degrees Celsius").one_of("frac|W|MHz|C|J"),
      field("value", &DeviceColumn::value,
            "figure over the wall time of the window; the mean of the readings where there are any")
          .at_least(0),
      field("over_kernels", &DeviceColumn::over_kernels,
            "share while at least one kernel ran: the value over the kernels' share of the window; "
            "null where that would be more than all")
          .at_least(0),
      field("lowest", &DeviceColumn::lowest, "lowest reading").at_least(0),
      field("highest", &DeviceColumn::highest, "highest reading").at_least(0),
      field("readings", &DeviceColumn::readings,
            "number of readings; 0 for counters and for what was counted")
          .at_least(0),
      field("window_s", &DeviceColumn::window_s, "length of the window").at_least(0),
      field("source", &DeviceColumn::source, "\"NVML GPM SM_UTIL\"").not_empty(),
      field("missing_reason", &DeviceColumn::missing_reason, "reason why the value is null")};
};

template <>
struct Fields<DeviceReading> {
  using T = DeviceReading;
  static constexpr About kAbout{"DeviceReading", "A GPU at one moment of a window."};
  static constexpr std::tuple kAll{
      field("at_s", &T::at_s, "time since the window began").at_least(0),
      field("power_w", &T::power_w, "power that the device drew").at_least(0),
      field("sm_clock_mhz", &T::sm_clock_mhz, "clock of the multiprocessors").at_least(0),
      field("memory_clock_mhz", &T::memory_clock_mhz, "clock of the device's memory").at_least(0),
      field("temperature_c", &T::temperature_c, "temperature of the device"),
      field("clock_reasons", &T::clock_reasons,
            "NVML's mask of the reasons that hold the clocks down")
          .at_least(0)};
};

template <>
struct Fields<DeviceUse> {
  static constexpr About kAbout{"DeviceUse",
                                "Readings of a GPU while training went on. Empty on a CPU."};
  static constexpr std::tuple kAll{
      field("measured", &DeviceUse::measured, "true where the device was read"),
      field("missing_reason", &DeviceUse::missing_reason, "reason why it was not"),
      field("steps", &DeviceUse::steps, "steps in the window").at_least(0),
      field("images", &DeviceUse::images, "images in the window").at_least(0),
      field("window_s", &DeviceUse::window_s, "length of the window").at_least(0),
      field("clock_reasons", &DeviceUse::clock_reasons,
            "reasons that held the clocks down, and in how many of the readings"),
      field("columns", &DeviceUse::columns, "one figure each"),
      field("trace", &DeviceUse::trace, "every reading, in its order")};
};

template <>
struct Fields<ConvolutionKernel> {
  using T = ConvolutionKernel;
  static constexpr About kAbout{
      "ConvolutionKernel",
      "A kernel that ran for convolutions of one shape in one direction: what a GPU's profile "
      "tells of the algorithm that was chosen for them."};
  static constexpr std::tuple kAll{
      field("direction", &T::direction,
            "data and weight are the gradients of these; gradient: the kernel's name does not say "
            "of which")
          .one_of("forward|data|weight|gradient"),
      field("input", &T::input, "sizes, [N, C, H, W]").at_least(0),
      field("weight", &T::weight, "sizes, [out, in / groups, height, width]").at_least(0),
      field("stride", &T::stride, "strides; empty where the profiler did not tell").at_least(1),
      field("kernel", &T::kernel, "whole name of the kernel").not_empty(),
      field("calls", &T::calls, "calls per step").above(0),
      field("time_s", &T::time_s, "time per step").at_least(0)};
};

template <>
struct Fields<ConvolutionKernels> {
  static constexpr About kAbout{
      "ConvolutionKernels",
      "Kernels that cuDNN chose for the convolutions of a step. Empty on a CPU."};
  static constexpr std::tuple kAll{
      field("measured", &ConvolutionKernels::measured, "true where the kernels were read"),
      field("missing_reason", &ConvolutionKernels::missing_reason, "reason why they were not"),
      field("kernels", &ConvolutionKernels::kernels, "kernels by falling time")};
};

template <>
struct Fields<Utilization> {
  static constexpr About kAbout{"Utilization", "The use that training made of the hardware."};
  static constexpr std::tuple kAll{
      field("measured", &Utilization::measured, "true where the profile pass was made"),
      field("missing_reason", &Utilization::missing_reason, "reason why it was not"),
      field("parameters", &Utilization::parameters, "trainable parameters").at_least(0),
      field("forward_flop_per_image", &Utilization::forward_flop_per_image,
            "a fused multiply-add counts as two")
          .at_least(0),
      field("backward_flop_per_image", &Utilization::backward_flop_per_image,
            "FLOP of the backward pass, counted likewise")
          .at_least(0),
      field("achieved_flop_per_s", &Utilization::achieved_flop_per_s,
            "FLOP of the training by our formulas over its time")
          .at_least(0),
      field("gemm_peak_flop_per_s", &Utilization::gemm_peak_flop_per_s,
            "peak measured in the same process, at the same precision and threads")
          .at_least(0),
      field("gemm_peak_method", &Utilization::gemm_peak_method, "how the peak was measured"),
      field("mfu_frac", &Utilization::mfu_frac, "achieved over measured peak"),
      field("profiler_overhead_frac", &Utilization::profiler_overhead_frac,
            "time that the profiler added to a step"),
      field("operators", &Utilization::operators, "operators by falling self time"),
      field("device_use", &Utilization::device_use, "the use of a GPU by the training"),
      field("convolutions", &Utilization::convolutions, "the kernels that computed convolutions")};
};

template <>
struct Fields<Evaluation> {
  static constexpr About kAbout{"Evaluation", "One evaluation on the validation images."};
  static constexpr std::tuple kAll{
      field("step", &Evaluation::step, "optimizer steps before it").at_least(0),
      field("samples_seen", &Evaluation::samples_seen, "images trained on before it").at_least(0),
      field("elapsed_s", &Evaluation::elapsed_s,
            "time since data was first touched: opened, trained, evaluated")
          .at_least(0),
      field("loss", &Evaluation::loss, "unweighted validation loss"),
      field("weighted_loss", &Evaluation::weighted_loss,
            "validation loss with the training weights"),
      field("timesteps", &Evaluation::timesteps, "timesteps of the next two lists").at_least(0),
      field("per_timestep", &Evaluation::per_timestep, "unweighted loss at each timestep"),
      field("optimal_per_timestep", &Evaluation::optimal_per_timestep,
            "Bayes-optimal loss at each timestep; empty where it is not known"),
      field("excess_frac", &Evaluation::excess_frac, "(loss - optimal) / optimal")};
};

template <>
struct Fields<Quality> {
  static constexpr About kAbout{"Quality",
                                "The quality that the model reached, and the time that it took."};
  static constexpr std::tuple kAll{
      field("weights", &Quality::weights, "weights that were evaluated: \"model\" or \"ema\""),
      field("samples", &Quality::samples, "images per evaluation").at_least(0),
      field("evaluations", &Quality::evaluations,
            "evaluations of the validation loss during the training"),
      field("target_loss", &Quality::target_loss, "loss that counts as reaching quality"),
      field("time_to_quality_s", &Quality::time_to_quality_s, "time until the target was reached")
          .at_least(0),
      field("samples_to_quality", &Quality::samples_to_quality,
            "images until the target was reached")
          .at_least(0),
      field("missing_reason", &Quality::missing_reason,
            "reason why the target was not reached or not set")};
};

template <>
struct Fields<Determinism> {
  static constexpr About kAbout{"Determinism",
                                "Digests by which two runs can be compared bit for bit."};
  static constexpr std::tuple kAll{
      field("loss_trace_sha256", &Determinism::loss_trace_sha256,
            "digest of the bits of every training loss")
          .pattern(kSha256OrEmpty),
      field("weights_sha256", &Determinism::weights_sha256,
            "digest of name, type, shape and bytes of every weight after training")
          .pattern(kSha256OrEmpty),
      field("ema_sha256", &Determinism::ema_sha256,
            "the same of the averaged weights; empty where the definition has none")
          .pattern(kSha256OrEmpty)};
};

template <>
struct Fields<RankRecord> {
  static constexpr About kAbout{"RankRecord", "One of the processes that trained together."};
  static constexpr std::tuple kAll{
      field("rank", &RankRecord::rank, "its number").at_least(0),
      field("local_rank", &RankRecord::local_rank, "its number among those of its machine")
          .at_least(0)
          .left_out_if_empty(),
      field(
          "samples", &RankRecord::samples,
          "its own times, of ranks but 0 since a resumption; losses are the means over all ranks"),
      field("exchanges", &RankRecord::exchanges, "sums and broadcasts of its last step")
          .at_least(0)
          .left_out_if_empty(),
      field("exchanged_bytes", &RankRecord::exchanged_bytes,
            "bytes of their tensors as they were counted, each once")
          .at_least(0)
          .left_out_if_empty(),
      field("expected_bytes", &RankRecord::expected_bytes,
            "the same by formula: gradients as they travel, the loss, and weights that are updated "
            "in shares; in the second step ranks also agree on the order of gradients")
          .at_least(0)
          .left_out_if_empty(),
      field("boundaries", &RankRecord::boundaries,
            "its owners at the phase boundaries of the memory pass; empty where it was not made"),
      field("peak", &RankRecord::peak, "its owners at the peak of that pass"),
      field("peak_saved_bytes", &RankRecord::peak_saved_bytes,
            "the most bytes that it held for backward at any moment of that pass; absent where it "
            "was not made")
          .at_least(0)
          .left_out_if_empty(),
      field("leaked_bytes", &RankRecord::leaked_bytes,
            "live bytes after the step of that pass less those before it"),
      field("noise_sha256", &RankRecord::noise_sha256,
            "digest of the noise of its first training step; every rank must have its own, and all "
            "stages of a pipeline the same")
          .pattern(kSha256OrEmpty),
      field("determinism", &RankRecord::determinism, "digests of this rank's losses and weights"),
      field("fallbacks", &RankRecord::fallbacks,
            "how often its memory mode fell back; absent without a mode")
          .left_out_if_empty(),
      field("first_block", &RankRecord::first_block,
            "first block of the network that it has as a stage of a pipeline; absent of others")
          .left_out_if_empty(),
      field("last_block", &RankRecord::last_block, "the last one, likewise").left_out_if_empty(),
      field("blocks", &RankRecord::blocks, "their number").at_least(1).left_out_if_empty(),
      field(
          "blocks_s", &RankRecord::blocks_s,
          "seconds that they took for a micro-batch, forward and backward, before training began; "
          "by such times the network was divided")
          .at_least(0)
          .left_out_if_empty()};
};

template <>
struct Fields<WideOperator> {
  static constexpr About kAbout{"WideOperator",
                                "An operator that computed in float32 although autocast was on."};
  static constexpr std::tuple kAll{
      field("name", &WideOperator::name, "\"aten::native_group_norm\"").not_empty(),
      field("calls", &WideOperator::calls, "calls in one forward pass with a result in float32")
          .at_least(1),
      field("result_bytes", &WideOperator::result_bytes, "bytes of those results").at_least(0)};
};

template <>
struct Fields<MixedPrecision> {
  using T = MixedPrecision;
  static constexpr About kAbout{"MixedPrecision",
                                "Effects of computing in less than float32. Empty where everything "
                                "was computed in one type."};
  static constexpr std::tuple kAll{
      field("measured", &T::measured, "true where operators and wide were read"),
      field("missing_reason", &T::missing_reason, "reason why they were not"),
      field("type", &T::type, "type of autocast: \"BF16\"; empty without autocast"),
      field("loss_scale", &T::loss_scale,
            "scale of the loss after the last step; null without scaling")
          .above(0),
      field("operators", &T::operators, "calls with a floating-point result in one forward pass")
          .at_least(0),
      field("wide", &T::wide, "operators that stayed in float32, the most bytes first")};
};

template <>
struct Fields<Gate> {
  static constexpr About kAbout{"Gate", "A bound, the value beside it, and the verdict."};
  static constexpr std::tuple kAll{
      field("name", &Gate::name, "name of the gate").not_empty(),
      field("metric", &Gate::metric, "metric that the gate looks at"),
      field("relation", &Gate::relation, "relation that value and bound must have")
          .one_of("at most|at least|equals"),
      field("value", &Gate::value, "measured value; null where it is missing"),
      field("bound", &Gate::bound, "bound that the value is compared with"),
      field("unit", &Gate::unit, "unit of value and bound"),
      field("verdict", &Gate::verdict, "outcome of the gate").one_of("pass|fail|not_applied"),
      field("words", &Gate::words, "one sentence that a person can read")};
};

template <>
struct Fields<Artifact> {
  static constexpr About kAbout{"Artifact", "Another file of the run."};
  static constexpr std::tuple kAll{
      field("path", &Artifact::path, "path relative to the result"),
      field("sha256", &Artifact::sha256, "SHA-256 of the file").pattern(kSha256)};
};

template <>
struct Fields<Exit> {
  static constexpr About kAbout{"Exit", "The end of the process."};
  static constexpr std::tuple kAll{
      field("code", &Exit::code, "exit code of the process").one_of("0|1|2|3|4|5|70|71|74|77|130"),
      field("status", &Exit::status,
            "\"pass\", \"failed\", \"interrupted\", \"custom\", \"out of memory\" ..."),
      field("reasons", &Exit::reasons, "one sentence for each reason")};
};

template <>
struct Fields<Result> {
  static constexpr About kAbout{"Result", ""};
  static constexpr std::tuple kAll{
      field("run_id", &Result::run_id, "16 hexadecimal digits that name the run")
          .pattern("^[0-9a-f]{16}$"),
      field("created_utc", &Result::created_utc, "time in the form of RFC 3339")
          .pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z$")
          .time(),
      field("title", &Result::title, "title of the benchmark"),
      field("argv", &Result::argv, "command line of the run"),
      field("repeat_command", &Result::repeat_command, "command line that repeats the run"),
      field("exit", &Result::exit, "exit code of the run and its reasons"),
      field("identity", &Result::identity,
            "everything that must agree before two results may be compared"),
      field("definition", &Result::definition, "canonical resolved definition as JSON text"),
      field("provenance", &Result::provenance,
            "program, build, container, data and machine of the run"),
      field("environment", &Result::environment,
            "everything else about the machine: governor, kernel, libc, packages, variables"),
      field("seeds", &Result::seeds, "seed of the run, and first numbers of its random streams"),
      field("protocol", &Result::protocol, "steps, batch, warm-up and passes of the measurement"),
      field("samples", &Result::samples, "raw figures of every optimizer step"),
      field("metrics", &Result::metrics, "named figures; gates look here"),
      field("memory", &Result::memory, "live bytes by owner"),
      field("memory_mode", &Result::memory_mode,
            "predicted and measured bytes and time under a memory mode"),
      field("batch_fit", &Result::batch_fit, "the largest batch that fits a memory"),
      field("utilization", &Result::utilization,
            "operations of the training, and the use of the hardware"),
      field("quality", &Result::quality, "validation losses, and the time to the target"),
      field("determinism", &Result::determinism, "digests of losses and weights"),
      field("ranks", &Result::ranks, "the processes of a run that trained as several, by number")
          .left_out_if_empty(),
      field("mixed_precision", &Result::mixed_precision, "operators that stayed in float32"),
      field("gates", &Result::gates, "bounds that the run was held to"),
      field("artifacts", &Result::artifacts, "other files of the run")};
};

}  // namespace noisemark::reports::json
