#include "tests/reports/ab/simulated.h"

#include <cmath>
#include <random>

namespace noisemark::reports::test {
namespace {

constexpr int64_t kSteps = 5;
constexpr double kStep_s = 0.02;

AbBuild build(const std::string& name) {
  AbBuild build;
  build.name = name;
  build.benchmark = "gmm16-ho@cpu";
  build.variant = "none-plain-fp32";
  build.identity = {{"cell", "gmm16-ho@cpu, mode none, baseline plain, fp32, cpu"},
                    {"identity.definition_sha256", std::string(64, 'd')},
                    {"identity.threads", "2"},
                    {"identity.version", "1"},
                    {"protocol.deterministic", "no"}};
  build.about = {{"binary_sha256", std::string(64, name == "old" ? '1' : '2')},
                 {"commit", name == "old" ? "aaaa" : "bbbb"}};
  build.batch = 16;
  build.parameters = 1234;
  return build;
}

class Machine {
 public:
  explicit Machine(const Simulated& machine) : machine_(machine), generator_(machine.seed) {}

  AbPair pair(AbSide first) {
    AbPair pair;
    pair.first = first;
    const double keeps[] = {noise(machine_.pair_noise), noise(machine_.pair_noise)};
    int64_t steps[] = {0, 0};
    double time = 0;
    const auto turn = [&](AbSide side) {
      const auto i = static_cast<size_t>(side);
      const double slow = side == AbSide::kB ? std::log1p(machine_.slow_down) : 0;
      const double log = keeps[i] + slow + noise(machine_.turn_noise) + machine_.drift * time;
      AbTurn made{side, {}, {}};
      for (int64_t step = 0; step < kSteps; ++step, ++steps[i]) {
        made.step_s.push_back(kStep_s * std::exp(log));
        made.loss.push_back(1.0 / static_cast<double>(1 + steps[i]));
      }
      return made;
    };
    for (const AbSide side : {first, other_side(first)}) pair.warmup.push_back(turn(side));
    for (int64_t block = 0; block < machine_.blocks; ++block) {
      const AbSide a = block % 2 == 0 ? first : other_side(first);
      for (const AbSide side : {a, other_side(a), other_side(a), a}) {
        time += 1.0 / static_cast<double>(4 * machine_.blocks);
        pair.turns.push_back(turn(side));
      }
    }
    return pair;
  }

 private:
  /// Sums of uniforms, which unlike the standard's normals are the same on every platform.
  double noise(double deviation) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(generator_() >> 11U) * 0x1p-53;
    return deviation * sum;
  }

  Simulated machine_;
  std::mt19937_64 generator_;
};

}  // namespace

AbRecord simulate(const Simulated& machine) {
  AbRecord record;
  record.created_utc = "2026-01-02T03:04:05Z";
  record.plan = {machine.pairs, kSteps, kSteps, machine.blocks, 30, 0, 0};
  record.a = build("old");
  record.b = build("new");
  Machine made(machine);
  for (int64_t i = 0; i < machine.made; ++i) {
    record.pairs.push_back(made.pair(i % 2 == 0 ? AbSide::kA : AbSide::kB));
  }
  return record;
}

}  // namespace noisemark::reports::test
