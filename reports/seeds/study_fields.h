#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/base/fields.h"
#include "reports/result/result_fields.h"
#include "reports/seeds/study.h"

/// The fields of quality.json, in the order in which they are written.
namespace noisemark::reports::json {

inline constexpr Document kQualityDocument{
    "noisemark.quality",
    "Several seeds under several modes, judged beside a reference, and how they were judged."};

template <>
inline constexpr std::array kNames<QualityVerdict>{
    std::pair{QualityVerdict::kPass, std::string_view{"PASS"}},
    std::pair{QualityVerdict::kInconclusive, std::string_view{"INCONCLUSIVE"}},
    std::pair{QualityVerdict::kBaselineNeeded, std::string_view{"BASELINE NEEDED"}},
    std::pair{QualityVerdict::kNotComparable, std::string_view{"NOT COMPARABLE"}},
    std::pair{QualityVerdict::kFail, std::string_view{"FAIL"}}};

template <>
inline constexpr std::array kNames<TestDesign>{
    std::pair{TestDesign::kPaired, std::string_view{"paired"}},
    std::pair{TestDesign::kWelch, std::string_view{"Welch"}}};

template <>
inline constexpr std::array kNames<DifferenceScale>{
    std::pair{DifferenceScale::kLogRatio, std::string_view{"log-ratio"}},
    std::pair{DifferenceScale::kDifference, std::string_view{"difference"}}};

template <>
struct Fields<VariantRuns> {
  static constexpr About kAbout{"VariantRuns", "A variant, or its reference, and its runs."};
  static constexpr std::tuple kAll{
      field("benchmark", &VariantRuns::benchmark, "\"gmm16-ho@cpu\""),
      field("variant", &VariantRuns::variant, "\"echo+dpr8-plain-fp32\""),
      field("seeds", &VariantRuns::seeds, "seeds of the runs"),
      field("run_ids", &VariantRuns::run_ids, "ids of the runs, in the order of the seeds"),
      field("commits", &VariantRuns::commits, "sorted; \"+\" behind one: with changes"),
      field("remarks", &VariantRuns::remarks, "reasons why this is not the locked work"),
      field("repeat_command", &VariantRuns::repeat_command, "command of the first seed")};
};

template <>
struct Fields<SeedPair> {
  static constexpr About kAbout{"SeedPair", "One seed of a row."};
  static constexpr std::tuple kAll{
      field("seed", &SeedPair::seed, "seed of both runs"),
      field("reference", &SeedPair::reference, "value of the reference's run"),
      field("candidate", &SeedPair::candidate, "value of the variant's run"),
      field("worsening", &SeedPair::worsening, "in the row's scale; positive is worse")};
};

template <>
struct Fields<QualityRow> {
  using T = QualityRow;
  static constexpr About kAbout{
      "QualityRow",
      "A measure of a variant beside its reference. Differences, intervals and margins are in the "
      "row's scale and positive where the variant is worse."};
  static constexpr std::tuple kAll{
      field("benchmark", &T::benchmark, "\"gmm16-ho@cpu\""),
      field("variant", &T::variant, "\"echo+dpr8-plain-fp32\""),
      field("reference", &T::reference, "\"none-plain-fp32\""),
      field("measure", &T::measure, "a metric of the result, or \"loss\""),
      field("timestep", &T::timestep, "timestep of \"loss\""),
      field("unit", &T::unit, "unit of the measure"),
      field("scale", &T::scale, "log(variant / reference), or variant - reference"),
      field("gated", &T::gated, "true where it has a verdict"),
      field("margin", &T::margin, "margin of a gated row"),
      field("margin_from", &T::margin_from, "\"definition\", \"default\" or \"given\""),
      field("seeds", &T::seeds, "seeds that have a value on both sides"),
      field("reference_mean", &T::reference_mean,
            "the reference's mean over seeds; geometric for log-ratios"),
      field("candidate_mean", &T::candidate_mean, "the variant's mean, taken in the same way"),
      field("correlation", &T::correlation, "correlation of both sides across seeds"),
      field("design", &T::design, "test; null: nothing was tested"),
      field("difference", &T::difference, "difference of the variant from its reference"),
      field("interval", &T::interval, "interval of confidence 1 - 2 alpha"),
      field("degrees", &T::degrees, "degrees of freedom"),
      field("p", &T::p, "p of \"it differs by the margin or more\" (TOST)"),
      field("p_adjusted", &T::p_adjusted, "the same by Holm among the tested rows"),
      field("detectable", &T::detectable, "smallest true difference that these seeds would show"),
      field("seeds_needed", &T::seeds_needed,
            "seeds, in all, that would decide an inconclusive row"),
      field("verdict", &T::verdict, "verdict of a gated row"),
      field("words", &T::words, "reason of the verdict")};
};

template <>
struct Fields<RangeRow> {
  static constexpr About kAbout{"RangeRow",
                                "A figure that must lie in a range, over the seeds of a variant."};
  static constexpr std::tuple kAll{
      field("benchmark", &RangeRow::benchmark, "benchmark of the runs"),
      field("variant", &RangeRow::variant, "variant that is judged"),
      field("measure", &RangeRow::measure, "metric of the result"),
      field("unit", &RangeRow::unit, "unit of the metric"),
      field("low", &RangeRow::low, "lower end of the range"),
      field("high", &RangeRow::high, "upper end of the range"),
      field("seeds", &RangeRow::seeds, "number of seeds"),
      field("mean", &RangeRow::mean, "mean over the seeds"),
      field("interval", &RangeRow::interval, "interval of that mean"),
      field("verdict", &RangeRow::verdict, "verdict of the row"),
      field("words", &RangeRow::words, "reason of the verdict")};
};

template <>
struct Fields<StepRow> {
  static constexpr About kAbout{"StepRow",
                                "The knowledge about every step of a mode, before any statistics."};
  static constexpr std::tuple kAll{
      field("tier", &StepRow::tier, "0: bits, of a lossless mode; 1: the gradient's error"),
      field("benchmark", &StepRow::benchmark, "benchmark of the runs"),
      field("variant", &StepRow::variant, "variant that is judged"),
      field("reference", &StepRow::reference, "variant that it is compared with"),
      field("seeds", &StepRow::seeds, "seeds that are proven equal, or that measured the error"),
      field("value", &StepRow::value, "largest relative error of tier 1"),
      field("bound", &StepRow::bound, "largest error that is allowed"),
      field("verdict", &StepRow::verdict, "null: not judged"),
      field("words", &StepRow::words, "reason of the verdict")};
};

template <>
struct Fields<KernelOrigin> {
  static constexpr About kAbout{"KernelOrigin", "The samples that a kernel distance looked at."};
  static constexpr std::tuple kAll{
      field("subsets", &KernelOrigin::subsets, "number of the subsets"),
      field("subset_size", &KernelOrigin::subset_size, "samples of a subset"),
      field("draws", &KernelOrigin::draws, "\"counter\" or \"numpy\"; empty: not known"),
      field("seed", &KernelOrigin::seed, "seed of those draws")};
};

template <>
struct Fields<DistanceOrigin> {
  using T = DistanceOrigin;
  static constexpr About kAbout{"DistanceOrigin", "The facts that decide what a distance is."};
  static constexpr std::tuple kAll{
      field("metric", &T::metric, "\"fid\", \"kid\", \"cifarnet_distance\""),
      field("name", &T::name, "name that its extractor gives it"),
      field("extractor", &T::extractor, "empty: of the values themselves"),
      field("checksum", &T::checksum, "checksum of the extractor's weights"),
      field("resize", &T::resize, "treatment of images of another size"),
      field("resize_asserted", &T::resize_asserted,
            "true where the user, and not the maker of one side, says so"),
      field("dimension", &T::dimension, "features of a sample"),
      field("samples", &T::samples, "samples of the run"),
      field("kernel", &T::kernel, "null unless it is a kernel distance"),
      field("definition", &T::definition, "definition of the sampling"),
      field("sampler", &T::sampler, "\"ddim, 50 steps, eta 0\""),
      field("weights", &T::weights, "\"model\" or \"ema\""),
      field("noise", &T::noise, "\"the run's seed\", \"seed 7\""),
      field("precision", &T::precision, "precision of the sampling"),
      field("reference", &T::reference, "name of the set that the samples are compared with"),
      field("reference_samples", &T::reference_samples,
            "null: a distribution itself, or not known"),
      field("reference_sha256", &T::reference_sha256, "SHA-256 of its moments; empty: not known")};
};

template <>
struct Fields<DistanceValue> {
  static constexpr About kAbout{"DistanceValue", "A distance of one run's samples."};
  static constexpr std::tuple kAll{
      field("benchmark", &DistanceValue::benchmark, "benchmark of the run"),
      field("variant", &DistanceValue::variant, "variant of the run"),
      field("seed", &DistanceValue::seed, "seed of the run"),
      field("metric", &DistanceValue::metric, "metric of the distance"),
      field("samples", &DistanceValue::samples, "samples of the run"),
      field("value", &DistanceValue::value, "the distance; null: it is missing"),
      field("standard_error", &DistanceValue::standard_error,
            "standard error of the distance; null: it is not known"),
      field("interval", &DistanceValue::interval, "interval of other samples of these weights"),
      field("problem", &DistanceValue::problem, "reason why it counts as missing")};
};

template <>
struct Fields<SeedDifference> {
  using T = SeedDifference;
  static constexpr About kAbout{"FieldDifference", "A field in which runs differ."};
  static constexpr std::tuple kAll{
      field<T>("cell", &T::cell, "benchmark and variant of the runs"),
      field<T>("field", &T::field, "path in result.json"),
      field<T>("reference", &T::base, "value in the reference's runs"),
      field<T>("candidate", &T::candidate, "value in the variant's runs")};
};

template <>
struct Fields<QualityGate> {
  static constexpr About kAbout{"QualityGate", "A measure that is judged."};
  static constexpr std::tuple kAll{
      field("measure", &QualityGate::measure, "metric of the result"),
      field("margin", &QualityGate::margin, "null: the definition's, else the default")};
};

template <>
struct Fields<QualityRange> {
  static constexpr About kAbout{"QualityRange",
                                "A figure that must lie in a range, in every variant."};
  static constexpr std::tuple kAll{field("measure", &QualityRange::measure, "metric of the result"),
                                   field("low", &QualityRange::low, "lower end of the range"),
                                   field("high", &QualityRange::high, "upper end of the range")};
};

template <>
struct Fields<Looks> {
  static constexpr About kAbout{"Looks", "The looks at runs while seeds are added to them."};
  static constexpr std::tuple kAll{
      field("declared", &Looks::declared, "looks that were declared before the first one"),
      field("number", &Looks::number, "number of this one"),
      field("taken", &Looks::taken, "ids of the runs of each look")};
};

template <>
struct Fields<QualityStudy> {
  static constexpr About kAbout{"QualityStudy", ""};
  static constexpr std::tuple kAll{
      field("verdict", &QualityStudy::verdict, "worst verdict of the rows"),
      field("exit_code", &QualityStudy::exit_code, "exit code of the process that judged"),
      field("reasons", &QualityStudy::reasons,
            "a sentence per finding that is not a pass, and one per benchmark whose trainings have "
            "hardly begun"),
      field("variants", &QualityStudy::variants, "variants and references, and their runs"),
      field("rows", &QualityStudy::rows, "gated ones first, then the others, timesteps last"),
      field("ranges", &QualityStudy::ranges, "figures that must lie in a range"),
      field("steps", &QualityStudy::steps, "judgements of single steps"),
      field("distances", &QualityStudy::distances, "one of each metric, more where they differ"),
      field("distance_values", &QualityStudy::distance_values, "distances of every run"),
      field("sheets", &QualityStudy::sheets, "pictures of samples, as quality.md links to them"),
      field("differences", &QualityStudy::differences,
            "differences of runs that are not comparable"),
      field("unpaired", &QualityStudy::unpaired, "seeds that one side lacks"),
      field("without_result", &QualityStudy::without_result, "runs that left no result"),
      field("notes", &QualityStudy::notes, "remarks on the runs"),
      field("inconclusive_passes", &QualityStudy::inconclusive_passes, "--inconclusive=warn"),
      field("asked_gates", &QualityStudy::asked_gates, "measures that the user asked to be judged"),
      field("asked_ranges", &QualityStudy::asked_ranges, "ranges that the user asked for"),
      field("looks", &QualityStudy::looks, "the looks at these runs so far"),
      field("alpha", &QualityStudy::alpha, "wrong verdicts that are accepted, of all looks"),
      field("power", &QualityStudy::power, "power that the seeds needed are computed for"),
      field("tests", &QualityStudy::tests, "tests that share alpha by Holm"),
      field("resamples", &QualityStudy::resamples, "resamples of a bootstrap"),
      field("seed", &QualityStudy::seed, "seed of the resamples")};
};

}  // namespace noisemark::reports::json
