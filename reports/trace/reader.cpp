#include "reports/trace/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "reports/base/error.h"
#include "reports/base/file.h"

namespace noisemark::reports {
namespace {

constexpr const char* kAccepted = "a trace of kineto: JSON, or gzip of it";

/// The bytes of a file, unpacked where it is packed, for RapidJSON. It holds one buffer of them.
class Unpacked {
 public:
  using Ch = char;

  explicit Unpacked(const std::filesystem::path& path) : where_(path.string()) {
    static_cast<void>(InputFile(path, kAccepted));  // has the words for what is no file
    file_.reset(gzopen(where_.c_str(), "rb"));
    if (file_ == nullptr) throw bad_input(where_, "", "cannot be opened", kAccepted);
    fill();
  }

  // RapidJSON's names. Behind the last byte of the buffer there is a zero.
  [[nodiscard]] Ch Peek() const { return buffer_[at_]; }
  [[gnu::always_inline]] Ch Take() {
    const Ch taken = buffer_[at_];
    if (at_ < size_ && ++at_ == size_) fill();
    return taken;
  }
  void skip_whitespace() {
    const auto is_white = [](Ch c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (is_white(buffer_[at_])) {
      if (++at_ == size_) fill();
    }
  }
  [[nodiscard]] size_t Tell() const { return before_ + at_; }
  [[nodiscard]] bool at_end() const { return size_ == 0; }

  // RapidJSON asks for these and calls them only where a text is changed in place.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch /*c*/) {}
  void Flush() {}
  size_t PutEnd(Ch* /*begin*/) { return 0; }

 private:
  [[gnu::noinline]] void fill() {
    before_ += size_;
    at_ = 0;
    const int count = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(kBufferBytes));
    int fault = Z_OK;
    const int cause = errno;
    const char* words = gzerror(file_.get(), &fault);
    if (fault == Z_ERRNO) throw failed_read(where_, cause);
    if (count < 0 || fault == Z_BUF_ERROR) {
      const std::string found = fault == Z_BUF_ERROR ? "it is cut off" : words;
      const size_t unpacked = before_ + static_cast<size_t>(std::max(count, 0));
      throw bad_input(where_, fmt::format("byte {} of what is packed", unpacked), found, kAccepted);
    }
    size_ = static_cast<size_t>(count);
    buffer_[size_] = '\0';
  }

  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::string where_;
  std::unique_ptr<gzFile_s, Close> file_;
  static constexpr size_t kBufferBytes = 1 << 18;
  std::vector<Ch> buffer_ = std::vector<Ch>(kBufferBytes + 1);
  size_t before_ = 0;
  size_t at_ = 0;
  size_t size_ = 0;
};

}  // namespace
}  // namespace noisemark::reports

namespace rapidjson {

/// RapidJSON skips byte by byte in what is no memory of its own. Traces are mostly indented.
template <>
inline void SkipWhitespace(noisemark::reports::Unpacked& text) {
  text.skip_whitespace();
}

}  // namespace rapidjson

