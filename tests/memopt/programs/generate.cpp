#include "tests/memopt/programs/generate.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "memopt/modes/mode_grammar.h"
#include "tests/memopt/programs/known.h"
#include "tests/memopt/programs/operators.h"

namespace noisemark::memopt::programs {
namespace {

/// The distributions of the standard library differ between its implementations; this does not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  /// Draws from [0, count).
  int64_t pick(int64_t count) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(count));
  }
  bool percent(int64_t chance) { return pick(100) < chance; }
  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(pick(std::ssize(choices)))];
  }
  double number() { return 0.25 * static_cast<double>(1 + pick(6)); }

 private:
  std::mt19937_64 engine_;
};

constexpr int kAttempts = 200;
constexpr int kCallsOfABlock = 3;
/// A mode follows its plan by then.
constexpr int kWritesFrom = 6;
/// The share of programs of a known kind that are drawn again, because a run leaves them out.
constexpr int64_t kFewerKnownPercent = 90;
/// The least share of later_operators() among the operators of a later seed, of formed_operators()
/// in one with forms, and so on.
constexpr int64_t kLaterPercent = 25;
/// A program without anything to train is drawn again, by the seed so far away.
constexpr uint64_t kStride = uint64_t{1} << 40;

class Generator {
 public:
  /// `first` is the seed of the first try, which tells what the program may have.
  Generator(uint64_t seed, uint64_t first)
      : dice_(seed),
        later_(first >= kFirstLaterSeed),
        formed_(first >= kFirstFormedSeed),
        asking_(first >= kFirstAskingSeed),
        varying_(first >= kFirstVaryingSeed) {
    program_.seed = seed;
  }

  Program run() {
    draw_loop();
    draw_mode();
    program_.input = dice_.of(std::vector<Type>{{c10::kFloat, {1, 8}},
                                                {c10::kFloat, {1, 4, 8, 8}},
                                                {c10::kFloat, {1, 6, 8}},
                                                {c10::kFloat, {1, 8}},
                                                {c10::kFloat, {1, 4, 8, 8}},
                                                {c10::kFloat, {1, 6, 8}},
                                                {c10::kDouble, {1, 8}},
                                                {c10::kDouble, {1, 6, 8}},
                                                {c10::kLong, {1, 6}}});
    const auto wanted = static_cast<size_t>(3 + dice_.pick(10));
    for (int i = 0; i < kAttempts && program_.calls.size() < wanted; ++i) try_call();
    draw_happenings();
    draw_more();
    if (later_) draw_later();
    if (formed_) program_.loop.thread_state = Dice(program_.seed + kStride / 9).percent(15);
    if (asking_) draw_asking();
    if (varying_) program_.loop.varies = Dice(program_.seed + kStride / 13).percent(30);
    return std::move(program_);
  }

 private:
  void draw_loop() {
    Loop& loop = program_.loop;
    loop.steps = 18;
    loop.batch = 2 + dice_.pick(4);
    loop.other_batch = loop.batch + 1 + dice_.pick(4);
    loop.passes = dice_.percent(25) ? 2 : 1;
    loop.together = dice_.percent(40);
    loop.backwards = dice_.percent(12) ? 2 : 1;
    loop.gradient_penalty = dice_.percent(10);
    loop.penalty_inside = dice_.percent(50);
    loop.halves = dice_.percent(5);
    if (dice_.percent(8)) {
      loop.batches = dice_.of(
          std::vector<Batches>{Batches::kAlternating, Batches::kPartial, Batches::kVarying});
    }
    if (dice_.percent(8)) {
      loop.scopes = dice_.of(
          std::vector<Scopes>{Scopes::kTwice, Scopes::kInsideAnother, Scopes::kAroundAnother});
    }
    loop.backward_thread = dice_.percent(6);
    loop.writes_biases = dice_.percent(10);
    loop.other_thread = dice_.percent(8);
    loop.autocast = dice_.percent(10);
    loop.optimizer = dice_.percent(30) ? Optimizer::kAdam : Optimizer::kSgd;
    loop.changes_at = dice_.percent(40) ? 6 : 1;
  }

