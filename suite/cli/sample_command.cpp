#include "suite/cli/sample_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "reports/error.h"
#include "suite/config/keys.h"
#include "suite/environment/environment.h"
#include "suite/run/interrupt.h"
#include "suite/run/plan.h"
#include "suite/run/sampling_pass.h"
#include "suite/run/single_run.h"
#include "suite/sampling/folder.h"
#include "suite/sampling/noise.h"
#include "suite/sampling/steps.h"

namespace noisemark::suite {
namespace {

constexpr int64_t kBatch = 16;

/// Nothing is trained, so the fastest execution of the same function is taken where it is there.
RunOptions with_baseline(RunOptions options) {
  const bool fused_takes =
      options.precision.empty() || options.precision == "fp32" || options.precision == "bf16";
  if (options.baselines.empty() && fused_takes && parse_device(options.device).is_cpu()) {
    options.baselines = {"fused+channels-last"};
  }
  return options;
}

/// The one way to draw that was asked for.
PlannedRun plan_of(const RunOptions& options) {
  require_benchmark("sample", options.id);
  return plan_runs(with_baseline(options)).front();
}

void require_of_sampler(const Arguments& arguments, const std::string& flag,
                        const std::string& sampler, const std::string& own) {
  if (!arguments.has(flag) || sampler == own) return;
  throw bad_input("--" + flag, arguments.text(flag), "means nothing for " + sampler,
                  "only with --sampler " + own);
}

/// What the definition says, and what the flags say otherwise.
SampleConfig sample_config(const Arguments& arguments, Definition definition) {
  const auto set = [&](const std::string& flag, const char* key, const Value& value) {
    if (arguments.has(flag)) assign(*find_key(key), value, "--" + flag, definition);
  };
  const SampleConfig& sample = definition.sample;
  set("sampler", "sample.sampler", arguments.text("sampler"));
  if (sample.sampler == "none") definition.sample.sampler = "ddim";
  for (const char* flag : {"steps", "eta"}) {
    require_of_sampler(arguments, flag, sample.sampler, "ddim");
  }
  require_of_sampler(arguments, "variance", sample.sampler, "ddpm");
  set("steps", "sample.ddim_steps", arguments.integer("steps", 1).value_or(0));
  set("eta", "sample.ddim_eta", arguments.number("eta", 0).value_or(0));
  set("variance", "sample.ddpm_variance", arguments.text("variance"));
  set("samples", "sample.count", arguments.integer("samples", 1).value_or(0));
  // A sampler that cannot be is found before anything is read.
  (void)sampler_steps(sample, DiffusionProcess(definition.diffusion, at::kCPU));
  return sample;
}

void take_noise(const Arguments& arguments, SamplingPassOptions& options) {
  if (!arguments.has("noise")) return;
  const ModelConfig& model = options.definition.model;
  options.noise_file = arguments.text("noise");
  options.initial_noise = read_initial_noise(options.noise_file, model.channels, model.resolution);
  const int64_t there = options.initial_noise.size(0);
  if (!arguments.has("samples")) options.sample.count = there;
  if (options.sample.count > there) {
    throw bad_input("--samples", "", std::to_string(options.sample.count),
                    fmt::format("at most {}, what --noise holds", there));
  }
}

std::string required(const Arguments& arguments, const std::string& flag,
                     const std::string& accepted) {
  if (!arguments.has(flag)) throw bad_input("--" + flag, "", "nothing given", accepted);
  return arguments.text(flag);
}

SamplingPassOptions pass_options(const Arguments& arguments, const PlannedRun& plan) {
  SamplingPassOptions options;
  options.weights = required(arguments, "weights", "a file of weights, or the folder of a run");
  options.out = required(arguments, "out", "a new folder");
  options.kind = arguments.text("use");
  options.definition = plan.definition;
  options.seed = plan.seed;
  options.variant = plan.variant;
  options.batch = arguments.integer("batch", 1).value_or(kBatch);
  options.sample = sample_config(arguments, plan.definition);
  require_picture_channels(plan.definition);
  take_noise(arguments, options);
  return options;
}

/// A folder that was made for samples goes again where there are none.
template <typename Action>
void into_folder(const std::filesystem::path& folder, bool force, const Action& action) {
  const bool was_there = std::filesystem::exists(folder);
  prepare_sampling_folder(folder, force);
  try {
    action();
  } catch (...) {
    std::error_code none;
    if (!was_there) std::filesystem::remove(folder, none);  // only where it is empty
    throw;
  }
}

}  // namespace

Answer sample_images(const Arguments& arguments, const RunOptions& options) {
  const PlannedRun plan = plan_of(options);
  const SamplingPassOptions pass = pass_options(arguments, plan);
  apply_variant(plan.variant);
  const InterruptGuard interrupt;
  Progress line(plan.id, 1, 1);
  try {
    into_folder(pass.out, arguments.has("force"), [&] { sampling_pass(pass, {line, interrupt}); });
  } catch (const Interrupted& error) {
    throw Error(ExitCode::kInterrupted, error.what());
  }
  Answer answer;
  answer.text = fmt::format("{} samples of {}: {}\n", pass.sample.count, plan.id,
                            (pass.out / "sheet.png").string());
  return answer;
}

}  // namespace noisemark::suite
