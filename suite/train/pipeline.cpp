#include "suite/train/pipeline.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

#include "memopt/accounting/tracking_allocator.h"
#include "reports/base/error.h"
#include "suite/models/layers.h"
#include "suite/parallel/messages.h"

namespace noisemark::suite {
namespace {

constexpr std::string_view kSchedules[] = {"none", "gpipe", "1f1b"};

/// The layout of a value, but for the number of its samples.
struct Layout {
  std::vector<int64_t> sizes;
  at::TensorOptions options;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;

  [[nodiscard]] int64_t bytes() const {
    int64_t all = static_cast<int64_t>(options.dtype().itemsize());
    for (const int64_t size : sizes) all *= size;
    return all;
  }
};

Layout layout_of(const at::Tensor& value) {
  return {value.sizes().vec(), value.options(), value.suggest_memory_format()};
}

enum class Kind { kHidden, kTime, kSkip };

/// A skip connection: the parts that put it on the stack and take it.
struct Skip {
  size_t giver = 0;
  size_t taker = 0;
  Layout layout;
};

/// One pass by all parts.
struct Trace {
  std::vector<double> part_s;  ///< forward and backward
  std::vector<Layout> hidden;  ///< layout after each part
  Layout time;
  std::vector<Skip> skips;  ///< skips in the order in which they were put on the stack
};

at::Tensor leaf(const at::Tensor& value) {
  return value.detach().requires_grad_();
}

/// Runs each part with its backward pass, cut off from the others.
class Tracer {
 public:
  Tracer(Denoiser& model, const at::Tensor& x) : parts_(model.parts()) {
    flow_ = {x, at::zeros({x.size(0)}, x.options().dtype(at::kLong)), {}, {}};
  }

  Trace run() {
    for (size_t part = 0; part < parts_.size(); ++part) run(part);
    return std::move(trace_);
  }

 private:
  void run(size_t part) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<at::Tensor> before = flow_.skips;
    parts_[part].run(flow_);
    std::vector<at::Tensor> results{flow_.h};
    if (part == 0) results.push_back(flow_.time);
    const size_t common = note_skips(part, before);
    std::vector<at::Tensor> ones;
    for (const at::Tensor& result : results) ones.push_back(at::ones_like(result));
    torch::autograd::backward(results, ones);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    trace_.part_s.push_back(taken.count());
    trace_.hidden.push_back(layout_of(flow_.h));
    if (part == 0) trace_.time = layout_of(flow_.time);
    flow_.h = leaf(flow_.h);
    flow_.time = leaf(flow_.time);
    for (size_t s = common; s < flow_.skips.size(); ++s) flow_.skips[s] = leaf(flow_.skips[s]);
  }

  /// Returns how many of the stack's tensors the part left alone.
  size_t note_skips(size_t part, const std::vector<at::Tensor>& before) {
    size_t common = 0;
    while (common < std::min(before.size(), flow_.skips.size()) &&
           before[common].is_same(flow_.skips[common])) {
      ++common;
    }
    for (size_t s = common; s < before.size(); ++s) trace_.skips[stack_[s]].taker = part;
    stack_.resize(common);
    for (size_t s = common; s < flow_.skips.size(); ++s) {
      stack_.push_back(trace_.skips.size());
      trace_.skips.push_back({part, part, layout_of(flow_.skips[s])});
    }
    return common;
  }

