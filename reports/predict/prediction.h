#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/fields.h"
#include "reports/base/statistics.h"
#include "reports/result/result.h"

/// The time and the memory of a training step at batch sizes that nobody ran, from some that were
/// run: the predictions of Skyline (Yu et al., UIST 2020), with intervals, and with memory by
/// owner.
namespace noisemark::reports {

/// A batch size that was run.
struct BatchPoint {
  int64_t batch = 0;
  double step_s = 0;       ///< time of a step
  Interval step_ci95;      ///< its interval of 95 %
  int64_t peak_bytes = 0;  ///< the most live bytes of a step
  std::string peak_at;     ///< phase and operator of the peak
  /// Bytes at the peak by owner; those without one are "unattributed".
  std::map<std::string, int64_t> owners;
};

/// The times of steps, in s, of a training and of a reference, which took turns.
struct TurnBlock {
  std::vector<double> step_s;
  std::vector<double> reference_s;
};

/// The time of a step, and the interval of 95 % around it.
struct StepTime {
  double step_s = 0;
  Interval ci95;
};

/// A median of fewer blocks has no interval.
inline constexpr int64_t kFewestBlocks = 6;

/// Returns the time of a step while the reference needs `reference_s`: a machine that slows down
/// slows down both, so it is the median of the blocks' ratios that counts, with its interval.
/// `blocks` are at least kFewestBlocks.
[[nodiscard]] StepTime step_in_turns(const std::vector<TurnBlock>& blocks, double reference_s);

/// Takes the memory from a result, and leaves the time to turns: a run's own belongs to its minute.
/// Throws Error (bad input), which names `where`, if the run measured no memory or ended untimed.
[[nodiscard]] BatchPoint batch_point(const Result& result, const std::string& where);

/// Distance of a batch size from those that were run.
enum class BatchRange {
  kWithin,  ///< lies between the smallest and the largest
  kNear,    ///< is at least half of the smallest and at most twice the largest
  kBeyond,  ///< further away: no error of such predictions was measured
};

struct BatchPrediction {
  int64_t batch = 0;
  BatchRange range = BatchRange::kWithin;
  double step_s = 0;
  Interval step_ci95;
  int64_t peak_bytes = 0;

  [[nodiscard]] double images_per_s() const { return static_cast<double>(batch) / step_s; }
};

/// Predicts the steps of one variant.
///
/// A step's time is a straight line in the batch size, fitted by least squares of relative errors,
/// unless a point lies further from the line than 2 % and than its interval: then it is straight
/// between neighbouring points, and goes on beyond them as between the last two. An interval holds
/// what the points' own intervals, and their distances from the line, leave open, and the error of
/// a straight line where the time goes on to bend as between the points. Every owner of
/// memory holds bytes in proportion to the batch size or always the same, so the peak is always
/// straight between points.
class BatchModel {
 public:
  /// Throws Error (bad input) for fewer than three points or two of one batch size.
  explicit BatchModel(std::vector<BatchPoint> points);

  [[nodiscard]] const std::vector<BatchPoint>& points() const { return points_; }
  /// Returns whether one straight line describes the time at all points.
  [[nodiscard]] bool is_straight() const { return straight_; }
  /// `batch` is at least 1.
  [[nodiscard]] BatchPrediction at(int64_t batch) const;
  /// The last batch size for which predictions are near().
  [[nodiscard]] int64_t last_near() const { return 2 * points_.back().batch; }
  /// The largest batch size whose peak stays within so many bytes; empty if none does or if the
  /// peak does not grow.
  [[nodiscard]] std::optional<int64_t> largest_within(int64_t bytes) const;
  /// The smallest batch size with at least 95 % of the most images/s up to last_near().
  [[nodiscard]] int64_t knee() const;

 private:
  using Weights = std::vector<double>;
  [[nodiscard]] Weights pieces(double batch) const;
  [[nodiscard]] Weights line(double batch) const;
  [[nodiscard]] Weights times(double batch) const {
    return straight_ ? line(batch) : pieces(batch);
  }
  void find_deviations();
  void find_bend();
  [[nodiscard]] double error_at(double batch, const Weights& weights) const;

