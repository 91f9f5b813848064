#include "suite/run/run.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "memopt/device/device_clock.h"
#include "reports/base/file.h"
#include "reports/base/folder.h"
#include "reports/base/statistics.h"
#include "reports/base/streams.h"
#include "reports/html/page.h"
#include "reports/profile/limit.h"
#include "reports/profile/profile.h"
#include "reports/profile/recording.h"
#include "reports/render/plot.h"
#include "suite/config/lock.h"
#include "suite/environment/environment.h"
#include "suite/probes/flop_counter.h"
#include "suite/probes/memory_probe.h"
#include "suite/probes/peaks.h"
#include "suite/probes/step_recorder.h"
#include "suite/probes/work_recorder.h"
#include "suite/run/folder/output_folder.h"
#include "suite/run/passes/memory_pass.h"
#include "suite/run/passes/owners.h"
#include "suite/run/passes/session.h"
#include "suite/run/passes/watch.h"
#include "suite/run/spec/plan.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPage = "profile.md";
constexpr const char* kTrace = "trace.json.gz";
constexpr const char* kPlainTrace = "trace.json";
constexpr const char* kTimeline = "memory_timeline.json";
constexpr const char* kHtml = "profile.html";
constexpr std::array kFiles{kPage,  reports::kProfileFile, kTrace, kPlainTrace, kTimeline, kHtml,
                            "plots"};

constexpr int64_t kWarmup = 3;
constexpr int64_t kFewestPairs = 5;
constexpr int64_t kMostPairs = 50;
constexpr double kPairsSeconds = 5;
constexpr double kPeakSeconds = 0.5;  ///< time for each type of products and for memory

void prepare_folder(const fs::path& out, bool force) {
  reports::remove_leftovers(out, kFiles);
  for (const fs::directory_entry& entry : reports::read_folder(out)) {
    const std::string name = entry.path().filename().string();
    if (force && std::find(kFiles.begin(), kFiles.end(), name) != kFiles.end()) continue;
    throw bad_input("--out", out.string(), "is not an empty folder",
                    "a new or empty folder; --force replaces a profile");
  }
}

std::vector<int64_t> sampling_batches(const std::string& text) {
  std::vector<int64_t> batches;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int64_t batch = 0;
    const auto [stop, error] = std::from_chars(at, end, batch);
    const bool whole = error == std::errc{} && (stop == end || (*stop == ',' && stop + 1 != end));
    if (!whole || batch < 1) {
      throw bad_input("--sampling", "", text, "integers of at least 1, joined by commas");
    }
    batches.push_back(batch);
    at = stop == end ? end : stop + 1;
  }
  return batches;
}

struct Peaks {
  std::vector<reports::ProductPeak> products;
  std::vector<reports::MemoryPeak> memory;
};

bool is_of_same_kind(const reports::ProductPeak& a, const reports::ProductPeak& b) {
  return a.type == b.type && a.threads == b.threads;
}
bool is_of_same_kind(const reports::MemoryPeak& a, const reports::MemoryPeak& b) {
  return a.working_set_bytes == b.working_set_bytes && a.threads == b.threads;
}

/// Adds a peak, or keeps the faster where it was measured before.
template <class Peak>
void keep_faster(std::vector<Peak>& peaks, Peak found, double Peak::*speed) {
  const auto known = std::find_if(peaks.begin(), peaks.end(),
                                  [&](const Peak& one) { return is_of_same_kind(one, found); });
  if (known == peaks.end()) {
    peaks.push_back(std::move(found));
  } else if (found.*speed > (*known).*speed) {
    *known = std::move(found);
  }
}

/// Adds what the machine reaches with the threads in force, in every type that the work computes
/// in.
void add_peaks(c10::Device device, const reports::StepWork& work, Peaks& peaks) {
  constexpr std::array kTypes = {
      std::pair{"float32", at::kFloat}, std::pair{"bfloat16", at::kBFloat16},
      std::pair{"float16", at::kHalf}, std::pair{"float64", at::kDouble}};
  for (const auto& [name, type] : kTypes) {
    const bool is_used = std::any_of(work.begin(), work.end(), [&](const auto& calls) {
      return std::any_of(calls.begin(), calls.end(), [&](const reports::OperatorWork& call) {
        return call.type == name && find_flop_formula(call.name) != nullptr;
      });
    });
    if (!is_used) continue;
    const GemmPeak peak = measure_gemm_peak(device, type, kPeakSeconds);
    keep_faster(peaks.products,
                {name, at::get_num_threads(), peak.flop_per_s, gemm_peak_method(peak)},
                &reports::ProductPeak::flop_per_s);
  }
  for (const reports::MemoryPeak& peak : measure_memory_peaks(device, kPeakSeconds)) {
    keep_faster(peaks.memory, peak, &reports::MemoryPeak::bytes_per_s);
  }
}

