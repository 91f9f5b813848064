#include "suite/probes/snapshot_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memopt/accounting/attribution.h"

namespace noisemark::suite {
namespace {

// Opcodes of Python's pickletools, under their names there.
constexpr char kProto = '\x80';
constexpr char kStop = '.';
constexpr char kMark = '(';
constexpr char kEmptyList = ']';
constexpr char kAppends = 'e';
constexpr char kEmptyDict = '}';
constexpr char kSetItems = 'u';
constexpr char kBinUnicode = 'X';
constexpr char kBinInt = 'J';
constexpr char kBinInt1 = 'K';
constexpr char kBinInt2 = 'M';
constexpr char kLong1 = '\x8a';
constexpr char kBinFloat = 'G';
constexpr char kBinPut = 'q';
constexpr char kLongBinPut = 'r';
constexpr char kBinGet = 'h';
constexpr char kLongBinGet = 'j';

constexpr char kProtocol = 2;
constexpr int kBitsPerByte = 8;
constexpr uint32_t kLargestByte = 0xff;

}  // namespace

PickleWriter::PickleWriter() {
  put(kProto);
  put(kProtocol);
}

void PickleWriter::put_little_endian(uint64_t value, int count) {
  for (int i = 0; i < count; ++i) put(static_cast<char>(value >> (kBitsPerByte * i)));
}

void PickleWriter::begin_list() {
  put(kEmptyList);
  put(kMark);
}

void PickleWriter::end_list() {
  put(kAppends);
}

void PickleWriter::begin_dict() {
  put(kEmptyDict);
  put(kMark);
}

void PickleWriter::end_dict() {
  put(kSetItems);
}

void PickleWriter::text(std::string_view value) {
  const std::string key = "text " + std::string(value);
  if (recall(key)) return;
  put(kBinUnicode);
  put_little_endian(value.size(), 4);
  bytes_ += value;
  remember(key);
}

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<uint8_t>::max()) {
    put(kBinInt1);
    put_little_endian(static_cast<uint64_t>(value), 1);
  } else if (value >= 0 && value <= std::numeric_limits<uint16_t>::max()) {
    put(kBinInt2);
    put_little_endian(static_cast<uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    put(kBinInt);
    put_little_endian(static_cast<uint64_t>(value), 4);
  } else {
    put(kLong1);
    put_little_endian(sizeof value, 1);
    put_little_endian(static_cast<uint64_t>(value), sizeof value);
  }
}

void PickleWriter::number(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put(kBinFloat);
  for (int i = static_cast<int>(sizeof bits) - 1; i >= 0; --i) {
    put(static_cast<char>(bits >> (kBitsPerByte * i)));  // the highest byte first
  }
}

bool PickleWriter::recall(const std::string& key) {
  const auto found = remembered_.find(key);
  if (found == remembered_.end()) return false;
  const bool short_form = found->second <= kLargestByte;
  put(short_form ? kBinGet : kLongBinGet);
  put_little_endian(found->second, short_form ? 1 : 4);
  return true;
}

void PickleWriter::remember(const std::string& key) {
  const auto place = static_cast<uint32_t>(remembered_.size());
  remembered_[key] = place;
  const bool short_form = place <= kLargestByte;
  put(short_form ? kBinPut : kLongBinPut);
  put_little_endian(place, short_form ? 1 : 4);
}

std::string PickleWriter::finish() {
  put(kStop);
  return std::move(bytes_);
}

namespace {

using memopt::AllocationRecord;
using memopt::BlockLife;
using memopt::LogEvent;
using memopt::Owner;

constexpr int64_t kNanosecondsPerMicrosecond = 1000;

/// The viewer's name for what has no owner; a browser's viewer counts on there being one.
constexpr std::string_view kUnknown = "unknown";

std::string_view category_of(Owner owner) {
  return owner == Owner::kUnattributed ? kUnknown : memopt::owner_name(owner);
}

/// Writes what was live at the opening and is in no event, a block for each owner in whose
/// OwnerScope it was born. Their numbers count down from the highest, which no allocator reaches.
std::vector<BlockLife> unseen_lives(const AllocationRecord& record,
                                    const std::vector<BlockLife>& seen) {
  std::array<int64_t, memopt::kOwnerCount> rest{};
  std::copy(std::begin(record.baseline.born_bytes), std::end(record.baseline.born_bytes),
            rest.begin());
  rest.back() = record.baseline.live_bytes - std::accumulate(rest.begin(), rest.end(), int64_t{0});
  for (const BlockLife& life : seen) {
    if (life.birth == 0) rest[static_cast<size_t>(life.block.born_as)] -= life.block.bytes;
  }
  std::vector<BlockLife> lives;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] <= 0) continue;
    const auto owner = static_cast<Owner>(i);
    BlockLife life;
    life.block = {std::numeric_limits<uint64_t>::max() - i, rest[i], owner};
    life.owner = owner;
    lives.push_back(life);
  }
  return lives;
}

