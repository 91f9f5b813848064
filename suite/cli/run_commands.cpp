#include "reports/base/file.h"
#include "suite/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "memopt/modes/budget_mode.h"
#include "memopt/modes/mode_grammar.h"
#include "reports/base/error.h"
#include "reports/base/folder.h"
#include "reports/base/markdown.h"
#include "reports/base/quantity.h"
#include "reports/base/streams.h"
#include "reports/profile/limit.h"
#include "suite/cli/arguments.h"
#include "suite/config/keys.h"
#include "suite/environment/environment.h"
#include "suite/run/passes/memory_pass.h"
#include "suite/run/passes/memory_plan.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/training_pass.h"
#include "suite/run/passes/watch.h"
#include "suite/run/ranks.h"
#include "suite/run/run.h"
#include "suite/run/spec/plan.h"
#include "suite/run/sweep.h"
#include "suite/sampling/folder.h"
#include "suite/sampling/patches.h"
#include "suite/sampling/sampler.h"
#include "suite/sampling/steps.h"

namespace noisemark::suite {

namespace {

/// The options of a run with what the command line and the environment add to them.
RunOptions run_options(const CommandLine& line) {
  RunOptions options = line.options.run;
  options.id = line.positional.front();
  options.argv = line.argv;
  options.data = data_folder(line.options);
  const char* out_parent = std::getenv("NOISEMARK_OUT");
  if (out_parent != nullptr && *out_parent != '\0') options.out_parent = out_parent;
  return options;
}

/// The same for a command that looks at one process alone.
RunOptions options_of_one(const CommandLine& line) {
  if (const std::optional<Rank> rank = own_rank()) {
    throw bad_input(std::string(line.command), "", fmt::format("started as {} ranks", rank->ranks),
                    "one process; ranks share run and sample");
  }
  return run_options(line);
}

std::string mode_of(const std::string& text) {
  const std::string accepted = memopt::budget_forms();
  if (text.empty()) throw bad_input("--budget", "", "nothing given", accepted);
  const std::optional<memopt::Budget> budget = memopt::read_budget(text);
  if (!budget) throw bad_input("--budget", "", text, accepted);
  return memopt::spell_budget(*budget);
}

}  // namespace

Answer train(const CommandLine& line) {
  return {"", run(run_options(line))};
}

Answer sweep_settings(const CommandLine& line) {
  SweepCommand command;
  command.html = line.options.html;
  return {"", run_sweep(options_of_one(line), parse_axes(line.options.axes), command)};
}

Answer predict_batches(const CommandLine& line) {
  PredictOptions wishes = line.options.predict;
  wishes.html = line.options.html;
  return {"", run_prediction(options_of_one(line), wishes)};
}

Answer profile_steps(const CommandLine& line) {
  ProfileWishes wishes = line.options.profile;
  wishes.html = line.options.html;
  return {"", run_profile(options_of_one(line), wishes)};
}

Answer serve_steps(const CommandLine& line) {
  return {"", pace(options_of_one(line))};
}

Answer plan_memory(const CommandLine& line) {
  RunOptions options = options_of_one(line);
  options.modes = {mode_of(line.options.budget)};
  require_benchmark("plan", options.id);
  const PlannedRun planned = plan_runs(options).front();
  configure_process(planned.spec);
  const MemoryPlan plan = make_memory_plan(session_options(options, planned));
  Answer answer;
  answer.text = memory_plan_text(plan);
  if (!options.out.empty()) {
    const reports::FolderLock lock(options.out);
    const std::string left_out = draw_memory_plan(plan, options.out);
    if (!left_out.empty()) answer.text += fmt::format("\nNo plot: {}.\n", left_out);
  }
  if (plan.answer) return answer;
  const int64_t smallest = plan.planner->smallest_bytes();
  throw bad_input("--budget", "", line.options.budget,
                  fmt::format("the smallest that can be met is {} bytes, {}", smallest,
                              memopt::spell_at_least(smallest)));
}

namespace {

std::vector<std::string> row_of(const PlannedRun& plan, const reports::BatchFit& found) {
  return {plan.spec.mode.name,
          plan.spec.baseline.name,
          plan.spec.precision.name,
          reports::format_count(found.batch),
          found.peak_bytes ? reports::format_bytes(*found.peak_bytes) : "",
          found.next_peak_bytes ? reports::format_bytes(*found.next_peak_bytes) : found.next_words};
}

constexpr const char* kWhatFits =
    "\nA batch fits if its steady step holds at most this much memory of all owners; what a driver "
    "and its libraries hold comes on top. Nothing is extrapolated.\n";

reports::BatchFit fit_one(const RunOptions& options, const PlannedRun& plan, int64_t memory_bytes,
                          const InterruptGuard& interrupt) {
  configure_process(plan.spec);
  Progress line(plan.id + " " + variant_label(plan.spec), 1, 1);
  try {
    return largest_batch(session_options(options, plan), memory_bytes, {line, interrupt});
  } catch (const Interrupted& error) {
    throw Error(ExitCode::kInterrupted, error.what());
  }
}

}  // namespace

Answer fit_batches(const CommandLine& line) {
  const RunOptions options = options_of_one(line);
  if (!line.options.memory_bytes) {
    throw bad_input("--memory", "", "nothing given", std::string(memopt::kSizeForms));
  }
  const int64_t memory_bytes = *line.options.memory_bytes;
  require_benchmark("fit", options.id);
  const std::vector<PlannedRun> plans = plan_runs(options);
  for (const PlannedRun& plan : plans) require_countable_batch(plan.spec);
  using reports::Align;
  reports::MarkdownTable table({{"mode"},
                                {"baseline"},
                                {"precision"},
                                {"largest batch", Align::kRight},
                                {"its peak", Align::kRight},
                                {"peak of the next", Align::kRight}});
  const InterruptGuard interrupt;
  Answer answer;
  int64_t largest = 0;
  std::string largest_under;
  for (const PlannedRun& plan : plans) {
    const reports::BatchFit found = fit_one(options, plan, memory_bytes, interrupt);
    if (found.batch == 0) answer.code = ExitCode::kFailed;
    if (found.batch > largest) {
      largest = found.batch;
      largest_under = variant_label(plan.spec);
    }
    table.add_row(row_of(plan, found));
  }
  answer.text =
      deliver(line.options,
              reports::finished_page(fmt::format(
                  "# Largest batch of {} within {}: {}\n\n{}{}{}", plans.front().id,
                  reports::format_bytes(memory_bytes),
                  largest > 0 ? fmt::format("{}, under {}", largest, largest_under) : "none fits",
                  table.text(), kWhatFits, reports::kGlossaryLine)));
  return answer;
}

namespace {

constexpr int64_t kBatch = 16;

/// Nothing is trained, so the fastest execution of the same function is taken where it is there.
RunOptions with_baseline(RunOptions options) {
  const bool fused_takes =
      std::any_of(kPrecisions.begin(), kPrecisions.end(), [&](const PrecisionName& row) {
        return reports::has_fused_kernels(row.name) && !row.needs_cuda &&
               (options.precision.empty() || options.precision == row.name);
      });
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

/// An option that stands in for a key of the definition.
struct SampleOption {
  const char* flag;
  const char* key;
  std::optional<Value> value;
  std::string sampler = {};  ///< the only sampler that it means something for; empty: any
};

std::optional<Value> given_text(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<Value>(text);
}

std::vector<SampleOption> sample_options(const Options& options) {
  return {{"--steps", "sample.ddim_steps", options.steps, "ddim"},
          {"--eta", "sample.ddim_eta", options.eta, "ddim"},
          {"--grid", "sample.grid", given_text(options.grid), "ddim"},
          {"--variance", "sample.ddpm_variance", given_text(options.variance), "ddpm"},
          {"--samples", "sample.count", options.samples}};
}

void require_of_sampler(const SampleOption& option, const std::string& sampler) {
  if (!option.value || option.sampler.empty() || option.sampler == sampler) return;
  const auto* text = std::get_if<std::string>(&*option.value);
  throw bad_input(option.flag, text == nullptr ? value_text(*option.value) : *text,
                  "means nothing for " + sampler, "only with --sampler " + option.sampler);
}

/// The definition's sampling with what the options say otherwise.
SampleConfig sample_config(const Options& options, Definition definition) {
  const SampleConfig& sample = definition.sample;
  if (!options.sampler.empty()) {
    assign(*find_key("sample.sampler"), options.sampler, "--sampler", definition);
  }
  if (sample.sampler == "none") definition.sample.sampler = "ddim";
  const std::vector<SampleOption> given = sample_options(options);
  for (const SampleOption& option : given) require_of_sampler(option, sample.sampler);
  for (const SampleOption& option : given) {
    if (option.value) assign(*find_key(option.key), *option.value, option.flag, definition);
  }
  // A sampler that cannot be is found before anything is read.
  (void)sampler_steps(sample, DiffusionProcess(definition.diffusion, at::kCPU));
  return sample;
}

void take_noise(const Options& given, SamplingPassOptions& options) {
  if (given.noise.empty()) return;
  const ModelConfig& model = options.spec.definition.model;
  options.noise_file = given.noise;
  options.initial_noise = read_initial_noise(options.noise_file, model.channels, model.resolution);
  const int64_t there = options.initial_noise.size(0);
  if (!given.samples) options.sample.count = there;
  if (options.sample.count > there) {
    throw bad_input("--samples", "", std::to_string(options.sample.count),
                    fmt::format("at most {}, what --noise holds", there));
  }
}

std::string required(const std::string& flag, const std::string& value,
                     const std::string& accepted) {
  if (value.empty()) throw bad_input(flag, "", "nothing given", accepted);
  return value;
}

SamplingPassOptions pass_options(const Options& given, const PlannedRun& plan) {
  SamplingPassOptions options;
  options.weights =
      required("--weights", given.weights, "a file of weights, or the folder of a run");
  options.out = required("--out", given.run.out, "a new folder");
  options.kind = given.weights_kind;
  options.seed = plan.seed;
  options.spec = plan.spec;
  options.batch = given.batch.value_or(kBatch);
  options.sample = sample_config(given, plan.spec.definition);
  require_picture_channels(plan.spec.definition);
  set_patch_mode(given.patch_mode, options.patches);
  static_assert(PatchOptions{}.warmup == 4, "the help of --patch-warmup says so");
  options.patches.warmup = given.patch_warmup.value_or(options.patches.warmup);
  take_noise(given, options);
  return options;
}

/// A folder that was made for samples goes again where there are none.
template <typename Action>
void into_folder(const std::filesystem::path& folder, bool force, const Action& action) {
  const bool was_there = std::filesystem::exists(folder);
  const reports::FolderLock lock(folder);
  prepare_sampling_folder(folder, force);
  try {
    action();
  } catch (...) {
    std::error_code none;
    if (!was_there) std::filesystem::remove(folder, none);  // removes it only where it is empty
    throw;
  }
}

/// Other ranks than rank 0 draw, and leave no trace.
Answer draw(const CommandLine& line, const PlannedRun& plan, const std::shared_ptr<Group>& group) {
  SamplingPassOptions pass = pass_options(line.options, plan);
  pass.group = group;
  configure_process(plan.spec);
  const InterruptGuard interrupt;
  const bool writes = !group || group->rank().rank == 0;
  Progress progress(writes ? plan.id : "", 1, 1);
  std::optional<PatchRecord> patches;
  const auto draw_all = [&] { patches = sampling_pass(pass, {progress, interrupt}); };
  try {
    if (!writes) {
      draw_all();
      return {};
    }
    into_folder(pass.out, line.options.run.force, draw_all);
  } catch (const Interrupted& error) {
    throw Error(ExitCode::kInterrupted, error.what());
  }
  Answer answer;
  answer.text = fmt::format("{} of {}: {}\n", reports::format_counted(pass.sample.count, "sample"),
                            plan.id, (pass.out / "sheet.png").string());
  if (patches) answer.text += patch_text(*patches);
  return answer;
}

/// Throws Error for what says nothing of a picture that one process draws.
void require_no_patches(const Options& given) {
  const std::string accepted = "only with --patch-parallel of at least 2";
  if (!given.patch_mode.empty()) throw bad_input("--patch-mode", "", given.patch_mode, accepted);
  if (!given.patch_warmup) return;
  throw bad_input("--patch-warmup", "", std::to_string(*given.patch_warmup), accepted);
}

RunOptions options_of_patches(RunOptions options, const Rank& rank) {
  if (options.ranks == rank.ranks) return options;
  throw bad_input("--patch-parallel", "", std::to_string(options.ranks),
                  fmt::format("{}, the ranks that were started", rank.ranks));
}

void require_patches_possible(const Options& options, const PlannedRun& plan) {
  require_equal_bands(options.patch_parallel, plan.spec.definition.model);
  if (!plan.spec.device.is_cuda()) return;
  throw bad_input("--patch-parallel", "", fmt::format("{} on a GPU", options.patch_parallel),
                  "--device cpu");
}

}  // namespace

Answer sample_images(const CommandLine& line) {
  RunOptions options = run_options(line);
  options.ranks = line.options.patch_parallel;
  if (options.ranks == 1) {
    require_no_patches(line.options);
    return draw(line, plan_of(options), nullptr);
  }
  const std::optional<Rank> rank = own_rank();
  if (rank) options = options_of_patches(options, *rank);
  const PlannedRun plan = plan_of(options);
  require_patches_possible(line.options, plan);
  if (!rank) {
    (void)pass_options(line.options, plan);  // refuses here, and once, what it refuses
    return {"", launch_ranks(line.argv, options.ranks, options.timeout_s)};
  }
  Answer answer;
  answer.code =
      as_rank(*rank, plan.spec.device, options.timeout_s, [&](const std::shared_ptr<Group>& group) {
        answer = draw(line, plan, group);
        return answer.code;
      });
  return answer;
}

}  // namespace noisemark::suite