/// Measures with all threads and, on a CPU, with one too.
void measure_peaks(c10::Device device, const reports::StepWork& work, Peaks& peaks) {
  add_peaks(device, work, peaks);
  const int threads = at::get_num_threads();
  if (device.is_cpu() && threads > 1) {
    at::set_num_threads(1);
    add_peaks(device, work, peaks);
    at::set_num_threads(threads);
  }
}

/// One benchmark's steps, under the profiler and without it.
class ProfilePass {
 public:
  ProfilePass(const SessionOptions& options, const ProfileWishes& wishes, const PassWatch& watch)
      : options_(options),
        wishes_(wishes),
        watch_(watch),
        session_(make_session(options_)),
        clock_(memopt::make_device_clock(options.spec.device)),
        recorder_(session_.trainer->model(), {options.spec.device, wishes.shapes}) {}

  reports::Profile make(const fs::path& out) {
    reports::Profile profile;
    name_owners_when_full(*session_.trainer, [&] { measure(out, profile); });
    return profile;
  }

  /// The timeline of the last step is empty where owners are not known.
  [[nodiscard]] const reports::MemoryTimeline& timeline() const { return timeline_; }

 private:
  void step(const std::string& doing, const std::vector<StepObserver*>& observers = {},
            memopt::SavedTensorSink* sink = nullptr) {
    const int64_t next = session_.trainer->next_step();
    watch_.before_step(doing, next, next + 1);
    (void)session_.trainer->step(observers, sink);
  }

  double timed_step(bool profiled) {
    if (profiled) recorder_.start();
    clock_->synchronize();
    clock_->clear();
    const auto begin = clock_->mark();
    step("profiler's cost",
         profiled ? std::vector<StepObserver*>{&recorder_} : std::vector<StepObserver*>{});
    const auto end = clock_->mark();
    clock_->synchronize();
    const double step_s = clock_->seconds_between(begin, end);
    if (profiled) (void)recorder_.stop();
    return step_s;
  }

  /// Measures in turns ABBA, so that a machine that slows down meets both alike.
  reports::ProfilerCost measure_cost() {
    const double first_s = timed_step(true) + timed_step(false);
    const auto wanted = static_cast<int64_t>(kPairsSeconds / first_s);
    reports::ProfilerCost cost;
    cost.pairs = std::clamp(wanted, kFewestPairs, kMostPairs);
    std::vector<double> plain;
    std::vector<double> profiled;
    std::vector<double> ratios;
    for (int64_t i = 0; i < cost.pairs; ++i) {
      const bool profiled_first = i % 2 == 0;
      const double first = timed_step(profiled_first);
      const double second = timed_step(!profiled_first);
      profiled.push_back(profiled_first ? first : second);
      plain.push_back(profiled_first ? second : first);
      ratios.push_back(profiled.back() / plain.back());
    }
    cost.plain_s = reports::median(plain);
    cost.profiled_s = reports::median(profiled);
    cost.ratio = reports::median(ratios);
    return cost;
  }

  memopt::AllocationRecord watch_owners() {
    Trainer& trainer = *session_.trainer;
    MemoryProbe probe(
        *session_.mode, [&trainer] { return owner_roots(trainer); }, options_.spec.device);
    probe.arm(trainer.next_step());
    step("owners of memory", {&probe}, &probe.sink());
    (void)probe.section();
    return probe.record();
  }

  /// The most activations are those of the owners of memory, where they are known.
  void characterize_training(const reports::StepWork& work,
                             const std::vector<reports::MemoryCounter>& counters,
                             const reports::Recording& recording, reports::Profile& profile) {
    reports::Characterization& network = profile.characterization;
    for (const auto& [name, parameter] : session_.trainer->parameters()) {
      network.parameters += parameter.numel();
      network.weight_bytes += static_cast<int64_t>(parameter.nbytes());
    }
    reports::Workload training;
    training.name = "training";
    training.batch = options_.spec.definition.train.batch;
    training.time_s = reports::mean_step_s(recording);
    training.activation_bytes =
        reports::most_bytes_of(counters, memopt::owner_name(memopt::Owner::kActivations));
    if (!training.activation_bytes) training.activation_missing = profile.counters_missing;
    reports::add_work(work, training);
    reports::add_classes(profile.operators, training);
    network.workloads.push_back(std::move(training));
  }