namespace noisemark::reports {
namespace {

struct CategoryRow {
  std::string_view name;
  TraceCategory category;
};
/// Kineto's own, with the names of its first years.
constexpr CategoryRow kCategories[] = {
    {"cpu_op", TraceCategory::kOperator},
    {"Operator", TraceCategory::kOperator},
    {"user_annotation", TraceCategory::kAnnotation},
    {"cuda_runtime", TraceCategory::kRuntime},
    {"cuda_driver", TraceCategory::kRuntime},
    {"Runtime", TraceCategory::kRuntime},
    {"kernel", TraceCategory::kKernel},
    {"Kernel", TraceCategory::kKernel},
    {"gpu_memcpy", TraceCategory::kKernel},
    {"Memcpy", TraceCategory::kKernel},
    {"gpu_memset", TraceCategory::kKernel},
    {"Memset", TraceCategory::kKernel},
    {"cuda_sync", TraceCategory::kSync},
};

/// The kinds of values of an event.
enum class Part : uint32_t {
  kNone,
  kPhase,
  kName,
  kCategory,
  kStart,
  kDuration,
  kPid,
  kTid,
  kArguments,
  kStream,
  kCorrelation,
  kWaitStream,
  kWaitRecord,
};
struct PartRow {
  std::string_view key;
  Part part;
};
constexpr PartRow kEventParts[] = {{"ph", Part::kPhase},     {"name", Part::kName},
                                   {"cat", Part::kCategory}, {"ts", Part::kStart},
                                   {"dur", Part::kDuration}, {"pid", Part::kPid},
                                   {"tid", Part::kTid},      {"args", Part::kArguments}};
constexpr PartRow kArgumentParts[] = {{"stream", Part::kStream},
                                      {"correlation", Part::kCorrelation},
                                      {"wait_on_stream", Part::kWaitStream},
                                      {"wait_on_cuda_event_record_corr_id", Part::kWaitRecord}};

template <size_t kCount>
Part part_of(const PartRow (&rows)[kCount], std::string_view key) {
  for (const PartRow& row : rows) {
    if (row.key.size() == key.size() && row.key[0] == key[0] && row.key == key) return row.part;
  }
  return Part::kNone;
}

constexpr double kLargest = 9e15;  // every integer up to there is a double

/// A number of the file; empty for a text that is none, and for one that counts nothing.
std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = fault == std::errc() && end == text.data() + text.size();
  return is_whole && std::abs(number) < kLargest ? std::optional(number) : std::nullopt;
}

/// An integer of the file, also written as 7.0 or "7"; empty for what is none.
std::optional<int64_t> integer_of(std::string_view text) {
  const std::optional<double> number = number_of(text);
  if (!number || std::floor(*number) != *number) return std::nullopt;
  return static_cast<int64_t>(*number);
}

/// Gives every text one number, in the order in which they come.
class Names {
 public:
  uint32_t number_of(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<uint32_t>(names_.size());
    names_.emplace_back(name);
    numbers_.emplace(name, number);
    return number;
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> numbers_;
};

/// Gives texts their numbers that are mostly the one before again.
class RepeatedName {
 public:
  uint32_t number_of(std::string_view name, Names& names) {
    if (number_ && name == name_) return *number_;
    name_ = name;
    return *(number_ = names.number_of(name));
  }

 private:
  std::string name_;
  std::optional<uint32_t> number_;
};

/// Takes what RapidJSON meets, and keeps the events that have a category and a duration.
class Collector : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Collector> {
 public:
  explicit Collector(std::string where) : where_(std::move(where)) {}

  /// Throws Error where there was nothing of kineto.
  Trace take() {
    if (!has_list_) throw bad_input(where_, "traceEvents", "no such list", kAccepted);
    if (!has_kinetos_) {
      const std::string found =
          others_.empty() ? "no event with a category and a duration"
                          : fmt::format("only events of other tools: {}", fmt::join(others_, ", "));
      throw bad_input(where_, "traceEvents", found, kAccepted);
    }
    trace_.names = names_.take();
    complete(trace_);
    return std::move(trace_);
  }

  // RapidJSON's names.
  bool Null() { return value("null", Kind::kNull); }
  bool Bool(bool is_true) { return value(is_true ? "true" : "false", Kind::kOther); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return value({text, size}, Kind::kNumber);
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return value({text, size}, Kind::kText);
  }
  bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    const std::string_view key(text, size);
    if (depth_ == 1) {
      in_events_ = key == "traceEvents";
      if (in_events_ && has_list_) throw bad_input(where_, "traceEvents", "twice", "one list");
    }
    if (!in_events_) return true;
    if (depth_ == kEventDepth) part_ = part_of(kEventParts, key);
    if (in_arguments_ && depth_ == kEventDepth + 1) part_ = part_of(kArgumentParts, key);
    if (has(part_)) throw bad_input(where_, place(part_), "twice", "once");
    if (part_ != Part::kNone) seen_ |= bit(part_);
    return true;
  }
  bool StartObject() {
    if (part_ != Part::kArguments) note_fault("an object");
    open();
    if (in_events_ && depth_ == kEventDepth) begin_event();
    if (in_events_ && depth_ == kEventDepth + 1) in_arguments_ = part_ == Part::kArguments;
    return true;
  }
  bool EndObject(rapidjson::SizeType /*members*/) {
    if (in_events_ && depth_ == kEventDepth) end_event();
    return close();
  }
  bool StartArray() {
    require_event("a list");
    note_fault("a list");
    open();
    if (in_events_ && depth_ == kEventDepth - 1) has_list_ = true;
    return true;
  }
  bool EndArray(rapidjson::SizeType /*elements*/) { return close(); }

