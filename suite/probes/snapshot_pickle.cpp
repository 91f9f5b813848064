#include "suite/probes/snapshot_pickle.h"

#include <cstring>
#include <limits>
#include <utility>

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

}  // namespace noisemark::suite
