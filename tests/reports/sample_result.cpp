#include "tests/reports/sample_result.h"

#include "reports/base/sha256.h"
#include "reports/base/statistics.h"
#include "reports/result/gate.h"

namespace noisemark::reports::test {
namespace {

constexpr int64_t kMiB = 1024 * 1024;
constexpr int64_t kSteps = 64;
constexpr int64_t kBatch = 16;

// Deterministic roughness in [-1, 1], so that plots and intervals have something to show.
double roughness(int64_t i) {
  return static_cast<double>((i * 37) % 101) / 50.0 - 1.0;
}

void fill_identity(Result& result) {
  Identity& id = result.identity;
  id.benchmark = "ho-cifar10";
  id.scale = "cpu";
  id.mode = "none";
  id.baseline = "plain";
  id.precision = "fp32";
  id.device = "cpu";
  id.framework = "noisemark";
  id.threads = 2;
  id.data = "official";
  id.hardware = {{"cpu", "Example CPU 3000 | rev B"}, {"isa", "AVX512"}, {"memory", "24 GiB"}};
  id.software = {{"libtorch", "2.11.0"}, {"oneDNN", "3.7"}, {"compiler", "g++ 12.2"}};
  result.definition = R"({"benchmark":{"id":"ho-cifar10","scale":"cpu"},"train":{"batch":16},)"
                      R"("gate":{"val_loss":{"metric":"val_loss","max":0.12}}})";
  id.definition_sha256 = sha256_of(result.definition);
}

void fill_provenance(Result& result) {
  Provenance& from = result.provenance;
  from.git_commit = "0123456789abcdef0123456789abcdef01234567";
  from.git_dirty = true;
  from.git_diff_sha256 = sha256_of("diff");
  from.binary_sha256 = sha256_of("binary");
  from.build = {{"compiler", "g++ 12.2.0"}, {"flags", "-O3"}, {"type", "Release"}};
  from.container = {{"image", "noisemark:1"}, {"digest", "sha256:" + sha256_of("image")}};
  from.data = {{"data_batch_1.bin", sha256_of("1"), 30730000, true, 10000},
               {"test_batch.bin", sha256_of("t"), 30730000, true, 10000}};
  from.init_weights_sha256 = sha256_of("weights");
  result.environment = {{"governor", "performance"}, {"kernel", "6.1.0"}, {"libc", "2.36"}};
  result.seeds.base = 7;
  result.seeds.streams = {
      {"data", 11}, {"init", 7}, {"noise", 18446744073709551557U}, {"timestep", 14}};
}

void fill_samples(Result& result) {
  Samples& s = result.samples;
  for (int64_t i = 0; i < kSteps; ++i) {
    // Only operations that IEEE 754 rounds exactly: the golden files must not depend on a libm.
    const double cold = 0.35 / (1 + static_cast<double>(i * i * i));
    const double forward = 0.30 + cold + 0.002 * roughness(i);
    const double backward = 0.62 + cold + 0.003 * roughness(i + 5);
    s.data_wait_s.push_back(0.0002 + 0.00001 * roughness(i + 1));
    s.forward_s.push_back(forward);
    s.backward_s.push_back(backward);
    s.optimizer_s.push_back(0.021 + 0.0001 * roughness(i + 2));
    s.ema_s.push_back(0.008 + 0.0001 * roughness(i + 3));
    s.step_s.push_back(forward + backward + 0.0297);
    s.loss.push_back(1.0 / (1.0 + 0.2 * static_cast<double>(i)) + 0.02 * roughness(i + 4));
    s.grad_norm.push_back(2.0 / (1.0 + static_cast<double>(i)));
  }
  result.protocol.steps = kSteps;
  result.protocol.batch = kBatch;
  result.protocol.warmup_steps = 8;
  result.protocol.warmup_reason = "after 8 steps two windows of 8 steps agree within 0.9 %";
  result.protocol.warmup_stable = true;
  result.protocol.memory_steps = 3;
  result.protocol.profile_steps = 3;
}

void fill_metrics(Result& result) {
  const auto& all = result.samples.step_s;
  const std::vector<double> steady(all.begin() + result.protocol.warmup_steps, all.end());
  const Interval step = median_interval(steady).value();
  const auto batch = static_cast<double>(kBatch);
  result.metrics = {
      {"images_per_s", "images/s", Direction::kHigher, batch / median(steady), "", "median",
       Interval{batch / step.high, batch / step.low}, static_cast<int64_t>(steady.size()),
       "batch / median step time, interval between order statistics"},
      {"val_loss", "", Direction::kLower, 0.0931, "", "mean", {}, 256, "8 timesteps"},
      {"energy_j", "J", Direction::kLower, {}, "no counter on this machine", "", {}, 0, ""}};
}

MemorySnapshot snapshot(const std::string& at, const std::vector<int64_t>& mib,
                        const std::vector<std::string>& categories) {
  MemorySnapshot shot;
  shot.at = at;
  for (size_t i = 0; i < categories.size(); ++i) {
    const int64_t bytes = i < mib.size() ? mib[i] * kMiB : 0;
    shot.by_category[categories[i]] = bytes;
    shot.allocator_bytes += bytes;
  }
  return shot;
}

void fill_timeline(MemorySection& memory) {
  const size_t activations = 8;
  for (int64_t i = 0; i <= 60; ++i) {
    MemoryPoint point;
    point.time_s = 0.016 * static_cast<double>(i);
    point.by_category = {136 * kMiB, 272 * kMiB, 136 * kMiB, i * 136 * kMiB / 60, kMiB};
    point.by_category.resize(memory.categories.size() + 1);
    const int64_t kept = i <= 20 ? i * 41 : (60 - i) * 820 / 40;
    point.by_category[activations] = kept * kMiB;
    point.by_category[memory.categories.size() - 1] = i % 2 * 24 * kMiB;
    memory.timeline.push_back(point);
  }
}

void fill_memory(Result& result) {
  MemorySection& m = result.memory;
  m.measured = true;
  m.source = "c10 CPU allocator wrapper";
  m.categories = {"weights",     "optimizer",      "ema",       "gradients",
                  "input",       "autocast_cache", "encoded",   "rematerialized",
                  "activations", "communication",  "workspace", "temporary"};
  const auto shot = [&](const std::string& at, const std::vector<int64_t>& mib) {
    return snapshot(at, mib, m.categories);
  };
  m.boundaries = {shot("step_begin", {136, 272, 136, 0, 1}),
                  shot("forward_end", {136, 272, 136, 0, 1, 0, 0, 0, 820}),
                  shot("backward_end", {136, 272, 136, 136, 1}),
                  shot("step_end", {136, 272, 136, 0, 1})};
  m.peak = shot("peak", {136, 272, 136, 40, 1, 0, 0, 0, 790, 0, 0, 96});
  m.peak.by_category["temporary"] -= 4096;
  m.peak.unattributed_bytes = 4096;
  m.peak_phase = "backward";
  m.peak_operator = "aten::convolution_backward";
  m.peak_bytes = m.peak.allocator_bytes;
  m.saved_bytes = 820 * kMiB;
  m.peak_saved_bytes = 820 * kMiB;
  m.naive_saved_bytes = 1050 * kMiB;
  m.saved_tensors = 551;
  m.outside_allocator_bytes = 61 * kMiB;
  m.allocations = 4242;
  m.convolution_workspace.missing_reason = "the CPU's library has its own";
  fill_timeline(m);
}

void fill_utilization(Result& result) {
  Utilization& u = result.utilization;
  u.measured = true;
  u.parameters = 35746307;
  u.forward_flop_per_image = 12100000000;
  u.backward_flop_per_image = 24100000000;
  u.achieved_flop_per_s = 609.5e9;
  u.gemm_peak_flop_per_s = 1568e9;
  u.gemm_peak_method = "largest of 3 square products of 2,048, fp32, 2 threads";
  u.mfu_frac = u.achieved_flop_per_s / u.gemm_peak_flop_per_s;
  u.profiler_overhead_frac = 0.031;
  u.operators = {{"aten::convolution_backward", 98, 0.41, 0.43, 380000000000},
                 {"aten::mkldnn_convolution", 98, 0.22, 0.23, 190000000000},
                 {"aten::native_group_norm", 89, 0.05, 0.052, 0}};
  u.convolutions.missing_reason = "the CPU's library does not name them";
}

/// The result of a GPU with a limit that is kept to.
void fill_convolutions(Result& result) {
  result.memory.convolution_workspace = {48 * kMiB, 56 * kMiB, 64 * kMiB, ""};
  result.environment["torch_cudnn_benchmark"] = "off";
  result.environment["torch_deterministic_cudnn"] = "off";
  ConvolutionKernels& run = result.utilization.convolutions;
  run = {true, "", {}};
  const std::vector<int64_t> input{kBatch, 128, 32, 32};
  const std::vector<int64_t> weight{128, 128, 3, 3};
  run.kernels = {
      {"weight",
       input,
       weight,
       {1, 1},
       "sm90_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32_"
       "stage3_warpsize2x2x1_g1_tensor16x8x8_kernel__5x_cudnn",
       12,
       0.0045},
      {"forward",
       input,
       weight,
       {1, 1},
       "void "
       "cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_"
       "align4>(cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4::Params)",
       12,
       0.0031},
      {"gradient",
       {kBatch, 3, 32, 32},
       {128, 3, 3, 3},
       {},
       "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, "
       "(cudnnKernelDataType_t)0>(cudnn::ops::nchw2nhwc_params_t<float>, float const*, float*)",
       0.5,
       0.00002}};
}

Evaluation evaluation(int64_t step, double loss) {
  Evaluation e;
  e.step = step;
  e.samples_seen = step * kBatch;
  e.elapsed_s = 0.95 * static_cast<double>(step);
  e.loss = loss;
  e.weighted_loss = loss;
  for (int64_t j = 0; j < 8; ++j) {
    e.timesteps.push_back(1000 * (2 * j + 1) / 16);
    e.per_timestep.push_back(loss * (1.7 - 0.2 * static_cast<double>(j)));
    e.optimal_per_timestep.push_back(0.05 * (1.7 - 0.2 * static_cast<double>(j)));
  }
  e.excess_frac = loss / 0.05 - 1;
  return e;
}

void fill_precision(Result& result) {
  MixedPrecision& mixed = result.mixed_precision;
  mixed.measured = true;
  mixed.type = "F16";
  mixed.loss_scale = 32768;
  mixed.operators = 340;
  mixed.wide = {{"aten::native_group_norm", 40, 96 * kMiB}, {"aten::silu", 41, 94 * kMiB}};
}

void fill_quality(Result& result) {
  Quality& q = result.quality;
  q.weights = "ema";
  q.samples = 256;
  q.evaluations = {evaluation(0, 1.01), evaluation(32, 0.21), evaluation(64, 0.0931)};
  q.target_loss = 0.1;
  q.time_to_quality_s = 60.8;
  q.samples_to_quality = 1024;
  result.determinism = {sha256_of("trace"), sha256_of("after"), sha256_of("average")};
}

}  // namespace

Result minimal_result() {
  Result result;
  result.run_id = "00000000000000aa";
  result.created_utc = "2026-01-02T03:04:05Z";
  result.title = "Nothing measured";
  result.exit = {0, "custom", {}};
  result.identity.benchmark = "gmm16";
  result.identity.scale = "cpu";
  result.identity.custom = true;
  result.identity.overrides = {"train.steps=0"};
  result.identity.precision = "fp32";
  result.identity.device = "cpu";
  result.identity.framework = "noisemark";
  result.identity.data = "generated";
  result.definition = "{}";
  result.identity.definition_sha256 = sha256_of(result.definition);
  result.seeds.streams = {{"init", 0}};
  result.memory.missing_reason = "the memory pass was not asked for";
  result.utilization.missing_reason = "the profile pass was not asked for";
  result.quality.missing_reason = "the definition sets no target";
  return result;
}

Result result_under_echo() {
  Result result = full_result();
  result.identity.mode = "echo";
  MemoryMode& mode = result.memory_mode;
  mode.measured = true;
  mode.lossless = true;
  mode.reference = "none-plain-fp32";
  mode.plain = {1500 * kMiB, 3 * result.memory.saved_bytes, 2 * result.memory.peak_saved_bytes};
  mode.predicted = {result.memory.peak_bytes, result.memory.saved_bytes, {}};
  mode.predicted_added_s = 0.0125;
  mode.recorded_bytes = 600 * kMiB;
  mode.held_bytes = 180 * kMiB;
  mode.encoded_from_bytes = 20 * kMiB;
  mode.dropped_bytes = 400 * kMiB;
  mode.encoded_bytes = kMiB;
  mode.recipes = 120;
  mode.kept_after_mismatch = 1;
  mode.irreplaceable_bytes = 165 * kMiB;
  // The words of memopt/treatment/treatment.cpp, which a test of memopt knows too.
  mode.held = {{"aten::convolution", "operator is not recomputed in this mode", 36, 150 * kMiB},
               {"aten::add", "crosses blocks", 4, 15 * kMiB},
               {"aten::native_group_norm", "must be kept", 1, 5 * kMiB},
               {"outside", "made outside the model", 2, 10 * kMiB}};
  mode.fallbacks = {{"memory", "", "", 1, 0, 0, 0, 0, 0},
                    {"certificate", "", "", 1, 2, 0, 0, 0, 0},
                    {"training", "", "", 1, 0, 0, 3, 4, 5}};
  for (int64_t i = 0; i < 10; ++i) {
    mode.overhead.reference_step_s.push_back(1.0 + 0.01 * roughness(i));
    mode.overhead.step_s.push_back(1.02 + 0.01 * roughness(i + 3));
  }
  mode.overhead.frac = 0.0203;
  mode.overhead.ci95 = Interval{0.0125, 0.0288};
  mode.overhead.noise_frac = -0.001;
  mode.certificate.steps = {1, 2, 10};
  for (const char* step : {"1", "2", "10"}) mode.certificate.sha256.push_back(sha256_of(step));
  mode.certificate.reference_sha256 = mode.certificate.sha256;
  mode.certificate.verdict = Verdict::kPass;
  mode.certificate.words = "Loss, gradients and weights are bitwise those of mode none.";
  mode.gradient_error.error_frac = 0;
  result.gates = evaluate_gates(result, {{"val_loss", "val_loss", "at most", 0.12}}, {});
  result.exit = exit_of(result.gates, false);
  return result;
}

Result result_on_a_gpu() {
  Result result = full_result();
  result.identity.device = "cuda:0";
  result.memory.source = "trace of the CUDA caching allocator";
  DeviceMemory& held = result.memory.device_memory;
  held.allocated_bytes = 545 * kMiB + 4096;
  held.rounding_bytes = 4096;
  held.reserved_bytes = 1600 * kMiB;
  held.peak_allocated_bytes = 1480 * kMiB;
  held.peak_reserved_bytes = 1600 * kMiB;
  held.fragmentation_bytes = 120 * kMiB;
  held.unusable_bytes = 12 * kMiB;
  held.process_bytes = 2100 * kMiB;
  result.memory.outside_allocator_bytes = 500 * kMiB;
  fill_convolutions(result);
  result.memory.training.peak_allocated_bytes = 1490 * kMiB;
  result.memory.training.peak_reserved_bytes = 1700 * kMiB;
  result.memory.training.missing_reason = "recording: no step was recorded";
  DeviceUse& use = result.utilization.device_use;
  use.measured = true;
  use.steps = 6;
  use.images = 6 * kBatch;
  use.window_s = 5.5;
  use.clock_reasons = "power cap (12 of 56 readings)";
  const auto share = [&](const std::string& name, std::optional<double> value,
                         const std::string& source) {
    DeviceColumn column;
    column.name = name;
    column.unit = "frac";
    column.value = value;
    if (value) column.over_kernels = *value / 0.8;
    column.window_s = use.window_s;
    column.source = source;
    use.columns.push_back(column);
  };
  share("kernel_busy", 0.8, "intervals of kernels");
  share("sm_active", 0.72, "NVML GPM SM_UTIL");
  share("fp16_active", {}, "NVML GPM FP16_UTIL");
  use.columns[0].over_kernels.reset();
  use.columns[2].missing_reason = "not supported by this GPU or driver";
  use.columns.push_back({"power", "W", 612.5, {}, 598.0, 640.25, 56, 5.5, "NVML", ""});
  use.columns.push_back(
      {"energy_per_image", "J", 35.09, {}, {}, {}, 0, 5.5, "NVML's counter of energy", ""});
  use.trace = {{0.0, 598.0, 1980.0, 2619.0, 41.0, 0},
               {0.1, 640.25, 1905.0, 2619.0, 44.0, 4},
               {0.2, {}, 1950.0, 2619.0, 44.0, {}}};
  return result;
}

Result full_result() {
  Result result;
  result.run_id = "0123456789abcdef";
  result.created_utc = "2026-01-02T03:04:05Z";
  result.title = "DDPM U-Net of Ho et al. on CIFAR-10";
  result.argv = {"noisemark", "run", "ho-cifar10@cpu", "--seed", "7"};
  result.repeat_command = "noisemark run ho-cifar10@cpu --seed 7";
  fill_identity(result);
  fill_provenance(result);
  fill_samples(result);
  fill_metrics(result);
  fill_memory(result);
  fill_utilization(result);
  fill_precision(result);
  fill_quality(result);
  result.gates = evaluate_gates(result, {{"val_loss", "val_loss", "at most", 0.12}}, {});
  result.exit = exit_of(result.gates, false);
  result.artifacts = {{"events.mlog", sha256_of("events")}};
  return result;
}

Result result_of_two_ranks() {
  Result result = full_result();
  result.identity.ranks = 2;
  result.identity.backend = "gloo";
  for (int64_t rank = 0; rank < 2; ++rank) {
    RankRecord record;
    record.rank = rank;
    record.local_rank = rank;
    record.samples = result.samples;
    record.samples.communication_s.assign(result.samples.step_s.size(), 0.01);
    record.samples.exposed_s.assign(result.samples.step_s.size(), rank == 0 ? 0.004 : 0.001);
    record.exchanges = 3;
    record.exchanged_bytes = record.expected_bytes = 1 << 20;
    record.boundaries = result.memory.boundaries;
    record.peak = result.memory.peak;
    record.peak_saved_bytes = result.memory.peak_saved_bytes;
    record.noise_sha256 = std::string(64, rank == 0 ? 'a' : 'b');
    record.determinism = result.determinism;
    result.ranks.push_back(record);
  }
  return result;
}

}  // namespace noisemark::reports::test