 private:
  enum class Kind { kNumber, kText, kNull, kOther };
  static constexpr int kEventDepth = 3;  // the document, its list, an event of that
  static constexpr size_t kShown = 60;   // bytes of a value in the words of an error
  static constexpr const char* kWholeEvent =
      "ph, cat, name, pid, tid, ts and dur, as kineto writes each event";
  static constexpr int kDeepest = 200;  // RapidJSON calls itself for each level

  void open() {
    if (++depth_ > kDeepest) {
      throw bad_input(where_, "", fmt::format("more than {} levels of brackets", kDeepest),
                      kAccepted);
    }
  }
  bool close() {
    if (--depth_ == kEventDepth) in_arguments_ = false;
    part_ = Part::kNone;
    return true;
  }

  /// Throws Error for what stands in the list of events and is none.
  void require_event(std::string_view found) const {
    if (!in_events_ || depth_ != kEventDepth - 1) return;
    throw bad_input(where_, fmt::format("traceEvents[{}]", events_),
                    std::string(found.substr(0, kShown)), "an object");
  }

  bool value(std::string_view text, Kind kind) {
    require_event(text);
    const bool is_part =
        in_events_ && (depth_ == kEventDepth || (in_arguments_ && depth_ == kEventDepth + 1));
    if (is_part) take_part(text, kind);
    return true;
  }

  static uint32_t bit(Part part) { return 1U << static_cast<uint32_t>(part); }
  [[nodiscard]] bool has(Part part) const { return (seen_ & bit(part)) != 0; }

  /// "traceEvents[3].args.stream"
  [[nodiscard]] std::string place(Part part) const {
    std::string words = fmt::format("traceEvents[{}].", events_);
    for (const PartRow& row : kEventParts) {
      if (row.part == part) words += row.key;
    }
    for (const PartRow& row : kArgumentParts) {
      if (row.part == part) words += fmt::format("args.{}", row.key);
    }
    return words;
  }

  /// Notes that the part at hand is not as kineto writes it. Only the event's category, which may
  /// stand behind it, says whether that is a fault.
  void note_fault(std::string_view found) {
    if (part_ == Part::kNone || fault_) return;
    const char* accepted = part_ == Part::kName || part_ == Part::kCategory ? "a text"
                           : part_ == Part::kPhase                          ? "X"
                           : part_ == Part::kArguments                      ? "an object"
                           : part_ == Part::kPid || part_ == Part::kTid     ? "a number or a text"
                           : part_ == Part::kStart || part_ == Part::kDuration
                               ? "a number of microseconds"
                               : "a whole number";
    fault_ = bad_input(where_, place(part_), std::string(found.substr(0, kShown)), accepted);
  }

  void take_integer(std::string_view text, Kind kind, int64_t& to) {
    const std::optional<int64_t> number = integer_of(text);
    if (!number && kind != Kind::kNull) note_fault(text);
    to = number.value_or(-1);
  }

  void take_part(std::string_view text, Kind kind) {
    const bool is_text = kind == Kind::kText;
    const bool is_name = is_text || kind == Kind::kNumber;
    switch (part_) {
      case Part::kPhase:
        if (text != "X") note_fault(text);
        break;
      case Part::kName:
        if (!is_text) note_fault(text);
        event_.name = names_.number_of(text);
        break;
      case Part::kCategory:
        category_ = text;
        break;
      case Part::kStart:
        start_.take(text, kind);
        break;
      case Part::kDuration:
        duration_.take(text, kind);
        break;
      case Part::kPid:
        if (!is_name) note_fault(text);
        event_.pid = pid_.number_of(text, names_);
        break;
      case Part::kTid:
        if (!is_name) note_fault(text);
        event_.tid = tid_.number_of(text, names_);
        break;
      case Part::kStream:
        take_integer(text, kind, event_.stream);
        break;
      case Part::kCorrelation:
        take_integer(text, kind, event_.correlation);
        break;
      case Part::kWaitStream:
        take_integer(text, kind, wait_.stream);
        break;
      case Part::kWaitRecord:
        take_integer(text, kind, wait_.record);
        break;
      case Part::kArguments:
        if (kind != Kind::kNull) note_fault(text);
        break;
      case Part::kNone:
        break;
    }
    part_ = Part::kNone;
  }