  /// An evaluation of the network as samplers make it, on noise.
  reports::Workload profile_sampling(int64_t batch) {
    const TrainerOptions& how = session_.trainer->options();
    const ModelConfig& network = options_.spec.definition.model;
    const c10::InferenceMode no_gradients;
    const EvaluationModeGuard evaluation_mode(session_.trainer->model());
    const AutocastGuard autocast(how.precision, how.device);
    const at::Tensor x =
        at::randn({batch, network.channels, network.resolution, network.resolution},
                  at::TensorOptions(how.precision.weights).device(how.device))
            .contiguous(how.channels_last ? at::MemoryFormat::ChannelsLast
                                          : at::MemoryFormat::Contiguous);
    const at::Tensor t = at::full({batch}, options_.spec.definition.diffusion.timesteps / 2,
                                  at::TensorOptions(at::kLong).device(how.device));
    const auto evaluate = [&](StepObserver& observer) {
      watch_.before_step(fmt::format("sampling at batch {}", batch), 0, 1);
      observer.on_step_begin(0);
      (void)session_.trainer->model().forward(x, t);
      observer.on_step_end(0);
    };
    WorkRecorder work;
    evaluate(work);
    recorder_.start();
    for (int64_t i = 0; i < wishes_.steps; ++i) evaluate(recorder_);
    clock_->synchronize();
    const reports::Recording recording = recorder_.stop();
    reports::Profile tables;
    reports::add_tables(recording, tables);
    reports::Workload sampling;
    sampling.name = "sampling";
    sampling.batch = batch;
    sampling.time_s = reports::mean_step_s(recording);
    sampling.activation_bytes = reports::most_live_bytes(recording);
    reports::add_work(work.work(), sampling);
    reports::add_classes(tables.operators, sampling);
    return sampling;
  }

  /// An operator above its roof shows a peak that other work on the machine held down, so peaks are
  /// measured again.
  reports::Roofline measure_roofline(const reports::Recording& recording,
                                     const reports::StepWork& work) const {
    Peaks peaks;
    reports::Roofline roofline;
    for (int round = 0; round < reports::kMostPeakRounds; ++round) {
      watch_.before_step("peaks of the machine", 0, 1);
      measure_peaks(options_.spec.device, work, peaks);
      roofline = reports::make_roofline(recording, work, peaks.products, peaks.memory);
      if (reports::above_roof(roofline).empty()) break;
    }
    return roofline;
  }

  void measure(const fs::path& out, reports::Profile& profile) {
    for (int64_t i = 0; i < kWarmup + options_.spec.mode.forwards_until_steady; ++i) {
      step("warm-up");
    }
    profile.cost = measure_cost();
    const memopt::AllocationRecord watched = watch_owners();
    recorder_.start();
    for (int64_t i = 0; i < wishes_.steps; ++i) step("profile", {&recorder_});
    clock_->synchronize();
    const fs::path plain = out / kPlainTrace;
    const reports::Recording recording = recorder_.stop(plain.string());
    std::vector<reports::MemoryCounter> counters;
    try {
      counters = memory_counters(recording, watched);
    } catch (const Error& error) {
      profile.counters_missing = error.what();
    }
    profile.counters = static_cast<int64_t>(counters.size());
    timeline_ = reports::memory_timeline(recording, counters);
    const reports::TraceSizes sizes =
        reports::pack_trace(plain, out / kTrace, counters, ::getpid());
    fs::remove(plain);
    profile.trace = kTrace;
    profile.trace_bytes = sizes.packed_bytes;
    profile.trace_plain_bytes = sizes.plain_bytes;
    profile.steps = recording.steps;
    reports::add_tables(recording, profile);
    WorkRecorder recorder;
    step("work of operators", {&recorder});
    reports::StepWork work;
    try {
      work = recorder.work();
      profile.roofline = measure_roofline(recording, work);
    } catch (const Error& error) {
      profile.roofline.missing = error.what();
    }
    characterize_training(work, counters, recording, profile);
    for (const int64_t batch : sampling_batches(wishes_.sampling)) {
      profile.characterization.workloads.push_back(profile_sampling(batch));
    }
  }