  const std::vector<Part>& parts_;
  Flow flow_;
  Trace trace_;
  std::vector<size_t> stack_;  ///< numbers of the skips on it
};

void release_gradients(Denoiser& model) {
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
}

/// The first round makes what libraries keep. Of the others the shortest time of each part counts.
Trace traced(Denoiser& model, const Precision& precision, const at::Tensor& x, int rounds) {
  Trace best;
  for (int round = 0; round < rounds; ++round) {
    const AutocastGuard autocast(precision, x.device());
    Trace trace = Tracer(model, x).run();
    release_gradients(model);
    if (round > 1) {
      for (size_t part = 0; part < trace.part_s.size(); ++part) {
        trace.part_s[part] = std::min(trace.part_s[part], best.part_s[part]);
      }
    }
    best = std::move(trace);
  }
  return best;
}

/// The mean over the ranks.
std::vector<double> agreed(Group& group, const std::vector<double>& part_s) {
  std::vector<double> mean(part_s.size(), 0);
  for (const std::string& text : group.exchange(fmt::format("{:.17g}", fmt::join(part_s, " ")))) {
    std::istringstream words(text);
    for (double& sum : mean) {
      double one = 0;
      words >> one;
      sum += one / static_cast<double>(group.rank().ranks);
    }
  }
  return mean;
}

/// A value that one stage gives to another.
struct Crossing {
  int64_t from = 0;
  int64_t to = 0;
  Kind kind = Kind::kHidden;
  Layout layout;
};

/// The number of the stage that has the part.
int64_t stage_of(const std::vector<size_t>& firsts, size_t part) {
  return std::upper_bound(firsts.begin(), firsts.end(), part) - firsts.begin() - 1;
}

/// Says whether a division from elsewhere is one of so many parts among so many stages.
bool divides(const Division& division, size_t parts, int64_t stages) {
  const std::vector<size_t>& firsts = division.firsts;
  return division.part_s.size() == parts && static_cast<int64_t>(firsts.size()) == stages &&
         firsts.front() == 0 && firsts.back() < parts &&
         std::adjacent_find(firsts.begin(), firsts.end(), std::greater_equal<>()) == firsts.end();
}

/// Returns the crossings in an order that is the same on all ranks; skips from the bottom of the
/// stack to its top.
std::vector<Crossing> crossings_of(const Trace& trace, const std::vector<size_t>& firsts) {
  const auto stages = static_cast<int64_t>(firsts.size());
  std::vector<Crossing> all;
  for (int64_t stage = 1; stage < stages; ++stage) {
    all.push_back(
        {stage - 1, stage, Kind::kHidden, trace.hidden[firsts[static_cast<size_t>(stage)] - 1]});
    all.push_back({0, stage, Kind::kTime, trace.time});
  }
  for (const Skip& skip : trace.skips) {
    const int64_t from = stage_of(firsts, skip.giver);
    const int64_t to = stage_of(firsts, skip.taker);
    if (from != to) all.push_back({from, to, Kind::kSkip, skip.layout});
  }
  return all;
}

/// Belongs to the owner "communication", so that what it came from can go.
at::Tensor on_the_way(const Layout& layout) {
  const memopt::OwnerScope owner(memopt::Owner::kCommunication);
  return at::empty(layout.sizes, layout.options.memory_format(layout.format));
}

at::Tensor copied(const at::Tensor& value, const Layout& layout) {
  const at::NoGradGuard no_grad;
  at::Tensor copy = on_the_way(layout);
  return value.defined() ? copy.copy_(value.detach()) : copy.zero_();
}

at::Tensor state_of_generator() {
  const memopt::OwnerScope owner(memopt::Owner::kCommunication);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_state_of_generator(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

std::vector<std::string> pipeline_schedules() {
  return {std::begin(kSchedules), std::end(kSchedules)};
}

PipelineSchedule pipeline_schedule_of(const std::string& word) {
  return word == kSchedules[1] ? PipelineSchedule::kGpipe : PipelineSchedule::k1F1B;
}

int64_t passes_together(PipelineSchedule schedule, int64_t stage, int64_t stages,
                        int64_t micro_batches) {
  return schedule == PipelineSchedule::kGpipe ? micro_batches
                                              : std::min(stages - stage, micro_batches);
}

std::vector<StagePass> passes_of(int64_t together, int64_t micro_batches) {
  std::vector<StagePass> passes;
  for (int64_t micro = 0; micro < together; ++micro) passes.push_back({false, micro});
  for (int64_t micro = 0; micro < micro_batches; ++micro) {
    passes.push_back({true, micro});
    if (micro + together < micro_batches) passes.push_back({false, micro + together});
  }
  return passes;
}

std::vector<size_t> divide_parts(const std::vector<double>& part_s, int64_t stages) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const size_t parts = part_s.size();
  // longest[n]: of the first n parts in so many groups; begin[g][n]: where the last group begins.
  std::vector<double> longest(parts + 1, kNever);
  longest[0] = 0;
  std::vector<std::vector<size_t>> begin;
  for (int64_t group = 0; group < stages; ++group) {
    std::vector<double> next(parts + 1, kNever);
    std::vector<size_t>& from = begin.emplace_back(parts + 1, 0);
    for (size_t end = 1; end <= parts; ++end) {
      double last = 0;
      for (size_t first = end; first-- > 0;) {
        last += part_s[first];
        const double whole = std::max(longest[first], last);
        if (whole < next[end]) {
          next[end] = whole;
          from[end] = first;
        }
      }
    }
    longest = std::move(next);
  }
  std::vector<size_t> firsts(static_cast<size_t>(stages));
  size_t end = parts;
  for (size_t group = firsts.size(); group-- > 0;) end = firsts[group] = begin[group][end];
  return firsts;
}

std::string text_of(const Division& division) {
  return fmt::format("{:.17g};{}", fmt::join(division.part_s, " "),
                     fmt::join(division.firsts, " "));
}

Division division_from(const std::string& line) {
  const size_t middle = line.find(';');
  if (middle == std::string::npos) return {};
  std::istringstream times(line.substr(0, middle));
  std::istringstream firsts(line.substr(middle + 1));
  const Division found{{std::istream_iterator<double>(times), {}},
                       {std::istream_iterator<size_t>(firsts), {}}};
  return times.eof() && firsts.eof() ? found : Division{};
}

void require_pipeline(int64_t micro_batches, const Definition& definition,
                      const Precision& precision) {
  const TrainConfig& train = definition.train;
  if (train.accumulation != 1) {
    throw bad_input("--pipeline", "train.accumulation", std::to_string(train.accumulation),
                    "1: --micro-batches divides the batch");
  }
  if (train.batch % micro_batches != 0) {
    throw bad_input("--micro-batches", "", std::to_string(micro_batches),
                    "a divisor of the batch, " + std::to_string(train.batch));
  }
  if (precision.loss_scaling) {
    throw bad_input("--pipeline", "--precision", precision.name,
                    "a precision without loss scaling");
  }
}

struct Pipeline::State {
  /// A forward pass leaves this for its backward pass.
  struct Open {
    std::vector<at::Tensor> leaves;      ///< one for each incoming crossing
    torch::autograd::edge_list results;  ///< one for each outgoing crossing
  };

  std::shared_ptr<Group> group;
  Denoiser& model;
  PipelineOptions options;
  Precision precision;
  at::Device device;
  std::vector<Stage> stages;
  std::vector<Crossing> crossings;
  std::vector<size_t> incoming;  ///< numbers of crossings
  std::vector<size_t> outgoing;
  Messages messages;
  std::vector<std::optional<Open>> open;  ///< one for each micro-batch
  at::Tensor seeded;                      ///< the generator at the beginning of the step
  int64_t state_bytes = 0;
  int64_t input_bytes = 0;  ///< bytes of a micro-batch

  State(std::shared_ptr<Group> ranks, Denoiser& network, PipelineOptions how,
        const Precision& numbers, at::Device where)
      : group(std::move(ranks)),
        model(network),
        options(std::move(how)),
        precision(numbers),
        device(where),
        messages(group),
        open(static_cast<size_t>(options.micro_batches)) {}

  [[nodiscard]] int64_t stage() const { return group->rank().rank; }
  [[nodiscard]] bool is_last() const { return stage() + 1 == group->rank().ranks; }
  [[nodiscard]] size_t first_part(int64_t of) const {
    const auto at = static_cast<size_t>(of);
    const std::vector<size_t>& firsts = options.division->firsts;
    return at < firsts.size() ? firsts[at] : model.parts().size();
  }

  void divide(const at::Tensor& x) {
    constexpr int kRounds = 4;
    if (!options.division) options.division = std::make_shared<Division>();
    Division& division = *options.division;
    const int64_t ranks = group->rank().ranks;
    const bool known = divides(division, model.parts().size(), ranks);
    input_bytes = static_cast<int64_t>(x.nbytes());
    const Trace trace = traced(model, precision, x, known ? 1 : kRounds);
    const size_t parts = trace.part_s.size();
    if (static_cast<size_t>(ranks) > parts) {
      throw bad_input("--ranks", "", fmt::format("{} stages", ranks),
                      fmt::format("at most one for each of the network's {} parts", parts));
    }
    if (!known) {
      division.part_s = agreed(*group, trace.part_s);
      division.firsts = divide_parts(division.part_s, ranks);
    }
    for (int64_t number = 0; number < ranks; ++number) describe(number);
    crossings = crossings_of(trace, division.firsts);
    for (size_t c = 0; c < crossings.size(); ++c) {
      if (crossings[c].to == stage()) incoming.push_back(c);
      if (crossings[c].from == stage()) outgoing.push_back(c);
    }
    state_bytes = options.draws_masks ? static_cast<int64_t>(state_of_generator().nbytes()) : 0;
  }

  void describe(int64_t number) {
    const size_t first = first_part(number);
    const size_t end = first_part(number + 1);
    Stage& one = stages.emplace_back();
    one.first = model.parts()[first].name;
    one.last = model.parts()[end - 1].name;
    one.parts = static_cast<int64_t>(end - first);
    for (size_t part = first; part < end; ++part) one.part_s += options.division->part_s[part];
  }

  [[nodiscard]] int64_t stage_of_parameter(const std::string& name) const {
    for (size_t part = 0; part < model.parts().size(); ++part) {
      for (const std::string& prefix : model.parts()[part].prefixes) {
        if (name.starts_with(prefix)) return stage_of(options.division->firsts, part);
      }
    }
    TORCH_CHECK(false, "a part of the network for every parameter, but got none for ", name);
  }

  [[nodiscard]] int64_t tag(int64_t micro, size_t crossing, bool backward) const {
    const auto number =
        micro * static_cast<int64_t>(crossings.size()) + static_cast<int64_t>(crossing);
    return 2 * number + (backward ? 1 : 0);
  }
  /// Returns a tag behind those of all crossings.
  [[nodiscard]] int64_t tag_of_state(int64_t micro) const {
    return tag(options.micro_batches, 0, false) + micro;
  }

  /// Masks are drawn in the order of the parts, each for the whole batch, as one device draws them.
  void take_generator(int64_t micro) {
    if (!options.draws_masks) return;
    if (stage() == 0) {
      if (micro == 0) seeded = state_of_generator();
      return set_state_of_generator(seeded);
    }
    at::Tensor state = on_the_way({{state_bytes}, at::kByte});
    messages.receive(state, stage() - 1, tag_of_state(micro));
    set_state_of_generator(state);
  }

  void give_generator(int64_t micro) {
    if (options.draws_masks && !is_last()) {
      messages.send(state_of_generator(), stage() + 1, tag_of_state(micro));
    }
  }

  Flow receive(int64_t micro, Open& one) {
    Flow flow;
    for (const size_t c : incoming) {
      at::Tensor value = on_the_way(crossings[c].layout);
      messages.receive(value, crossings[c].from, tag(micro, c, false));
      value.requires_grad_();
      one.leaves.push_back(value);
      if (crossings[c].kind == Kind::kHidden) flow.h = value;
      if (crossings[c].kind == Kind::kTime) flow.time = value;
      if (crossings[c].kind == Kind::kSkip) flow.skips.push_back(value);
    }
    return flow;
  }

  void give(int64_t micro, const Flow& flow, Open& one) {
    auto skip = flow.skips.begin();
    for (const size_t c : outgoing) {
      const Kind kind = crossings[c].kind;
      const at::Tensor& value = kind == Kind::kHidden ? flow.h
                                : kind == Kind::kTime ? flow.time
                                                      : *skip++;
      one.results.push_back(torch::autograd::impl::gradient_edge(value));
      messages.send(copied(value, crossings[c].layout), crossings[c].to, tag(micro, c, false));
    }
  }

  /// The gradients of what this stage gave; with them it is known to have arrived.
  torch::autograd::variable_list receive_gradients(int64_t micro) {
    torch::autograd::variable_list gradients;
    messages.settle(stage() + 1, tag_of_state(micro));
    for (const size_t c : outgoing) {
      gradients.push_back(on_the_way(crossings[c].layout));
      messages.receive(gradients.back(), crossings[c].to, tag(micro, c, true));
      messages.settle(crossings[c].to, tag(micro, c, false));
    }
    return gradients;
  }

  void give_gradients(int64_t micro, const Open& one) {
    for (size_t i = 0; i < incoming.size(); ++i) {
      const size_t c = incoming[i];
      // No more than two of them are on their way.
      if (micro >= 2) messages.settle(crossings[c].from, tag(micro - 2, c, true));
      messages.send(copied(one.leaves[i].grad(), crossings[c].layout), crossings[c].from,
                    tag(micro, c, true));
      // The graph holds on to its leaves as long as anybody has the prediction.
      one.leaves[i].mutable_grad().reset();
    }
  }
};

Pipeline::Pipeline(std::shared_ptr<Group> group, Denoiser& model, PipelineOptions options,
                   const Precision& precision, const at::Tensor& x)
    : state_(std::make_unique<State>(std::move(group), model, std::move(options), precision,
                                     x.device())) {
  state_->divide(x);
}

Pipeline::~Pipeline() = default;

const std::vector<Pipeline::Stage>& Pipeline::stages() const {
  return state_->stages;
}

const PipelineOptions& Pipeline::options() const {
  return state_->options;
}

bool Pipeline::is_first() const {
  return state_->stage() == 0;
}

bool Pipeline::is_last() const {
  return state_->is_last();
}

int64_t Pipeline::together() const {
  return passes_together(state_->options.schedule, state_->stage(), state_->group->rank().ranks,
                         state_->options.micro_batches);
}

std::vector<StagePass> Pipeline::passes(bool in_turn) const {
  return passes_of(in_turn ? 1 : together(), state_->options.micro_batches);
}

int64_t Pipeline::bytes_of_open_pass() const {
  const State& state = *state_;
  int64_t bytes = is_first() || is_last() ? state.input_bytes : 0;
  for (const size_t c : state.outgoing) bytes += state.crossings[c].layout.bytes();
  for (const size_t c : state.incoming) bytes += state.crossings[c].layout.bytes();
  return bytes;
}

std::vector<Pieces> Pipeline::shares() const {
  std::vector<Pieces> shares(state_->stages.size());
  size_t number = 0;
  for (const auto& item : state_->model.named_parameters()) {
    shares[static_cast<size_t>(state_->stage_of_parameter(item.key()))].push_back(
        {number++, 0, item.value().numel()});
  }
  return shares;
}

bool Pipeline::owns(const std::string& name) const {
  return state_->stage_of_parameter(name) == state_->stage();
}

void Pipeline::release_others() {
  for (const auto& item : state_->model.named_parameters()) {
    if (!owns(item.key())) {
      at::native::resize_bytes_cpu(item.value().storage().unsafeGetStorageImpl(), 0);
    }
  }
}

void Pipeline::allocate_others() {
  const memopt::OwnerScope owner(memopt::Owner::kWeights);
  for (const auto& item : state_->model.named_parameters()) {
    if (!owns(item.key())) {
      at::native::resize_bytes_cpu(item.value().storage().unsafeGetStorageImpl(),
                                   item.value().nbytes());
    }
  }
}

Flow Pipeline::receive(int64_t micro, const at::Tensor& x, const at::Tensor& t) {
  State::Open& one = state_->open[static_cast<size_t>(micro)].emplace();
  state_->take_generator(micro);
  return is_first() ? Flow{x, t, {}, {}} : state_->receive(micro, one);
}

void Pipeline::run(int64_t micro, Flow& flow) {
  const AutocastGuard autocast(state_->precision, state_->device);
  const ShareGuard share({micro, state_->options.micro_batches});
  const size_t end = state_->first_part(state_->stage() + 1);
  for (size_t part = state_->first_part(state_->stage()); part < end; ++part) {
    state_->model.parts()[part].run(flow);
  }
}

void Pipeline::give(int64_t micro, const Flow& flow) {
  state_->give_generator(micro);
  state_->give(micro, flow, *state_->open[static_cast<size_t>(micro)]);
}

void Pipeline::backward(int64_t micro, const at::Tensor& root) {
  State& state = *state_;
  std::optional<State::Open>& slot = state.open[static_cast<size_t>(micro)];
  TORCH_CHECK(slot.has_value(), "a forward pass before its backward pass");
  State::Open one = std::move(*slot);
  slot.reset();
  torch::autograd::variable_list gradients;
  if (is_last()) {
    one.results = {torch::autograd::impl::gradient_edge(root)};
    gradients = {at::ones_like(root)};
  } else {
    gradients = state.receive_gradients(micro);
  }
  torch::autograd::Engine::get_default_engine().execute(
      one.results, gradients, /*keep_graph=*/false, /*create_graph=*/false,
      /*accumulate_grad=*/true);
  state.give_gradients(micro, one);
}

void Pipeline::finish() {
  state_->messages.settle_all();
  state_->seeded.reset();
}

int64_t Pipeline::given_bytes() const {
  const State& state = *state_;
  int64_t bytes = state.is_last() ? 0 : state.state_bytes;
  for (const size_t c : state.outgoing) bytes += state.crossings[c].layout.bytes();
  for (const size_t c : state.incoming) bytes += state.crossings[c].layout.bytes();
  return bytes * state.options.micro_batches;
}

}  // namespace noisemark::suite
