#include "suite/run/spec/options.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "memopt/modes/mode_grammar.h"
#include "reports/base/error.h"
#include "reports/seeds/study.h"
#include "suite/config/definition.h"
#include "suite/parallel/gradient_reducer.h"
#include "suite/train/pipeline.h"

namespace noisemark::suite {
namespace {

using Texts = std::vector<std::string>;

static_assert(reports::kDefaultLooks == 2, "the help says 2");
constexpr const char* kNewFolder = "a new folder in $NOISEMARK_OUT or noisemark-out/";

std::string flag_of(const Option& option) {
  return fmt::format("--{}", option.name);
}

template <class Number>
Number read_number(const Option& option, const std::string& text, std::string_view kind) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  bool accepted = error == std::errc{} && stop == end;
  if constexpr (std::is_floating_point_v<Number>) accepted = accepted && std::isfinite(number);
  if (!accepted || static_cast<double>(number) < option.min) {
    throw bad_input(flag_of(option), "", text, fmt::format("{} of at least {}", kind, option.min));
  }
  return number;
}

int64_t read_integer(const Option& option, const std::string& text) {
  return read_number<int64_t>(option, text, "an integer");
}

double read_real(const Option& option, const std::string& text) {
  return read_number<double>(option, text, "a finite number");
}

int64_t read_size(const Option& option, const std::string& text) {
  const std::optional<int64_t> bytes = memopt::parse_bytes(text);
  if (!bytes) throw bad_input(flag_of(option), "", text, std::string(memopt::kSizeForms));
  return *bytes;
}

std::string spelled(int64_t value) {
  return std::to_string(value);
}
std::string spelled(uint64_t value) {
  return std::to_string(value);
}
std::string spelled(double value) {
  return fmt::format("{}", value);
}

template <class Value>
Texts spelled(const std::optional<Value>& value) {
  return value ? Texts{spelled(*value)} : Texts{};
}

/// One overload for each kind of member.
struct Assigner {
  const Option& option;
  const Texts& values;

  void operator()(bool* member) const { *member = !*member; }
  void operator()(std::string* member) const { *member = values.front(); }
  void operator()(Texts* member) const { *member = values; }
  void operator()(int64_t* member) const { *member = read_integer(option, values.front()); }
  void operator()(double* member) const { *member = read_real(option, values.front()); }
  void operator()(std::optional<int64_t>* member) const {
    *member = read_integer(option, values.front());
  }
  void operator()(std::optional<uint64_t>* member) const {
    *member = static_cast<uint64_t>(read_integer(option, values.front()));
  }
  void operator()(std::optional<double>* member) const {
    *member = read_real(option, values.front());
  }
  void operator()(SizeMember member) const { *member.bytes = read_size(option, values.front()); }
};

struct Speller {
  Texts operator()(const bool* member) const { return {*member ? "true" : "false"}; }
  Texts operator()(const std::string* member) const {
    return member->empty() ? Texts{} : Texts{*member};
  }
  Texts operator()(const Texts* member) const { return *member; }
  Texts operator()(const int64_t* member) const { return {spelled(*member)}; }
  Texts operator()(const double* member) const { return {spelled(*member)}; }
  Texts operator()(const std::optional<int64_t>* member) const { return spelled(*member); }
  Texts operator()(const std::optional<uint64_t>* member) const { return spelled(*member); }
  Texts operator()(const std::optional<double>* member) const { return spelled(*member); }
  Texts operator()(SizeMember member) const { return spelled(*member.bytes); }
};

}  // namespace

void assign_option(const BoundOption& bound, const Texts& values) {
  std::visit(Assigner{*bound.option, values}, bound.member);
}

Texts option_values(const OptionMember& member) {
  return std::visit(Speller{}, member);
}

std::vector<SpelledOption> spell_options(const std::vector<BoundOption>& given,
                                         const std::vector<BoundOption>& defaults) {
  std::vector<SpelledOption> spelled;
  for (size_t i = 0; i < given.size(); ++i) {
    const Texts values = option_values(given[i].member);
    if (values == option_values(defaults[i].member)) continue;
    const std::string flag = flag_of(*given[i].option);
    if (std::holds_alternative<bool*>(given[i].member)) {
      spelled.push_back({flag, ""});
    } else {
      for (const std::string& value : values) spelled.push_back({flag, value});
    }
  }
  return spelled;
}