  SessionOptions options_;
  ProfileWishes wishes_;
  const PassWatch& watch_;
  Session session_;
  std::unique_ptr<memopt::DeviceClock> clock_;
  StepRecorder recorder_;
  reports::MemoryTimeline timeline_;
};

/// Draws what is known, writes the timeline where owners are, and keeps nothing of an earlier
/// profile.
reports::Plots write_plots_of(const fs::path& out, const reports::Profile& profile,
                              const reports::MemoryTimeline& timeline) {
  fs::remove(out / kTimeline);
  fs::remove_all(out / "plots");
  std::vector<reports::PlotSource> plots;
  if (auto roofline = reports::roofline_plot(profile.roofline)) {
    plots.push_back(std::move(*roofline));
  }
  if (timeline.points.size() > 1) {
    reports::write_file_atomically(out / kTimeline, reports::memory_timeline_json(timeline));
    plots.push_back(reports::memory_plot(reports::section_of(timeline)));
  }
  return plots.empty() ? reports::Plots{} : reports::write_plots(out, plots);
}

/// Returns what a run of the same options would say of itself.
reports::Strings work_of_run(const PlannedRun& plan, const SessionOptions& session) {
  reports::Result run;
  run.identity = identity_of(plan, *session.dataset);
  run.definition = canonical_json(plan.spec.definition);
  describe_machine(plan.spec.device, run);
  run.protocol.deterministic = plan.spec.deterministic;
  run.protocol.loader_threads = session.loader_threads;
  return reports::work_of(run);
}

void describe(const PlannedRun& plan, const ProfileWishes& wishes, reports::Profile& profile) {
  const RunSpec& spec = plan.spec;
  profile.benchmark = plan.id;
  profile.mode = spec.mode.name;
  profile.baseline = spec.baseline.name;
  profile.precision = spec.precision.name;
  profile.device = memopt::device_model(spec.device);
  profile.custom = spec.definition.custom;
  profile.threads = spec.threads;
  profile.batch = spec.definition.train.batch;
  profile.shapes = wishes.shapes;
}

RunOptions with_batch(RunOptions options, const ProfileWishes& wishes) {
  if (wishes.batch) options.sets.push_back(fmt::format("train.batch={}", *wishes.batch));
  return options;
}

}  // namespace

ExitCode run_profile(const RunOptions& given, const ProfileWishes& wishes) {
  require_benchmark("profile", given.id);
  const RunOptions options = with_batch(given, wishes);
  (void)sampling_batches(wishes.sampling);
  const PlannedRun plan = plan_runs(options).front();
  if (plan.spec.baseline.execution.cuda_graph) {
    throw bad_input("--baseline", "", plan.spec.baseline.name,
                    "one whose steps the host issues: a recording has no operators");
  }
  tell_of_unused_gpu(options, plan.spec.device);
  std::optional<FreshFolder> fresh;
  if (options.out.empty()) {
    fresh.emplace(options.out_parent, fs::path(options.id).stem().string() + "-profile");
  }
  const fs::path out = fresh ? fresh->path() : fs::path(options.out);
  const reports::FolderLock lock(out);
  prepare_folder(out, options.force);
  configure_process(plan.spec);
  SessionOptions session = session_options(options, plan);
  session.spec.definition.train.steps = std::numeric_limits<int32_t>::max();
  const InterruptGuard interrupt;
  Progress line(plan.id + " " + variant_label(plan.spec), 1, 1);
  reports::Profile profile;
  reports::MemoryTimeline timeline;
  try {
    const PassWatch watch{line, interrupt};
    ProfilePass pass(session, wishes, watch);
    profile = pass.make(out);
    timeline = pass.timeline();
  } catch (const Interrupted& error) {
    throw Error(ExitCode::kInterrupted, error.what());
  }
  line.clear();
  describe(plan, wishes, profile);
  profile.work = work_of_run(plan, session);
  const std::string page =
      reports::profile_markdown(profile, write_plots_of(out, profile, timeline));
  reports::write_file_atomically(out / kPage, page);
  reports::write_file_atomically(out / reports::kProfileFile, reports::profile_json(profile));
  fs::remove(out / kHtml);
  if (wishes.html) (void)reports::write_html_beside(out / kPage);
  reports::print_out(page + fmt::format("\nProfile: {}\n", (out / kPage).string()));
  return ExitCode::kPass;
}

}  // namespace noisemark::suite
