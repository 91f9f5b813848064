#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "reports/base/fields.h"
#include "reports/profile/recording.h"
#include "reports/render/plot.h"

/// The least time of a step's operators on this machine beside the measured one (the roofline
/// model: Williams, Waterman, Patterson, CACM 52(4), 2009).
namespace noisemark::reports {

/// One call of an operator, and the least that it has to do. No work is that of a view, of an
/// allocation, and of an operator whose work an operator within it does.
struct OperatorWork {
  std::string name;
  std::string shapes;  ///< shapes of its tensors: "[128, 64, 32, 32] [64, 64, 3, 3]"
  std::string type;    ///< in which it computes: "float32"
  int64_t flops = 0;
  int64_t bytes = 0;      ///< bytes read and written, each once
  int64_t footprint = 0;  ///< bytes of all its tensors: what is read and written is there once

  [[nodiscard]] bool any() const { return flops > 0 || bytes > 0; }
};

/// The work of one step's calls in the order of their beginnings, for each thread, and the threads
/// in the order of their first calls.
using StepWork = std::vector<std::vector<OperatorWork>>;

/// The fastest matrix product that was measured.
struct ProductPeak {
  std::string type;
  int64_t threads = 0;
  double flop_per_s = 0;
  std::string method;
};

/// The fastest of a fill, a sum, a copy and an addition in place within a working set.
struct MemoryPeak {
  int64_t threads = 0;
  int64_t working_set_bytes = 0;
  double bytes_per_s = 0;
};

/// Calls of one operator with the same shapes. Times, operations and bytes are of one step.
struct RoofRow {
  std::string name;
  std::string shapes;
  std::string type;
  double calls = 0;
  double time_s = 0;
  double flop = 0;
  double bytes = 0;
  double roof_s = 0;  ///< the least time
  bool compute_bound = false;

  [[nodiscard]] double to_win_s() const { return time_s - roof_s; }
  [[nodiscard]] double of_roof() const { return roof_s / time_s; }
  /// The measured peak that bounds it, in operations or in bytes per second.
  [[nodiscard]] double peak_per_s() const { return (compute_bound ? flop : bytes) / roof_s; }
};

/// A part of a step: the time that it took, and the time that the machine's peaks would need.
struct StepPart {
  std::string name;
  double time_s = 0;
  double roof_s = 0;
  double flop = 0;
  double bytes = 0;
  std::string missing;  ///< reason why `roof_s` is not known; empty: it is
};

struct Roofline {
  std::vector<ProductPeak> products;
  std::vector<MemoryPeak> memory;
  double step_s = 0;     ///< time of the profiled one
  double counted_s = 0;  ///< part of step_s within operators that have work
  double ideal_s = 0;    ///< sum of the least times
  std::vector<RoofRow> operators;
  std::vector<StepPart> parts;        ///< they sum up to the step
  std::vector<std::string> left_out;  ///< operators that some steps call more often than others
  std::string missing;                ///< reason why there is none; empty: there is
};

/// An operator that is faster than its roof by more than this share shows a wrong formula or peak.
inline constexpr double kRoofMargin = 0.05;
/// The number of times that peaks are measured, the fastest of which counts, while an operator is
/// above its roof.
inline constexpr int kMostPeakRounds = 3;

/// Puts the work of a step to the times of the recorded steps, by the order of each operator's
/// calls. An operator that is not called as often in both is left out. The time of a call is that
/// on the device where it was recorded, else on the host. The least time of a call is the longer of
/// two: its operations at the fastest product of its type (of float32 where its type was not
/// measured), and its bytes at the fastest speed of any working set at least half as large as its
/// tensors, since a cache may hold a part of them. Rows are by falling time to win. The parts are
/// the phase that fetches the data, what compute bounds of the other operators, what memory bounds,
/// communication, and the rest of the step. Throws Error (internal) where a step calls operators on
/// another number of threads.
[[nodiscard]] Roofline make_roofline(const Recording& recording, const StepWork& work,
                                     std::vector<ProductPeak> products,
                                     std::vector<MemoryPeak> memory);

/// Returns whether the peak that bounds the operator was measured too low: it is, where a fourth or
/// more of the other operators that it bounds are above it too. `row` is one of `roofline`.
[[nodiscard]] bool has_low_peak(const Roofline& roofline, const RoofRow& row);

/// The operators above their roof by more than kRoofMargin after kMostPeakRounds, with what is
/// wrong: the peak that bounds them, or else the formula of their work.
[[nodiscard]] std::vector<std::string> above_roof(const Roofline& roofline);

/// Section «Roofline» of profile.md, with the lines of its plot. A pure function.
[[nodiscard]] std::string roofline_section(const Roofline& roofline, double plain_step_s,
                                           const std::string& plot = "");

/// Section «The step by a model» of profile.md: the parts as the model of a study adds them up
/// (PAI, IISWC 2019) beside the measured ones. It is empty without parts. A pure function.
[[nodiscard]] std::string step_model_section(const Roofline& roofline);

/// Speed against operations per byte, with the roofs. Behind the figures of an operator its row of
/// the data says in words what it is. It is empty where no operator has both operations and bytes,
/// or no peak was measured. A pure function.
[[nodiscard]] std::optional<PlotSource> roofline_plot(const Roofline& roofline);

}  // namespace noisemark::reports

