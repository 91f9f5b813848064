// Options with price limits: within a block, what is cheap to free is freed and the rest is held.

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "memopt/plan/encodings.h"
#include "memopt/plan/options.h"

namespace noisemark::memopt {

void BlockOptions::add_price_limits(const CodecFigures& figures) {
  const size_t bases = options_.size();
  for (size_t base = 0; base < bases; ++base) {
    if (same_as_[base] < base || !options_[base].parts.lossless()) continue;
    const TreatmentPlan uniform = plan(std::vector<size_t>(blocks_, base));
    for (const PriceLimit& limit : price_limits(freed_storages(uniform, figures))) {
      std::string name = options_[base].name + ", " + words_of(limit);
      if (name != options_.back().name) {
        add_limited(limited_by(limit, base, figures), std::move(name));
      }
    }
  }
}

void BlockOptions::add_price_limits_of(const BlockOptions& other) {
  for (size_t i = 0; i < other.limited_.size(); ++i) {
    add_limited(other.limited_[i], other.options_[other.unlimited() + i].name);
  }
}

void BlockOptions::add_limited(Limited limited, std::string name) {
  const size_t base = limited.base;
  options_.push_back({std::move(name), options_[base].policy, options_[base].parts});
  replays_.push_back(replays_[base]);
  light_.push_back(light_[base]);
  group_.push_back(group_[base]);
  same_as_.push_back(same_as_.size());
  limited_.push_back(std::move(limited));
}

BlockOptions::Limited BlockOptions::limited_by(const PriceLimit& limit, size_t base,
                                               const CodecFigures& figures) const {
  const std::vector<bool> none(graph_->values.size(), false);
  Limited limited{base, none, none};
  for (const StorageId id : limit.held) {
    const RecordedStorage& storage = graph_->storages[static_cast<size_t>(id)];
    const bool encodes = encodes_within(limit, base, storage, figures);
    for (const ValueId value : storage.values) {
      const auto v = static_cast<size_t>(value);
      if (graph_->values[v].slots.empty()) continue;
      limited.spared[v] = true;
      limited.as_saved[v] = !encodes;
    }
  }
  return limited;
}

/// What costs too much to make again may be cheap to hold in another form.
bool BlockOptions::encodes_within(const PriceLimit& limit, size_t base,
                                  const RecordedStorage& storage,
                                  const CodecFigures& figures) const {
  const std::optional<SavedMemory> memory = saved_memory(*graph_, storage);
  if (!memory) return false;
  const Codecs codecs = codecs_given(base, memory->first);
  if (codecs.empty()) return false;
  const CodecFigure figure = figures(*codecs.front(), form_to_encode(*graph_, storage, *memory));
  const auto freed_bytes = static_cast<double>(storage.bytes - figure.bytes);
  const auto ns = static_cast<double>(figure.encode_ns + figure.decode_ns);
  return ns <= limit.most_ns_per_byte * freed_bytes;
}

const BlockOptions::Limited* BlockOptions::limits_of(size_t option) const {
  return option < unlimited() ? nullptr : &limited_[option - unlimited()];
}

std::vector<size_t> BlockOptions::distinct_in(size_t block) const {
  std::vector<size_t> distinct;
  std::set<std::string> known;
  for (size_t o = 0; o < options_.size(); ++o) {
    if (known.insert(treatment_of(block, o)).second) distinct.push_back(o);
  }
  return distinct;
}

/// All that a plan asks the block's option about, in letters.
std::string BlockOptions::treatment_of(size_t block, size_t option) const {
  const bool keeps_crossing = options_[option].policy.keep_what_crosses_segments;
  const Limited* limits = limits_of(option);
  std::string words;
  for (size_t op = 0; op < needed_.size(); ++op) {
    if (!needed_[op] || block_of_operator(static_cast<OperatorId>(op)) != block) continue;
    words += replays_[option][op] ? 'r' : 'k';
    if (light_[option][op]) words += 'l';
    for (const ValueId id : graph_->operators[op].results) {
      if (id == kNone) continue;
      const auto v = static_cast<size_t>(id);
      if (keeps_crossing && crossing_[v]) words += 'c';
      if (limits != nullptr && limits->spared[v]) words += 's';
      if (limits != nullptr && limits->as_saved[v]) words += 'a';
      for (const std::shared_ptr<const Codec>& codec : codecs_given(option, id)) {
        words.append(codec->form()).append(";");
      }
    }
  }
  return words;
}

void BlockOptions::ask_for_all(const CodecFigures& figures) const {
  for (const CodecGroup& group : groups_) {
    for (const RecordedStorage& storage : graph_->storages) {
      const std::optional<SavedMemory> memory = saved_memory(*graph_, storage);
      if (!memory) continue;
      const RecordedValue form = form_to_encode(*graph_, storage, *memory);
      for (const auto& codec : group.of_value[static_cast<size_t>(memory->first)]) {
        static_cast<void>(figures(*codec, form));
      }
    }
    for (const ValueId part : known_.tried_parts) {
      for (const auto& codec : known_codecs(group, part)) {
        static_cast<void>(figures(*codec, graph_->values[static_cast<size_t>(part)]));
      }
    }
  }
}

}  // namespace noisemark::memopt