namespace {

using namespace command;

constexpr uint32_t kTrained = kRun | kSweep | kPredict;
/// They start `noisemark pace`, so they take what it takes.
constexpr uint32_t kPaced = kPace | kAb | kCalibrate;
constexpr uint32_t kExecuted = kTrained | kProfile | kPlan | kFit | kSample | kPaced;

template <auto kMember>
constexpr auto at = &option_member<kMember, RunOptions>;

OptionMember fit_memory(RunOptions& options) {
  return SizeMember{&options.fit_memory_bytes};
}

constexpr std::array kRows{
    OptionRow<RunOptions>{{kRun, "mode", "M", "memory mode",
                           "none; in a suite, the modes of each benchmark", 0, true},
                          at<&RunOptions::modes>},
    OptionRow<RunOptions>{{kFit | kPredict, "mode", "M", "memory mode", "none", 0, true},
                          at<&RunOptions::modes>},
    OptionRow<RunOptions>{{kSweep | kProfile | kPaced, "mode", "M", "memory mode", "none"},
                          at<&RunOptions::modes>},
    OptionRow<RunOptions>{{kRun | kFit, "baseline", "B",
                           "how operators are executed: names joined by +", "plain", 0, true},
                          at<&RunOptions::baselines>},
    OptionRow<RunOptions>{{kSweep | kPredict | kProfile | kPaced, "baseline", "B",
                           "how operators are executed: names joined by +", "plain"},
                          at<&RunOptions::baselines>},
    OptionRow<RunOptions>{
        {kSample, "baseline", "B", "how operators are executed: names joined by +",
         "fused+channels-last on the CPU in fp32 or bf16"},
        at<&RunOptions::baselines>},
    OptionRow<RunOptions>{
        {kExecuted, "precision", "P", "types in which it computes", kPrecisions.front().name, 0,
         false, [] { return names_in(kPrecisions); }},
        at<&RunOptions::precision>},
    OptionRow<RunOptions>{
        {kExecuted | kFid | kEnv, "device", "D", "cpu, cuda or cuda:N", "cuda where there is one"},
        at<&RunOptions::device>},
    OptionRow<RunOptions>{
        {kExecuted, "seed", "N", "seed of every random stream", "the definition's"},
        at<&RunOptions::seed>},
    OptionRow<RunOptions>{
        {kRun, "seeds", "N", "number of seeds to run, from --seed on, for `noisemark quality`", "",
         1},
        at<&RunOptions::seeds>},
    OptionRow<RunOptions>{
        {kRun, "looks", "K", "how often modes may be judged while seeds are added", "2", 1},
        at<&RunOptions::looks>},
    OptionRow<RunOptions>{{kExecuted, "threads", "N",
                           "threads of LibTorch on the CPU, at most the machine's processors",
                           "LibTorch's own choice", 1},
                          at<&RunOptions::threads>},
    OptionRow<RunOptions>{
        {kRun, "ranks", "N",
         "processes on this machine that train together, each on its share of "
         "the batch or, with --pipeline, with a part of the network; on GPUs one for each",
         "", 1},
        at<&RunOptions::ranks>},
    OptionRow<RunOptions>{{kRun | kSweep, "reduce", "HOW",
                           "how ranks exchange gradients; bf16 rounds them, to be judged by "
                           "`noisemark quality`",
                           "exact", 0, false, reductions},
                          at<&RunOptions::reduce>},
    OptionRow<RunOptions>{
        {kRun | kSweep, "shard-optimizer", "",
         "keep the optimizer's state and the average in shares, one on each rank"},
        at<&RunOptions::shard_optimizer>},
    OptionRow<RunOptions>{
        {kRun | kSweep, "pipeline", "SCHEDULE",
         "divide the network among the ranks, which then work on micro-batches of the same batch",
         "none", 0, false, pipeline_schedules},
        at<&RunOptions::pipeline>},
    OptionRow<RunOptions>{
        {kRun | kSweep, "micro-batches", "M", "micro-batches into which a pipeline divides a batch",
         "the largest divisor of the batch that is at most four for each rank", 1},
        at<&RunOptions::micro_batches>},
    OptionRow<RunOptions>{{kRun | kSweep | kSample, "timeout", "S",
                           "seconds within which all ranks end when one is lost", "", 1},
                          at<&RunOptions::timeout_s>},
    OptionRow<RunOptions>{{kTrained | kProfile | kPaced, "loader-threads", "N",
                           "threads that make batches ahead; the data stay the same", "", 1},
                          at<&RunOptions::loader_threads>},
    OptionRow<RunOptions>{{kTrained | kProfile | kPlan | kFit | kPaced | kFid, "data", "DIR",
                           "folder of the images", "$NOISEMARK_DATA"},
                          at<&RunOptions::data>},
    OptionRow<RunOptions>{{kRun, "out", "DIR", "folder for the result", kNewFolder},
                          at<&RunOptions::out>},
    OptionRow<RunOptions>{{kSweep | kPredict, "out", "DIR", "folder for the cells", kNewFolder},
                          at<&RunOptions::out>},
    OptionRow<RunOptions>{
        {kProfile, "out", "DIR", "folder for the page, the figures and the trace", kNewFolder},
        at<&RunOptions::out>},
    OptionRow<RunOptions>{{kPlan, "out", "DIR", "folder for a plot of the Pareto curve", "no plot"},
                          at<&RunOptions::out>},
    OptionRow<RunOptions>{{kSample, "out", "DIR", "new folder for the samples; required"},
                          at<&RunOptions::out>},
    OptionRow<RunOptions>{
        {kRun, "shard", "K/N",
         "make only part K of N of several runs, on one of N machines; report, quality, table and "
         "compare take the folders of all parts together",
         "all of them"},
        at<&RunOptions::shard>},
    OptionRow<RunOptions>{
        {kTrained, "force", "",
         "replace another run in the output folder, once this one has made all its steps"},
        at<&RunOptions::force>},
    OptionRow<RunOptions>{{kProfile, "force", "", "replace a profile in the output folder"},
                          at<&RunOptions::force>},
    OptionRow<RunOptions>{{kSample, "force", "", "replace the samples in the output folder"},
                          at<&RunOptions::force>},
    OptionRow<RunOptions>{{kExecuted, "set", "KEY=VALUE",
                           "change a key of the definition; the run is then custom", "", 0, true},
                          at<&RunOptions::sets>},
    OptionRow<RunOptions>{{kTrained | kProfile | kPlan | kFit | kPaced, "init-weights", "FILE",
                           "safetensors file to start from, under the peers' names"},
                          at<&RunOptions::init_weights>},
    OptionRow<RunOptions>{{kTrained, "checkpoint-every", "N",
                           "write a checkpoint every N steps and after the last", "never", 1},
                          at<&RunOptions::checkpoint_every>},
    OptionRow<RunOptions>{
        {kRun, "resume", "",
         "continue the run in --out from its checkpoint; a finished run stays as it is"},
        at<&RunOptions::resume>},
    OptionRow<RunOptions>{
        {kSweep | kPredict, "resume", "", "continue in --out; what is finished stays as it is"},
        at<&RunOptions::resume>},
    OptionRow<RunOptions>{
        {kTrained | kProfile | kPaced, "deterministic", "", "use deterministic algorithms only"},
        at<&RunOptions::deterministic>},
    OptionRow<RunOptions>{{kRun | kSweep, "no-memory", "", "leave out the memory pass"},
                          at<&RunOptions::memory>},
    OptionRow<RunOptions>{
        {kTrained, "memory-snapshot", "",
         "keep a watched step as memory_snapshot.pickle, for PyTorch's memory viewer"},
        at<&RunOptions::memory_snapshot>},
    OptionRow<RunOptions>{{kTrained, "no-profile", "", "leave out the profile pass"},
                          at<&RunOptions::profile>},
    OptionRow<RunOptions>{
        {kTrained, "no-certificate", "",
         "do not train a memory mode beside none, so that there is no certificate and no overhead"},
        at<&RunOptions::certificate>},
    OptionRow<RunOptions>{{kRun | kSweep, "fit-memory", "SIZE",
                           "find the largest batch whose steady step takes at most SIZE"},
                          fit_memory},
    OptionRow<RunOptions>{
        {kPace, "slow-down", "FRAC", "a control: every step takes 1 + FRAC as long"},
        at<&RunOptions::slow_down_frac>},
};

}  // namespace

std::span<const OptionRow<RunOptions>> run_option_rows() {
  return kRows;
}

std::vector<SpelledOption> spell_run_options(const RunOptions& options, uint32_t command) {
  RunOptions given = options;
  RunOptions defaults;
  std::vector<BoundOption> bound_given;
  std::vector<BoundOption> bound_defaults;
  bind_options(run_option_rows(), command, given, bound_given);
  bind_options(run_option_rows(), command, defaults, bound_defaults);
  return spell_options(bound_given, bound_defaults);
}

}  // namespace noisemark::suite
