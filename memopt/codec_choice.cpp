#include "memopt/codec_choice.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "memopt/codecs/chained.h"
#include "memopt/codecs/grouped.h"
#include "memopt/codecs/mask.h"
#include "memopt/codecs/narrow.h"
#include "memopt/codecs/reduced.h"
#include "memopt/codecs/sparse.h"
#include "memopt/offload_pool.h"
#include "memopt/value_traits.h"

namespace noisemark::memopt {
namespace {

using Rounding = ModeParts::Rounding;
using Offload = ModeParts::Offload;

/// Room for these fractions of the elements. The step that is verified chooses; a little more than
/// what it needs is needed later.
constexpr std::array<double, 4> kSparseRooms = {0.35, 0.5, 0.65, 0.8};
constexpr double kSparseMapBits = 1 + 1.0 / 32;
constexpr size_t kSparseValues = 2;  ///< the part that holds the values

/// A codec, and what it holds of each element where it takes the tensor.
struct Candidate {
  double bits = 0;
  std::shared_ptr<const Codec> codec;
};

Candidate rounding_candidate(Rounding rounding) {
  switch (rounding) {
    case Rounding::kNothing:
      break;
    case Rounding::kDpr16:
      return {16, make_reduced_codec(16)};
    case Rounding::kDpr10:
      return {32.0 / 3, make_reduced_codec(10)};
    case Rounding::kDpr8:
      return {8, make_reduced_codec(8)};
    case Rounding::kQ4:
      return {4.125, make_grouped_codec(4)};
    case Rounding::kQ2:
      return {2.125, make_grouped_codec(2)};
  }
  return {};
}

/// Codecs that serve every tensor, made once: a plan asks for those of hundreds.
struct Shared {
  std::shared_ptr<const Codec> mask = make_mask_codec();
  std::shared_ptr<const Codec> sign = make_sign_codec();
  std::shared_ptr<const Codec> narrow = make_narrow_codec(at::kBFloat16);
  std::shared_ptr<const Codec> narrow_fp16 = make_narrow_codec(at::kHalf);
  std::array<std::shared_ptr<const Codec>, kSparseRooms.size()> sparse;

  Shared() {
    for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = make_sparse_codec(kSparseRooms[i]);
  }
};

const Shared& shared() {
  static const Shared codecs;
  return codecs;
}

void add_gist(const StepGraph& graph, ValueId id, const Candidate& rounding,
              std::vector<Candidate>& to) {
  const at::ScalarType type = graph.values[static_cast<size_t>(id)].dtype;
  if (auto map = pool_map_codec_of(graph, id)) to.push_back({4, std::move(map)});
  if (!is_real(type)) return;
  if (only_sign_is_asked_for(graph, id)) to.push_back({1, shared().sign});
  const double own_bits = 8.0 * static_cast<double>(c10::elementSize(type));
  for (size_t i = 0; i < kSparseRooms.size(); ++i) {
    const double room = kSparseRooms[i];
    const std::shared_ptr<const Codec>& sparse = shared().sparse[i];
    to.push_back({kSparseMapBits + room * own_bits, sparse});
    if (rounding.codec == nullptr) continue;
    to.push_back({kSparseMapBits + room * rounding.bits,
                  make_chained_codec(sparse, rounding.codec, kSparseValues)});
  }
}

/// What was widened, as by autocast, goes back, where no rounding holds fewer bits.
void add_narrow(const Candidate& rounding, std::vector<Candidate>& to) {
  constexpr double kBits = 16;
  if (rounding.codec != nullptr && rounding.bits < kBits) return;
  to.push_back({kBits, shared().narrow});
  to.push_back({kBits, shared().narrow_fp16});
}

/// Those that gain something, fewer bits first.
std::vector<Candidate> candidates_of(const ModeParts& parts, const StepGraph& graph, ValueId id) {
  const at::ScalarType type = graph.values[static_cast<size_t>(id)].dtype;
  const bool exact = parts.gist || parts.replay != ModeParts::Replay::kNothing;
  std::vector<Candidate> candidates;
  if (exact && (is_real(type) || type == at::kBool)) candidates.push_back({1, shared().mask});
  Candidate rounding;
  if (is_real(type) && !is_statistic(graph, id)) rounding = rounding_candidate(parts.rounding);
  if (parts.gist) add_gist(graph, id, rounding, candidates);
  if (exact && type == at::kFloat) add_narrow(rounding, candidates);
  if (rounding.codec != nullptr) candidates.push_back(rounding);
  const double own_bits = 8.0 * static_cast<double>(c10::elementSize(type));
  std::erase_if(candidates, [&](const Candidate& c) { return c.bits >= own_bits; });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bits < b.bits; });
  return candidates;
}

bool is_offloaded(Offload offload, const StepGraph& graph, ValueId id) {
  return offload == Offload::kEverything ||
         (offload == Offload::kConvolutionInputs && is_saved_by_convolution(graph, id));
}

class Choice {
 public:
  Choice(const ModeParts& parts, std::shared_ptr<OffloadPool> host)
      : parts_(parts), host_(std::move(host)) {}

  std::vector<std::shared_ptr<const Codec>> operator()(const StepGraph& graph, ValueId id) const {
    std::vector<Candidate> candidates = candidates_of(parts_, graph, id);
    if (host_ != nullptr && is_offloaded(parts_.offload, graph, id)) send_away(graph, candidates);
    std::vector<std::shared_ptr<const Codec>> codecs;
    codecs.reserve(candidates.size());
    for (Candidate& candidate : candidates) codecs.push_back(std::move(candidate.codec));
    return codecs;
  }

 private:
  /// Each to the host, then the value itself; where the host has no room, none of them: the pool
  /// remembers that.
  void send_away(const StepGraph& graph, std::vector<Candidate>& candidates) const {
    const std::shared_ptr<const Codec> host = host_->of(graph, bytes_away(graph));
    if (host == nullptr) return;
    std::vector<Candidate> away;
    for (const Candidate& candidate : candidates) {
      away.push_back({0, make_chained_codec(candidate.codec, host)});
    }
    away.push_back({0, host});
    candidates.insert(candidates.begin(), away.begin(), away.end());
  }

  /// The storages that go to the host, as they were saved.
  [[nodiscard]] int64_t bytes_away(const StepGraph& graph) const {
    if (parts_.offload == Offload::kEverything) return graph.saved_bytes();
    std::set<StorageId> away;
    int64_t bytes = 0;
    for (const RecordedSlot& slot : graph.slots) {
      const StorageId storage = graph.values[static_cast<size_t>(slot.value)].storage;
      const RecordedStorage& recorded = graph.storages[static_cast<size_t>(storage)];
      if (recorded.external || away.count(storage) != 0) continue;
      if (!is_saved_by_convolution(graph, slot.value)) continue;
      away.insert(storage);
      bytes += recorded.bytes;
    }
    return bytes;
  }

  ModeParts parts_;
  std::shared_ptr<OffloadPool> host_;
};

}  // namespace

CodecChoice codec_choice(const ModeParts& parts, std::shared_ptr<OffloadPool> host) {
  ModeParts without_replay = parts;
  const bool masks = without_replay.replay != ModeParts::Replay::kNothing;
  without_replay.replay = ModeParts::Replay::kNothing;
  if (!masks && without_replay == ModeParts{}) return {};
  return Choice(parts, std::move(host));
}

}  // namespace noisemark::memopt