  void draw_mode() {
    ModeChoice& mode = program_.mode;
    if (dice_.percent(35)) {
      mode.spelling = dice_.percent(50) ? "budget" : "budget:saved";
      mode.share = 0.3 + 0.1 * static_cast<double>(dice_.pick(9));
      if (dice_.percent(30)) mode.error = 0.05;
      return;
    }
    do {
      mode.spelling = spelling_of(dice_.of(all_compositions()));
    } while (mode.spelling == "none");
  }

  void try_call() {
    const auto types = types_of(program_, program_.loop.batch);
    const Operator& op = draw_operator(types->back());
    Call call{op.name, {}, {}, dice_.number(), 0};
    call.later = program_.loop.changes_at > 1 ? dice_.number() : call.number;
    std::vector<Type> in;
    for (int i = 0; i < op.inputs; ++i) {
      const auto count = static_cast<int64_t>(types->size());
      const int64_t value = dice_.percent(60) ? count - 1 : dice_.pick(count);
      call.inputs.push_back(static_cast<int>(value));
      in.push_back((*types)[static_cast<size_t>(value)]);
    }
    if (!op.result(in)) return;
    const std::vector<State> before = program_.states;
    draw_states(op, in, call);
    program_.calls.push_back(call);
    if (types_of(program_, program_.loop.batch)) return;
    program_.calls.pop_back();
    program_.states = before;
  }

  /// Mostly one that takes the last value: few take complex numbers or masks, and a chain of them
  /// is not to end at once.
  const Operator& draw_operator(const Type& last) {
    constexpr int kDraws = 8;
    const std::vector<Operator>& choices = draw_choices();
    const Operator* op = &dice_.of(choices);
    if (!dice_.percent(70)) return *op;
    for (int i = 0; i < kDraws && !op->result({last, last}); ++i) op = &dice_.of(choices);
    return *op;
  }

  const std::vector<Operator>& draw_choices() {
    if (varying_ && dice_.percent(kLaterPercent)) return varying_operators();
    const bool formed = formed_ && dice_.percent(kLaterPercent);
    const bool later = later_ && dice_.percent(kLaterPercent);
    if (formed) return formed_operators();
    return later ? later_operators() : first_operators();
  }

  void draw_states(const Operator& op, const std::vector<Type>& in, Call& call) {
    const std::vector<Shape> shapes = op.states(in);
    for (size_t i = 0; i < shapes.size(); ++i) {
      const bool buffer = i + static_cast<size_t>(op.buffers) >= shapes.size();
      const int shared = buffer || !dice_.percent(25) ? -1 : like(shapes[i]);
      if (shared >= 0) {
        call.states.push_back(shared);
        continue;
      }
      call.states.push_back(static_cast<int>(program_.states.size()));
      const int block = static_cast<int>(program_.calls.size()) / kCallsOfABlock;
      program_.states.push_back({shapes[i], block, !buffer && !dice_.percent(10), buffer});
    }
  }

  [[nodiscard]] int like(const Shape& shape) const {
    for (size_t i = 0; i < program_.states.size(); ++i) {
      const State& state = program_.states[i];
      if (state.shape == shape && !state.buffer) return static_cast<int>(i);
    }
    return -1;
  }

  void draw_happenings() {
    constexpr std::array kEvents = {
        Event::kThrowInForward, Event::kThrowInBackward, Event::kOtherBatch,
        Event::kUnfreeze,       Event::kFreeze,          Event::kLoadByCopy,
        Event::kLoadBySetData,  Event::kEvaluate,        Event::kEvaluateInside};
    while (dice_.percent(35)) {
      Happening happening;
      happening.event = kEvents[static_cast<size_t>(dice_.pick(kEvents.size()))];
      happening.step = static_cast<int>(1 + dice_.pick(6));
      const auto states = std::ssize(program_.states);
      if (states > 0) happening.state = static_cast<int>(dice_.pick(states));
      const bool of_state =
          happening.event == Event::kUnfreeze || happening.event == Event::kFreeze;
      if (of_state &&
          (states == 0 || program_.states[static_cast<size_t>(happening.state)].buffer)) {
        continue;
      }
      program_.loop.happenings.push_back(happening);
    }
  }

