#include "memopt/accounting/attribution.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace noisemark::memopt {
namespace {

constexpr size_t kNever = BlockLife::kStillLive;

/// [begin, end) in instants.
struct Claim {
  Owner owner;
  size_t begin;
  size_t end;
};

struct Life {
  Block block;
  size_t birth = 0;  ///< 0: live at the opening
  size_t death = kNever;
  uint32_t frame = 0;
  std::vector<Claim> claims;

  [[nodiscard]] Owner owner_at(size_t instant) const {
    Owner owner = Owner::kUnattributed;
    for (const Claim& claim : claims) {
      if (claim.begin <= instant && instant < claim.end) owner = std::min(owner, claim.owner);
    }
    return owner;
  }
};

class Attributor {
 public:
  explicit Attributor(const AllocationRecord& record) : record_(record) {}

  Attribution run() {
    find_claims();
    compute_changes();
    sweep();
    finish_boundaries();
    return std::move(result_);
  }

  std::vector<BlockLife> lives() {
    find_claims();
    std::vector<BlockLife> all;
    for (const auto& [number, life] : lives_) {
      BlockLife one{life.block, life.birth, life.death, life.frame, Owner::kUnattributed};
      for (const Claim& claim : life.claims) {
        const bool ever = claim.begin < claim.end && claim.begin < life.death;
        if (ever) one.owner = std::min(one.owner, claim.owner);
      }
      all.push_back(one);
    }
    std::sort(all.begin(), all.end(), [](const BlockLife& a, const BlockLife& b) {
      return std::pair(a.birth, a.block.number) < std::pair(b.birth, b.block.number);
    });
    return all;
  }

 private:
  using Change = std::pair<size_t, std::pair<Owner, int64_t>>;  ///< instant, owner, bytes

  Life& life_of(const Block& block) {
    Life& life = lives_[block.number];
    life.block = block;
    return life;
  }

  void find_claims() {
    collect_lives();
    claim_saved();
    claim_walked();
    claim_by_birth();
  }
  void collect_lives();
  void claim_saved();
  void claim_walked();
  [[nodiscard]] static size_t begin_of_ownership(const Life& life, Owner owner);
  void claim_by_birth();
  /// Memory that an operator takes for itself when it is run again is no value that was recomputed.
  [[nodiscard]] bool is_scratch_of_a_replay(const Life& life) const;
  void claim_for_operator(Life& life) const;
  [[nodiscard]] size_t end_of_phase(size_t instant) const;
  void compute_changes();
  void change(size_t instant, Owner owner, int64_t bytes) {
    changes_.push_back({instant, {owner, bytes}});
  }
  void sweep();
  void take_point(const OwnedInstant& now, bool allocated);
  void finish_boundaries();
  [[nodiscard]] std::string operators_at(size_t instant) const;