namespace noisemark::reports::json {

template <>
struct Fields<ProductPeak> {
  static constexpr About kAbout{"ProductPeak", "The fastest matrix product that was measured."};
  using T = ProductPeak;
  static constexpr std::tuple kAll{
      field("type", &T::type, "\"float32\"").not_empty(),
      field("threads", &T::threads, "threads of the host").at_least(1),
      field("flop_per_s", &T::flop_per_s, "operations per second").above(0),
      field("method", &T::method, "way in which it was measured")};
};

template <>
struct Fields<MemoryPeak> {
  static constexpr About kAbout{
      "MemoryPeak",
      "The fastest of a fill, a sum, a copy and an addition in place within a working set."};
  using T = MemoryPeak;
  static constexpr std::tuple kAll{
      field("threads", &T::threads, "threads of the host").at_least(1),
      field("working_set_bytes", &T::working_set_bytes, "bytes that the operations ran over")
          .at_least(1),
      field("bytes_per_s", &T::bytes_per_s, "read and written").above(0)};
};

template <>
struct Fields<RoofRow> {
  static constexpr About kAbout{
      "RoofRow", "Calls of one operator with the same shapes. All figures are of one step."};
  using T = RoofRow;
  static constexpr std::tuple kAll{
      field("name", &T::name, "\"aten::convolution\"").not_empty(),
      field("shapes", &T::shapes, "shapes of its tensors"),
      field("type", &T::type, "in which it computes"),
      field("calls", &T::calls, "number of the calls").above(0),
      field("time_s", &T::time_s, "with the operators within").above(0),
      field("flop", &T::flop, "operations; a multiplication with an addition is two").at_least(0),
      field("bytes", &T::bytes, "read and written at least").at_least(0),
      field("roof_s", &T::roof_s, "the least time").at_least(0),
      field("compute_bound", &T::compute_bound, "operations bound it, not bytes")};
};

template <>
struct Fields<StepPart> {
  static constexpr About kAbout{
      "StepPart", "A part of a step: the time that it took, and that which the peaks would need."};
  using T = StepPart;
  static constexpr std::tuple kAll{
      field("name", &T::name, "kind of the part").one_of("data|compute|memory|communication|rest"),
      field("time_s", &T::time_s, "as it was profiled").at_least(0),
      field("roof_s", &T::roof_s, "the least time").at_least(0),
      field("flop", &T::flop, "operations of the part").at_least(0),
      field("bytes", &T::bytes, "read and written at least").at_least(0),
      field("missing", &T::missing, "why the least time is not known; empty: it is")};
};

template <>
struct Fields<Roofline> {
  static constexpr About kAbout{"Roofline",
                                "The least time of a step's operators beside the measured one."};
  using T = Roofline;
  static constexpr std::tuple kAll{
      field("products", &T::products, "peaks of matrix products by type and threads"),
      field("memory", &T::memory, "peaks of reading and writing by threads and working set"),
      field("step_s", &T::step_s, "as it was profiled").at_least(0),
      field("counted_s", &T::counted_s, "the part of it within operators that have work")
          .at_least(0),
      field("ideal_s", &T::ideal_s, "sum of the least times").at_least(0),
      field("operators", &T::operators, "by falling time to win"),
      field("parts", &T::parts, "parts of the step's time, without overlap"),
      field("left_out", &T::left_out, "operators that some steps call more often than others"),
      field("missing", &T::missing, "why there is none; empty: there is")};
};

}  // namespace noisemark::reports::json