  /// Few draws end with two complex numbers that have histories, of which one is conjugated.
  void draw_spectra() {
    Dice dice(program_.seed + kStride / 4);
    const auto types = types_of(program_, program_.loop.batch);
    if (!dice.percent(5) || program_.calls.empty() || !c10::isFloatingType(types->back().dtype))
      return;
    const std::vector<Call> before = program_.calls;
    const auto last = static_cast<int>(before.size());
    program_.calls.push_back({"tanh", {last}, {}});
    program_.calls.push_back({"fft", {last}, {}});
    program_.calls.push_back({"fft", {last + 1}, {}});
    program_.calls.push_back({"conj_products", {last + 2, last + 3}, {}});
    if (!valid(program_)) program_.calls = before;
  }

  /// Draws by dice of its own: without it a seed's program stays what it was.
  void draw_more() {
    Dice dice(~program_.seed);
    if (Dice(program_.seed + kStride / 2).percent(40)) program_.loop.writes_from = kWritesFrom;
    draw_spectra();
    Loop& loop = program_.loop;
    loop.casts_once = loop.autocast && Dice(program_.seed + kStride / 3).percent(50);
    if (!valid(program_)) loop.casts_once = false;
    loop.opens_scope = Dice(program_.seed + kStride / 6).percent(4);
    if (!valid(program_)) loop.opens_scope = false;
    if (!dice.percent(20)) return;
    const Loop before = program_.loop;
    switch (dice.pick(4)) {
      case 0:
        loop.adversarial = true;
        break;
      case 1:
        loop.carries_state = true;
        break;
      case 2:
        loop.keeps_graph = true;
        break;
      default:
        loop.input_penalty = true;
        loop.gradient_penalty = false;
    }
    if (!valid(program_)) loop = before;
  }

  void draw_later() {
    Dice dice(program_.seed + kStride / 7);
    const Loop before = program_.loop;
    Loop& loop = program_.loop;
    if (dice.percent(20)) {
      loop.scopes = dice.of(std::vector<Scopes>{Scopes::kInsideAnother, Scopes::kAroundAnother,
                                                Scopes::kBetween, Scopes::kInsideOwnHooks,
                                                Scopes::kAroundOwnHooks});
    }
    if (has_another_mode(loop)) {
      loop.another = dice.of(std::vector<std::string>{"echo", "offload:all", "mirror:sqrt", "gist",
                                                      "echo+attn+offload"});
    }
    if (!valid(program_)) loop = before;
    loop.counts_gradients = dice.percent(8);
    draw_later_mode(dice);
  }

  void draw_later_mode(Dice& dice) {
    ModeChoice& mode = program_.mode;
    mode.strict = mode.budget() && dice.percent(30);
    if (mode.budget() || !dice.percent(50)) return;
    ModeComposition parts = parse_mode(mode.spelling);
    if (parts.offload() == nullptr) return;
    parts.host_bytes = dice.of(std::vector<int64_t>{64, 1024, 4096, 65536});
    mode.spelling = spelling_of(parts);
  }

  void draw_asking() {
    Dice dice(program_.seed + kStride / 11);
    Loop& loop = program_.loop;
    for (bool Loop::*form : kAskingForms) {
      loop.*form = dice.percent(20);
      if (!valid(program_)) loop.*form = false;
    }
  }

  Dice dice_;
  bool later_;
  bool formed_;
  bool asking_;
  bool varying_;
  Program program_;
};

}  // namespace

Program generate(uint64_t seed) {
  for (uint64_t again = 0;; ++again) {
    Program program = Generator(seed + again * kStride, seed).run();
    program.seed = seed;
    const bool known = known_kind(program) != nullptr;
    if (known && Dice(seed + kStride / 5).percent(kFewerKnownPercent)) continue;
    if (valid(program)) return program;
  }
}

}  // namespace noisemark::memopt::programs