  const AllocationRecord& record_;
  std::unordered_map<uint64_t, Life> lives_;
  std::vector<Change> changes_;
  Attribution result_;
};

void Attributor::collect_lives() {
  for (const LogMark& mark : record_.marks) {
    for (const OwnedBlock& owned : mark.owned) life_of(owned.block);
  }
  for (size_t i = 0; i < record_.events.size(); ++i) {
    const LogEvent& event = record_.events[i];
    if (event.kind == LogEvent::Kind::kMark) continue;
    Life& life = life_of(event.block);
    if (event.kind == LogEvent::Kind::kAllocate) {
      life.birth = i + 1;
      life.frame = event.frame;
      ++result_.allocations;
    } else if (event.kind == LogEvent::Kind::kRelease) {
      life.death = i + 1;
    }
  }
}

void Attributor::claim_saved() {
  std::unordered_map<uint64_t, size_t> open;
  for (size_t i = 0; i < record_.events.size(); ++i) {
    const LogEvent& event = record_.events[i];
    if (event.kind == LogEvent::Kind::kSaved) open[event.block.number] = i + 1;
    if (event.kind != LogEvent::Kind::kUnsaved) continue;
    const auto begun = open.extract(event.block.number);
    lives_[event.block.number].claims.push_back({Owner::kActivations, begun.mapped(), i + 1});
  }
  for (const auto& [number, begin] : open) {
    lives_[number].claims.push_back({Owner::kActivations, begin, kNever});
  }
}

void Attributor::claim_walked() {
  struct Found {
    size_t begin;
    bool present;  ///< the last walk met it
  };
  std::map<std::pair<uint64_t, Owner>, Found> found;
  size_t last_walk = 0;
  for (const LogMark& mark : record_.marks) {
    if (!mark.walked) continue;
    std::map<std::pair<uint64_t, Owner>, bool> present;
    for (const OwnedBlock& owned : mark.owned) present[{owned.block.number, owned.owner}] = true;
    for (auto& [key, state] : found) {
      if (!state.present || present.count(key) != 0) continue;
      lives_[key.first].claims.push_back({key.second, state.begin, mark.instant});
      state.present = false;
    }
    for (const auto& [key, is_present] : present) {
      const size_t begin = begin_of_ownership(lives_[key.first], key.second);
      const auto [state, is_new] = found.try_emplace(key, Found{begin, true});
      if (!is_new && !state->second.present) state->second = {last_walk, true};
    }
    last_walk = mark.instant;
  }
  for (const auto& [key, state] : found) {
    if (state.present) lives_[key.first].claims.push_back({key.second, state.begin, kNever});
  }
}

/// A mode's memory for backward is a result that forward works with, until it is saved.
size_t Attributor::begin_of_ownership(const Life& life, Owner owner) {
  if (owner != Owner::kActivations) return life.birth;
  size_t begin = kNever;
  for (const Claim& claim : life.claims) {
    if (claim.owner == Owner::kActivations) begin = std::min(begin, claim.begin);
  }
  return begin == kNever ? life.birth : begin;
}

void Attributor::claim_by_birth() {
  for (auto& [number, life] : lives_) {
    if (life.block.born_as != Owner::kUnattributed && !is_scratch_of_a_replay(life)) {
      life.claims.push_back({life.block.born_as, life.birth, kNever});
    }
    if (life.frame != 0) claim_for_operator(life);
  }
}

bool Attributor::is_scratch_of_a_replay(const Life& life) const {
  if (life.block.born_as != Owner::kRematerialized || life.frame == 0) return false;
  const OperatorFrame& frame = record_.frames[life.frame - 1];
  return life.death <= frame.closed_at && life.death != kNever;
}

void Attributor::claim_for_operator(Life& life) const {
  life.claims.push_back({Owner::kTemporary, life.birth, end_of_phase(life.birth)});
  for (uint32_t id = life.frame; id != 0; id = record_.frames[id - 1].parent) {
    const OperatorFrame& frame = record_.frames[id - 1];
    const bool released_within = life.death <= frame.closed_at;
    if (frame.casts_weight && !released_within) {
      life.claims.push_back({Owner::kAutocastCache, life.birth, kNever});
    }
    if (frame.calls_library && released_within && life.death != kNever) {
      life.claims.push_back({Owner::kWorkspace, life.birth, kNever});
    }
  }
}

size_t Attributor::end_of_phase(size_t instant) const {
  const auto next =
      std::upper_bound(record_.marks.begin(), record_.marks.end(), instant,
                       [](size_t value, const LogMark& mark) { return value < mark.instant; });
  return next == record_.marks.end() ? kNever : next->instant;
}

/// Turns every life into its few changes of owner.
void Attributor::compute_changes() {
  std::array<int64_t, kOwnerCount> opening{};
  std::copy(std::begin(record_.baseline.born_bytes), std::end(record_.baseline.born_bytes),
            opening.begin());
  int64_t tagged = 0;
  for (const int64_t bytes : opening) tagged += bytes;
  opening.back() = record_.baseline.live_bytes - tagged;
  for (auto& [number, life] : lives_) {
    const int64_t bytes = life.block.bytes;
    if (life.birth == 0) opening[static_cast<size_t>(life.block.born_as)] -= bytes;
    std::vector<size_t> edges = {life.birth};
    for (const Claim& claim : life.claims) {
      for (const size_t edge : {claim.begin, claim.end}) {
        if (life.birth < edge && edge < life.death) edges.push_back(edge);
      }
    }
    std::sort(edges.begin(), edges.end());
    Owner before = life.owner_at(life.birth);
    change(life.birth, before, bytes);
    for (const size_t edge : edges) {
      const Owner after = life.owner_at(edge);
      if (after == before) continue;
      change(edge, before, -bytes);
      change(edge, after, bytes);
      before = after;
    }
    if (life.death != kNever) change(life.death, before, -bytes);
  }
  for (int i = 0; i < kOwnerCount; ++i) change(0, static_cast<Owner>(i), opening[i]);
  std::sort(changes_.begin(), changes_.end(),
            [](const Change& a, const Change& b) { return a.first < b.first; });
}

void Attributor::sweep() {
  OwnedInstant now;
  now.live_bytes = record_.baseline.live_bytes;
  size_t next = 0;
  size_t next_mark = 0;
  for (size_t instant = 0; instant <= record_.events.size(); ++instant) {
    now.instant = instant;
    bool allocated = instant == 0;
    if (instant > 0) {
      const LogEvent& event = record_.events[instant - 1];
      now.time_ns = event.time_ns;
      allocated = event.kind == LogEvent::Kind::kAllocate;
      if (allocated) now.live_bytes += event.block.bytes;
      if (event.kind == LogEvent::Kind::kRelease) now.live_bytes -= event.block.bytes;
    }
    for (; next < changes_.size() && changes_[next].first == instant; ++next) {
      now.bytes[static_cast<size_t>(changes_[next].second.first)] += changes_[next].second.second;
    }
    take_point(now, allocated);
    if (next_mark == record_.marks.size() || record_.marks[next_mark].instant != instant) continue;
    const LogMark& mark = record_.marks[next_mark++];
    if (mark.walked) result_.boundaries.push_back({mark.name, now, mark.live_bytes, 0});
  }
}

void Attributor::take_point(const OwnedInstant& now, bool allocated) {
  result_.peak_saved_bytes = std::max(result_.peak_saved_bytes, now.saved_bytes());
  if (allocated && (now.instant == 0 || now.live_bytes > result_.peak.live_bytes)) {
    result_.peak = now;
  }
  if (now.instant == 0 || now.live_bytes != result_.timeline.back().live_bytes ||
      now.bytes != result_.timeline.back().bytes) {
    result_.timeline.push_back(now);
  }
}

void Attributor::finish_boundaries() {
  for (OwnedBoundary& boundary : result_.boundaries) {
    const size_t instant = boundary.at.instant;
    for (const SavedRecord& saved : record_.saved) {
      if (saved.begin > instant || instant >= saved.end) continue;
      if (lives_[saved.number].owner_at(instant) == Owner::kActivations) {
        boundary.naive_saved_bytes += saved.bytes;
      }
    }
  }
  for (const LogMark& mark : record_.marks) {
    if (mark.instant < result_.peak.instant) result_.peak_after = mark.name;
  }
  result_.peak_operator = operators_at(result_.peak.instant);
}

std::string Attributor::operators_at(size_t instant) const {
  uint32_t innermost = 0;
  for (size_t i = 0; i < record_.frames.size(); ++i) {
    const OperatorFrame& frame = record_.frames[i];
    if (frame.opened_at < instant && instant <= frame.closed_at) {
      innermost = static_cast<uint32_t>(i + 1);
    }
  }
  if (innermost == 0) return {};
  uint32_t outermost = innermost;
  while (record_.frames[outermost - 1].parent != 0) {
    outermost = record_.frames[outermost - 1].parent;
  }
  const std::string& inner = record_.frames[innermost - 1].name;
  const std::string& outer = record_.frames[outermost - 1].name;
  return innermost == outermost ? inner : outer + " > " + inner;
}

}  // namespace

int64_t OwnedInstant::saved_bytes() const {
  int64_t held = 0;
  for (const Owner owner : all_owners()) held += is_held_for_backward(owner) ? of(owner) : 0;
  return held;
}

Attribution attribute(const AllocationRecord& record) {
  return Attributor(record).run();
}

std::vector<BlockLife> block_lives(const AllocationRecord& record) {
  return Attributor(record).lives();
}

}  // namespace noisemark::memopt