  std::vector<BatchPoint> points_;  ///< points in the order of their batch sizes
  std::vector<double> deviations_;  ///< standard deviation of each point's time, in s
  double bend_ = 0;  ///< largest change of a slope between points, in s per image squared
  bool straight_ = true;
};

/// A variant overtakes another where it is faster in the same memory, although slower at the same
/// batch.
struct Overtaking {
  int64_t batch = 0;         ///< the other's smallest batch at which it is overtaken
  int64_t memory_bytes = 0;  ///< its peak there
  int64_t larger_batch = 0;  ///< the variant's largest batch that fits into this memory
};

/// Searches up to the other's last_near(); empty if it is not overtaken there.
[[nodiscard]] std::optional<Overtaking> overtaking(const BatchModel& variant,
                                                   const BatchModel& other);

/// One variant's points, and those that were held out to check it.
struct PredictedVariant {
  std::string name;  ///< its mode
  std::vector<BatchPoint> points;
  std::vector<BatchPoint> held_out;
  Strings work = {};  ///< fields in which a run of any batch agrees that is of its work
};

/// Limits of the relative error of a checked prediction.
inline constexpr double kMostTimeError = 0.10;
inline constexpr double kMostMemoryError = 0.01;

/// The contents of predict.json: measurements, and both curves of every variant.
struct PredictionFile {
  struct Variant {
    std::string name;
    bool straight = true;
    int64_t knee = 0;
    std::vector<BatchPoint> measured;
    std::vector<BatchPoint> held_out;
    std::vector<BatchPrediction> curve;
    Strings work;
  };
  std::string title;
  std::optional<int64_t> memory_bytes;
  std::vector<Variant> variants;
};

struct PredictionPage {
  std::string text;  ///< Markdown
  std::string json;  ///< the text of predict.json
  ExitCode code = ExitCode::kPass;
};

/// Predicts every variant, the first of which the others are compared with. Sizes beside the
/// measured ones are shown too, and the largest batch within `memory_bytes` if it is given. The
/// code is kFailed if a held-out size departs by more than the limits, and kInconclusive where its
/// measured interval reaches within them.
[[nodiscard]] PredictionPage predict(const std::string& title,
                                     const std::vector<PredictedVariant>& variants,
                                     std::optional<int64_t> memory_bytes);

/// Returns the works of the variants in the text of predict.json, by mode. It is empty for a text
/// that says none.
[[nodiscard]] std::map<std::string, Strings> predicted_works(const std::string& json);

/// Five sizes to check a prediction from `batches` by: two between them, and three beyond, the last
/// twice the largest. Multiples of `step`. Throws Error (bad input) if the sizes lie too close.
[[nodiscard]] std::vector<int64_t> held_out_batches(const std::vector<int64_t>& batches,
                                                    int64_t step);

/// The fields of predict.json, which is only written: pages draw from it.
namespace json {

inline constexpr Document kPredictionDocument{
    "noisemark.prediction", "The time and the peak of memory at measured and other batches.",
    false};

template <class Point>
double low_of(const Point& point) {
  return point.step_ci95.low;
}
template <class Point>
double high_of(const Point& point) {
  return point.step_ci95.high;
}

template <>
struct Fields<BatchPoint> {
  using T = BatchPoint;
  static constexpr About kAbout{"BatchPoint", "A batch size that was run."};
  static constexpr std::tuple kAll{
      field("batch", &T::batch, "images of a step"),
      field("step_s", &T::step_s,
            "time of a step: that of the smallest size times the median ratio to it, in turns"),
      computed("low_s", &low_of<T>, "lower end of its 95 % interval, from that of the ratio"),
      computed("high_s", &high_of<T>, "upper end of its 95 % interval, from that of the ratio"),
      field("peak_bytes", &T::peak_bytes, "the most live bytes of a step"),
      field("peak_at", &T::peak_at, "phase and operator of the peak"),
      field("owners", &T::owners, "bytes at the peak by owner")};
};

template <>
struct Fields<BatchPrediction> {
  using T = BatchPrediction;
  static constexpr About kAbout{"BatchPrediction", "A point of the curves."};
  static bool is_within(const T& at) { return at.range == BatchRange::kWithin; }
  static constexpr std::tuple kAll{
      field("batch", &T::batch, "images of a step"),
      computed("within", &Fields::is_within, "whether it lies between measured sizes"),
      field("step_s", &T::step_s, "predicted time of a step"),
      computed("low_s", &low_of<T>, "lower end of the time's 95 % interval"),
      computed("high_s", &high_of<T>, "upper end of the time's 95 % interval"),
      field("peak_bytes", &T::peak_bytes, "predicted peak of live bytes")};
};

template <>
struct Fields<PredictionFile::Variant> {
  using T = PredictionFile::Variant;
  static constexpr About kAbout{"Variant", "The training under one mode."};
  static constexpr std::tuple kAll{
      field("name", &T::name, "name of the mode"),
      field("straight", &T::straight, "whether one line describes the time at all points"),
      field("knee", &T::knee, "the smallest batch with 95 % of the most images/s"),
      field("measured", &T::measured, "points that the prediction is made from"),
      field("held_out", &T::held_out, "points that only check the prediction"),
      field("curve", &T::curve, "points from half of the smallest to twice the largest batch"),
      field("work", &T::work, "fields in which a run of any batch agrees that is of this work")};
};

template <>
struct Fields<PredictionFile> {
  using T = PredictionFile;
  static constexpr About kAbout{"PredictionFile", ""};
  static constexpr std::tuple kAll{
      field("title", &T::title, "name of the benchmark"),
      field("memory_bytes", &T::memory_bytes, "the memory that was asked about; null: none was"),
      field("variants", &T::variants, "modes; the first is the one that others are compared with")};
};

}  // namespace json
}  // namespace noisemark::reports