  void begin_event() {
    event_ = TraceEvent();
    event_.name = event_.pid = event_.tid = nameless_;
    wait_ = TraceWait();
    category_.clear();
    start_ = duration_ = Time();
    seen_ = 0;
    fault_.reset();
  }

  /// Throws Error for an event of kineto's that it would not write so: what is not known of it
  /// would be missing from every sum.
  void require_whole(TraceCategory category) {
    if (fault_) throw *fault_;
    for (const Part part : {Part::kName, Part::kPid, Part::kTid, Part::kStart, Part::kDuration}) {
      if (!has(part)) throw bad_input(where_, place(part), "missing", kWholeEvent);
    }
    if (category != TraceCategory::kKernel || event_.stream >= 0) return;
    throw bad_input(where_, place(Part::kStream),
                    has(Part::kStream) ? fmt::format("{}", event_.stream) : "missing",
                    "the number of the stream on which the device ran it");
  }

  void end_event() {
    keep_event();
    ++events_;
  }

  void keep_event() {
    const auto* row = std::find_if(std::begin(kCategories), std::end(kCategories),
                                   [&](const auto& each) { return each.name == category_; });
    const bool is_kinetos = row != std::end(kCategories);
    if (is_kinetos) require_whole(row->category);
    if (category_.empty() || category_ == "Trace" || duration_.is_absent()) return;
    const double start = time(start_, Part::kStart);
    const double duration = time(duration_, Part::kDuration);
    event_.start = static_cast<int64_t>(std::ceil(start));
    // Within one microsecond the two roundings would change places. Until 2022 kineto also wrote an
    // event that had not ended as one that ends before it begins; since then it gives it no length.
    event_.end = std::max(event_.start, static_cast<int64_t>(std::floor(start + duration)));
    if (is_kinetos) event_.category = row->category;
    has_kinetos_ = has_kinetos_ || is_kinetos;
    constexpr size_t kMostOthers = 5;  // others that an error names
    if (!is_kinetos && others_.size() < kMostOthers) others_.insert(category_);
    if (wait_.stream >= 0 || wait_.record >= 0) {
      event_.wait = static_cast<int32_t>(trace_.waits.size());
      trace_.waits.push_back(wait_);
    }
    trace_.events.push_back(event_);
  }

  /// A time as the file has it.
  struct Time {
    std::optional<double> number;
    std::string text;  ///< beginning of its text, if it is no number

    void take(std::string_view found, Kind kind) {
      if (kind == Kind::kNumber) number = number_of(found);
      if (!number) text = found.substr(0, kShown);
    }
    [[nodiscard]] bool is_absent() const { return !number && text.empty(); }
  };

  [[nodiscard]] double time(const Time& found, Part part) const {
    if (found.number) return *found.number;
    throw bad_input(where_, place(part), found.text.empty() ? "missing" : found.text,
                    "a number of microseconds");
  }

  std::string where_;
  Names names_;
  const uint32_t nameless_ = names_.number_of("");
  RepeatedName pid_;
  RepeatedName tid_;
  Trace trace_;
  size_t events_ = 0;
  std::set<std::string> others_;
  bool has_list_ = false;
  bool has_kinetos_ = false;

  int depth_ = 0;
  bool in_events_ = false;
  bool in_arguments_ = false;
  Part part_ = Part::kNone;
  uint32_t seen_ = 0;  ///< the event's parts, a bit each
  std::optional<Error> fault_;

  TraceEvent event_;
  TraceWait wait_;
  std::string category_;
  Time start_;
  Time duration_;
};

/// "no JSON: invalid value".
std::string no_json(rapidjson::ParseErrorCode code) {
  std::string words = rapidjson::GetParseError_En(code);
  if (words.ends_with('.')) words.pop_back();
  words.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(words.front())));
  return "no JSON: " + words;
}

}  // namespace

Trace read_trace(const std::filesystem::path& path) {
  Unpacked text(path);
  Collector collector(path.string());
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseNumbersAsStringsFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(text, collector);
  if (result.IsError()) {
    throw bad_input(path.string(), fmt::format("byte {}", result.Offset()),
                    text.at_end() ? "it is cut off" : no_json(result.Code()), kAccepted);
  }
  return collector.take();
}

}  // namespace noisemark::reports