/// Every block of a record, those that the log has not seen behind the others.
std::vector<BlockLife> all_lives(const AllocationRecord& record) {
  std::vector<BlockLife> lives = memopt::block_lives(record);
  const std::vector<BlockLife> unseen = unseen_lives(record, lives);
  lives.insert(lives.end(), unseen.begin(), unseen.end());
  return lives;
}

class Snapshot {
 public:
  Snapshot(const AllocationRecord& record, c10::Device device)
      : record_(record),
        device_(device.is_cpu() || !device.has_index() ? 0 : device.index()),
        lives_(all_lives(record)) {
    for (size_t i = 0; i < lives_.size(); ++i) by_number_[lives_[i].block.number] = i;
  }

  std::string pickle() {
    out_.begin_dict();
    out_.text("device_traces");
    write_traces();
    out_.text("segments");
    write_segments();
    out_.text("allocator_settings");
    out_.begin_dict();
    out_.end_dict();
    out_.end_dict();
    return out_.finish();
  }

 private:
  void write_traces() {
    out_.begin_list();
    for (int64_t other = 0; other < device_; ++other) {
      out_.begin_list();
      out_.end_list();
    }
    out_.begin_list();
    write_opening();
    for (const LogEvent& event : record_.events) write_event(event);
    write_end();
    out_.end_list();
    out_.end_list();
  }

  void write_opening() {
    for (const BlockLife& life : lives_) {
      if (life.birth == 0) write_allocation(life, 0);
    }
  }

  void write_event(const LogEvent& event) {
    const auto found = by_number_.find(event.block.number);
    if (found == by_number_.end()) return;
    const BlockLife& life = lives_[found->second];
    if (event.kind == LogEvent::Kind::kAllocate) write_allocation(life, event.time_ns);
    if (event.kind == LogEvent::Kind::kRelease) write_release(life, event.time_ns);
  }

  void write_allocation(const BlockLife& life, int64_t time_ns) {
    addresses_[life.block.number] = space_.take(life.block.bytes);
    write_entry("alloc", life, time_ns);
  }

  void write_release(const BlockLife& life, int64_t time_ns) {
    write_entry("free_requested", life, time_ns);
    write_entry("free_completed", life, time_ns);
    const auto address = addresses_.extract(life.block.number);
    if (!address.empty()) space_.give_back(address.mapped(), life.block.bytes);
  }

  /// An action of no block, with the category that must be there.
  void write_end() {
    out_.begin_dict();
    write_place("snapshot", 0, 0, record_.events.empty() ? 0 : record_.events.back().time_ns);
    out_.text("frames");
    out_.begin_list();
    out_.end_list();
    out_.text("category");
    out_.text(kUnknown);
    out_.end_dict();
  }

  void write_entry(std::string_view action, const BlockLife& life, int64_t time_ns) {
    out_.begin_dict();
    write_place(action, addresses_[life.block.number], life.block.bytes, time_ns);
    out_.text("frames");
    write_frames(life);
    out_.text("category");
    out_.text(category_of(life.owner));
    out_.end_dict();
  }

  void write_place(std::string_view action, int64_t address, int64_t bytes, int64_t time_ns) {
    out_.text("action");
    out_.text(action);
    pair("addr", address);
    pair("size", bytes);
    pair("stream", 0);
    pair("time_us", time_ns / kNanosecondsPerMicrosecond);
  }

  void pair(std::string_view key, int64_t value) {
    out_.text(key);
    out_.integer(value);
  }

  void write_frames(const BlockLife& life) {
    const size_t mark = mark_before(life.birth);
    const std::string key = "frames " + std::to_string(life.frame) + " " +
                            std::string(category_of(life.owner)) + " " + std::to_string(mark);
    if (out_.recall(key)) return;
    out_.begin_list();
    write_frame(category_of(life.owner), "owner", 0);
    for (uint32_t id = life.frame; id != 0; id = record_.frames[id - 1].parent) {
      write_frame(record_.frames[id - 1].name, "operator", id);
    }
    write_frame(life.birth == 0   ? "before the step"
                : mark == kNoMark ? "before the first phase"
                                  : record_.marks[mark].name,
                "phase", 0);
    out_.end_list();
    out_.remember(key);
  }

