#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "reports/ab/calibration.h"
#include "reports/ab/record.h"
#include "reports/base/fields.h"
#include "reports/result/result_fields.h"

namespace noisemark::reports {

/// calibration.json as a value: a calibration with its summary.
struct CalibrationFile {
  std::string benchmark;
  std::string variant;
  Strings identity;
  Strings about;
  int64_t pairs = 0;
  double seconds = 0;
  double turn_s = 0;
  std::optional<CalibrationSummary> summary;  ///< is empty without units
  std::vector<CalibrationUnit> units;
};

/// The fields of ab.json and of calibration.json, in the order in which they are written.
namespace json {

inline constexpr Document kAbDocument{
    "noisemark.ab", "Raw samples of two builds that ran in turns, from which all else follows."};

inline constexpr Document kCalibrationDocument{
    "noisemark.calibration", "Comparisons of one build with itself on one machine."};

inline constexpr Document kPaceDocument{"noisemark.pace", "The session, once it is ready.", false,
                                        "the first line of noisemark pace"};

inline constexpr Document kTurnDocument{"noisemark.turn",
                                        "The samples of the turn that was asked for.", false,
                                        "every further line of noisemark pace"};

template <>
inline constexpr std::array kNames<AbSide>{std::pair{AbSide::kA, std::string_view{"A"}},
                                           std::pair{AbSide::kB, std::string_view{"B"}}};

template <>
struct Fields<AbPlan> {
  using T = AbPlan;
  static constexpr About kAbout{"AbPlan", "Decisions from before the first step that counts."};
  static constexpr std::tuple kAll{
      field("pairs", &T::pairs, "pairs of the first look; as many again when it is inconclusive")
          .at_least(0),
      field("warmup_steps", &T::warmup_steps, "steps of the turn that does not count").at_least(0),
      field("turn_steps", &T::turn_steps, "steps of a turn").at_least(0),
      field("blocks", &T::blocks, "blocks of four turns in a pair").at_least(0),
      field("seconds", &T::seconds, "time that the first look was meant to take"),
      field("slow_down_frac", &T::slow_down_frac, "time put into every step of B, as a control"),
      field("noise_floor_frac", &T::noise_floor_frac, "calibrated noise floor; 0 without one"),
      field("turn_s", &T::turn_s, "time that a turn was meant to take at most")};
};

template <>
struct Fields<AbBuild> {
  static constexpr About kAbout{"AbBuild",
                                "A build, as it describes itself before its first step."};
  static constexpr std::tuple kAll{
      field("name", &AbBuild::name, "program or revision, as the user gave it"),
      field("benchmark", &AbBuild::benchmark, "\"gmm16-ho@cpu\""),
      field("variant", &AbBuild::variant, "\"none-plain-fp32\""),
      field("batch", &AbBuild::batch, "images per step").at_least(0),
      field("parameters", &AbBuild::parameters, "trainable parameters").at_least(0),
      field("identity", &AbBuild::identity, "everything that must be equal on both sides"),
      field("about", &AbBuild::about,
            "everything that may differ: commit, digest of the program, software")};
};

template <>
struct Fields<PaceReady> {
  using T = PaceReady;
  static constexpr About kAbout{"PaceReady", ""};
  static constexpr std::tuple kAll{
      field("ready", &T::ready, "always true"),
      field<T>("benchmark", &T::benchmark, "\"gmm16-ho@cpu\""),
      field<T>("variant", &T::variant, "\"none-plain-fp32\""),
      field("threads", &T::threads, "threads of LibTorch").left_out_if_empty(),
      field<T>("batch", &T::batch, "images of a step").at_least(0),
      field<T>("parameters", &T::parameters, "trainable parameters").at_least(0),
      field<T>("identity", &T::identity, "what another build must agree in to do the same work"),
      field<T>("about", &T::about, "what may differ: commit, digest of the program, software")};
};

template <>
struct Fields<PaceTurn> {
  using T = PaceTurn;
  static constexpr About kAbout{"PaceTurn", ""};
  static constexpr std::tuple kAll{
      field<T>("step_s", &T::step_s, "whole steps"),
      field<T>("data_wait_s", &T::data_wait_s, "waits for the batch").left_out_if_empty(),
      field<T>("forward_s", &T::forward_s, "forward passes").left_out_if_empty(),
      field<T>("backward_s", &T::backward_s, "backward passes").left_out_if_empty(),
      field<T>("optimizer_s", &T::optimizer_s, "optimizer updates").left_out_if_empty(),
      field<T>("ema_s", &T::ema_s, "updates of the averaged weights").left_out_if_empty(),
      field<T>("loss", &T::loss, "training losses, each the mean over micro-batches")};
};

template <>
struct Fields<AbTurn> {
  static constexpr About kAbout{"AbTurn", "Steps of one build, while the other waits."};
  static constexpr std::tuple kAll{field("side", &AbTurn::side, "build that made the steps"),
                                   field("step_s", &AbTurn::step_s, "whole steps").above(0),
                                   field("loss", &AbTurn::loss, "loss of each step")};
};

template <>
struct Fields<AbPair> {
  static constexpr About kAbout{"AbPair", "Two live processes, one of each build."};
  static constexpr std::tuple kAll{
      field("first", &AbPair::first, "build that was started first and began"),
      field("warmup", &AbPair::warmup, "turns that no figure of time counts"),
      field("turns", &AbPair::turns, "blocks of four turns: ABBA or BAAB"),
      field("clock_reasons", &AbPair::clock_reasons,
            "reasons that held the GPU's clocks down after the last turn")
          .left_out_if_empty()};
};

template <>
struct Fields<ExactRow> {
  static constexpr About kAbout{"ExactRow", "A figure without noise of short runs of both builds."};
  static constexpr std::tuple kAll{
      field("metric", &ExactRow::metric, "name of the figure"),
      field("unit", &ExactRow::unit, "unit of the figure"),
      field("a", &ExactRow::base, "figure of A").left_out_if_empty(),
      field("b", &ExactRow::candidate, "figure of B").left_out_if_empty(),
      field("a_digest", &ExactRow::base_digest, "digest of A").left_out_if_empty(),
      field("b_digest", &ExactRow::candidate_digest, "digest of B").left_out_if_empty(),
      field("verdict", &ExactRow::verdict, "judgement of the two figures"),
      field("words", &ExactRow::words, "one sentence where they differ")};
};

template <>
struct Fields<AbRecord> {
  static constexpr About kAbout{"AbRecord", ""};
  static constexpr std::tuple kAll{
      field("created_utc", &AbRecord::created_utc, "time in the form of RFC 3339").time(),
      field("ended", &AbRecord::ended, "reason why it ended early; empty as planned"),
      field("plan", &AbRecord::plan, "the plan of the turns, made before the first of them"),
      field("a", &AbRecord::a, "base"),
      field("b", &AbRecord::b, "candidate"),
      field("environment", &AbRecord::environment, "everything else about the machine")
          .left_out_if_empty(),
      field("figures", &AbRecord::figures, "figures of short runs, before the first pair"),
      field("pairs", &AbRecord::pairs, "live processes of both builds, and their turns")};
};

template <>
struct Fields<CalibrationUnit> {
  static constexpr About kAbout{"CalibrationUnit", "One comparison of a build with itself."};
  static constexpr std::tuple kAll{
      field("created_utc", &CalibrationUnit::created_utc, "time in the form of RFC 3339").time(),
      field("verdict", &CalibrationUnit::verdict, "verdict of the comparison"),
      field("alarm", &CalibrationUnit::alarm,
            "true for a regression and for a figure without noise that differed"),
      field("worsening", &CalibrationUnit::worsening,
            "log of B's step over A's: Hodges-Lehmann over the judged pairs"),
      field("pairs", &CalibrationUnit::pairs, "worsening of each judged pair"),
      field("step_s", &CalibrationUnit::step_s, "step of A: median over the judged pairs")
          .above(0)};
};

template <>
struct Fields<CalibrationSummary> {
  using T = CalibrationSummary;
  static constexpr About kAbout{"CalibrationSummary",
                                "Figures that follow from the units; a reader makes them again."};
  static constexpr std::tuple kAll{
      field("units", &T::units, "number of units"),
      field("alarms", &T::alarms, "units that were alarms"),
      field("alarm_rate_ci95", &T::alarm_rate, "rate of alarms by Clopper and Pearson"),
      field("noise_floor_frac", &T::noise_floor_frac, "noise that 95 % of the units stay within"),
      field("session_deviation", &T::session_deviation,
            "standard deviation of the difference of two units' logarithms"),
      field("units_needed", &T::units_needed, "units in all, if no further one is an alarm"),
      field("refusal", &T::refusal,
            "reason why nothing may be gated with it; empty where it is usable")};
};

template <>
struct Fields<CalibrationFile> {
  static constexpr About kAbout{"CalibrationFile", ""};
  static constexpr std::tuple kAll{
      field("benchmark", &CalibrationFile::benchmark, "\"gmm16-ho@cpu\""),
      field("variant", &CalibrationFile::variant, "\"none-plain-fp32\""),
      field("identity", &CalibrationFile::identity, "work and machine that it holds for"),
      field("about", &CalibrationFile::about, "build that was calibrated"),
      field("pairs", &CalibrationFile::pairs, "pairs of every unit").at_least(0),
      field("seconds", &CalibrationFile::seconds, "time that a unit was meant to take"),
      field("turn_s", &CalibrationFile::turn_s, "time that a turn was meant to take at most"),
      field("summary", &CalibrationFile::summary,
            "noise that the units show; absent: there is no unit")
          .left_out_if_empty(),
      field("units", &CalibrationFile::units, "comparisons of the build with itself")};
};

}  // namespace json
}  // namespace noisemark::reports