  void write_frame(std::string_view name, std::string_view kind, int64_t line) {
    out_.begin_dict();
    out_.text("name");
    out_.text(name);
    out_.text("filename");
    out_.text(kind);
    pair("line", line);
    out_.end_dict();
  }

  /// Index of the last mark before an instant.
  [[nodiscard]] size_t mark_before(size_t instant) const {
    const auto next = std::lower_bound(
        record_.marks.begin(), record_.marks.end(), instant,
        [](const memopt::LogMark& mark, size_t value) { return mark.instant < value; });
    if (next == record_.marks.begin()) return kNoMark;
    return static_cast<size_t>(std::distance(record_.marks.begin(), next)) - 1;
  }

  void write_segments() {
    std::map<int64_t, const BlockLife*> live;  // one for each address
    for (const auto& [number, address] : addresses_) {
      live[address] = &lives_[by_number_.at(number)];
    }
    out_.begin_list();
    if (space_.extent() > 0) write_segment(live);
    out_.end_list();
  }

  void write_segment(const std::map<int64_t, const BlockLife*>& live) {
    int64_t requested = 0;
    int64_t allocated = 0;
    for (const auto& [address, life] : live) {
      requested += life->block.bytes;
      allocated += AddressSpace::rounded(life->block.bytes);
    }
    out_.begin_dict();
    pair("device", device_);
    pair("address", AddressSpace::kBegin);
    pair("total_size", space_.extent());
    pair("allocated_size", allocated);
    pair("active_size", allocated);
    pair("requested_size", requested);
    pair("stream", 0);
    out_.text("segment_type");
    out_.text("large");
    out_.text("segment_pool_id");
    out_.begin_list();
    out_.integer(0);
    out_.integer(0);
    out_.end_list();
    out_.text("blocks");
    write_blocks(live);
    out_.end_dict();
  }

  void write_blocks(const std::map<int64_t, const BlockLife*>& live) {
    const int64_t end = AddressSpace::kBegin + space_.extent();
    int64_t next = AddressSpace::kBegin;
    out_.begin_list();
    for (const auto& [address, life] : live) {
      if (next < address) write_gap(next, address - next);
      next = address + AddressSpace::rounded(life->block.bytes);
      write_block(address, *life);
    }
    if (next < end) write_gap(next, end - next);
    out_.end_list();
  }

  void write_block(int64_t address, const BlockLife& life) {
    out_.begin_dict();
    pair("address", address);
    pair("size", AddressSpace::rounded(life.block.bytes));
    pair("requested_size", life.block.bytes);
    out_.text("state");
    out_.text("active_allocated");
    out_.text("frames");
    write_frames(life);
    out_.text("category");
    out_.text(category_of(life.owner));
    out_.end_dict();
  }

  void write_gap(int64_t address, int64_t bytes) {
    out_.begin_dict();
    pair("address", address);
    pair("size", bytes);
    pair("requested_size", 0);
    out_.text("state");
    out_.text("inactive");
    out_.text("frames");
    out_.begin_list();
    out_.end_list();
    out_.end_dict();
  }

  static constexpr size_t kNoMark = BlockLife::kStillLive;

  const AllocationRecord& record_;
  const int64_t device_;
  const std::vector<BlockLife> lives_;
  std::unordered_map<uint64_t, size_t> by_number_;   ///< index in lives_
  std::unordered_map<uint64_t, int64_t> addresses_;  ///< addresses of live blocks, by number
  AddressSpace space_;
  PickleWriter out_;
};

}  // namespace

int64_t AddressSpace::rounded(int64_t bytes) {
  return std::max(kUnit, (bytes + kUnit - 1) / kUnit * kUnit);
}

int64_t AddressSpace::take(int64_t bytes) {
  const int64_t size = rounded(bytes);
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(),
                                [size](const auto& one) { return one.second >= size; });
  if (gap == gaps_.end()) {
    end_ += size;
    return end_ - size;
  }
  const auto [address, room] = *gap;
  gaps_.erase(gap);
  if (room > size) gaps_[address + size] = room - size;
  return address;
}

void AddressSpace::give_back(int64_t address, int64_t bytes) {
  auto gap = gaps_.emplace(address, rounded(bytes)).first;
  const auto next = std::next(gap);
  if (next != gaps_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap == gaps_.begin()) return;
  const auto before = std::prev(gap);
  if (before->first + before->second != gap->first) return;
  before->second += gap->second;
  gaps_.erase(gap);
}

std::string snapshot_of(const memopt::AllocationRecord& record, c10::Device device) {
  return Snapshot(record, device).pickle();
}

}  // namespace noisemark::suite
