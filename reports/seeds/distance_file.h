#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "reports/base/fields.h"
#include "reports/seeds/study_fields.h"

/// Two files about samples: sampling.json, which lies beside them, and the output of `noisemark fid
/// A B --json`, which RUN/distances/NAME.json keeps.
namespace noisemark::reports {

/// Holds the fields of a sampling.json that decide what the samples of a set are.
struct DrawnSamples {
  struct Definition {
    std::string id;
    std::string scale;
    std::string sha256;
    bool custom = false;
    std::vector<std::string> overrides;
  };
  struct Weights {
    std::string file;
    std::string file_sha256;
    std::optional<std::string> kind;
    std::string sha256;
    std::optional<std::string> step;
    std::optional<std::string> definition_sha256;
  };
  struct Sampler {
    std::string name;
    int64_t steps = 0;
    std::optional<double> eta;
    std::optional<std::string> grid;
    std::optional<std::string> variance;
  };
  struct Noise {
    std::string source;
    std::optional<std::string> file;
    std::string sha256;
  };
  struct Execution {
    std::string baseline;
    std::string precision;
    std::string device;
    std::optional<std::string> patches;
  };
  std::optional<Definition> definition;
  Weights weights;
  Sampler sampler;
  std::optional<uint64_t> seed;
  Noise noise;
  std::optional<Execution> execution;
};

/// The contents of sampling.json.
struct SamplingFile {
  struct Execution : DrawnSamples::Execution {
    int64_t threads = 0;
    int64_t batch = 0;
    double sampling_s = 0;
  };
  struct Samples {
    std::vector<int64_t> shape;
    std::string sha256;
    std::string pictures_sha256;
    std::string sheet_sha256;
  };
  struct PatchSteps {
    std::string kind;
    int64_t steps = 0;
    int64_t bytes = 0;
    int64_t bytes_by_formula = 0;
    int64_t operations = 0;
    double step_s = 0;
    double predicted_step_s = 0;
    double exposed_step_s = 0;
  };
  struct Patches {
    int64_t ranks = 0;
    std::string mode;
    int64_t warmup = 0;
    std::string shared_processors;
    std::vector<PatchSteps> steps;
  };
  DrawnSamples::Definition definition;
  DrawnSamples::Weights weights;
  DrawnSamples::Sampler sampler;
  uint64_t seed = 0;
  DrawnSamples::Noise noise;
  Execution execution;
  Samples samples;
  std::optional<Patches> patches;

  /// The fields that decide the samples: neither how long they took nor where they are.
  [[nodiscard]] DrawnSamples drawn() const {
    return {definition, weights, sampler, seed, noise, execution};
  }
};

struct DistanceFile {
  struct Extractor {
    std::string name;
    std::string distance;
    std::string checksum;
    std::string resize;
    std::string provenance;
  };
  struct Set {
    std::string name;
    std::optional<int64_t> n;
    bool exact = false;
    std::optional<Extractor> extractor;
    bool extractor_asserted = false;
    std::optional<std::string> moments_sha256;
    std::optional<DrawnSamples> drawn;
    bool gateable = false;
    std::optional<std::string> why_no_gate;
  };
  struct Bootstrap {
    int64_t replicates = 0;
    uint64_t seed = 0;
    std::string drawn_again = "a";
    double confidence = 0;
    double low = 0;
    double high = 0;
  };
  struct Kernel {
    std::optional<double> mean;
    double standard_deviation = 0;
    std::optional<double> standard_error;
    int64_t subsets = 0;
    int64_t subset_size = 0;
    std::string draws;
    std::optional<uint64_t> seed;
  };
  struct Score {
    std::string name;
    std::optional<double> mean;
    double standard_deviation = 0;
    int64_t splits = 0;
  };
  struct Mixture {
    double floor_mean = 0;
    double floor_largest = 0;
    std::vector<double> component_share_frac;
    double component_chi_square = 0;
    double degrees = 0;
    double p = 0;
  };
  struct Gate {
    std::optional<double> min;
    std::optional<double> max;
    bool pass = false;
    QualityVerdict verdict = QualityVerdict::kInconclusive;
    std::string words;
  };
  Set a;
  Set b;
  int64_t d = 0;
  std::string name;
  std::optional<double> value;
  double mean_term = 0;
  double trace_term = 0;
  double cross_term = 0;
  std::string method;
  double frechet_s = 0;
  std::optional<Bootstrap> bootstrap;
  std::optional<Kernel> kernel;
  std::optional<double> precision_frac;
  std::optional<double> recall_frac;
  std::optional<int64_t> neighbours;
  std::optional<Score> inception_score;
  std::optional<Mixture> mixture;
  std::optional<Gate> gate;
};

/// The fields of these files, in the order in which they are written.
namespace json {

inline constexpr Document kSamplingDocument{
    "noisemark.sampling", "What decides samples that lie beside it, and their checksums.", false};

inline constexpr Document kDistanceDocument{
    "noisemark.distance", "How far two sets of samples are apart, and how that was measured.",
    false};

template <>
struct Fields<DrawnSamples::Definition> {
  using T = DrawnSamples::Definition;
  static constexpr About kAbout{"Definition", "The definition under which samples were drawn."};
  static constexpr std::tuple kAll{
      field("id", &T::id, "name of the benchmark"),
      field("scale", &T::scale, "scale of the benchmark"),
      field("sha256", &T::sha256, "SHA-256 of the definition's canonical form"),
      field("custom", &T::custom, "whether it is other work than the benchmark's"),
      field("overrides", &T::overrides, "changes by --set")};
};

template <>
struct Fields<DrawnSamples::Weights> {
  using T = DrawnSamples::Weights;
  static constexpr About kAbout{"Weights", "The weights that drew the samples."};
  static constexpr std::tuple kAll{
      field("file", &T::file, "name of the file"),
      field("file_sha256", &T::file_sha256, "SHA-256 of the file"),
      field("kind", &T::kind, "\"model\" or \"ema\"; null: the file does not say"),
      field("sha256", &T::sha256, "SHA-256 of the tensors"),
      field("step", &T::step, "steps behind the weights; null: the file does not say"),
      field("definition_sha256", &T::definition_sha256, "definition that they were trained under")};
};

template <>
struct Fields<DrawnSamples::Sampler> {
  using T = DrawnSamples::Sampler;
  static constexpr About kAbout{"Sampler", "The sampler that drew."};
  static constexpr std::tuple kAll{
      field("name", &T::name, "\"ddim\" or \"ddpm\""),
      field("steps", &T::steps, "steps of the sampler"),
      field("eta", &T::eta, "eta of ddim").left_out_if_empty(),
      field("grid", &T::grid, "timesteps of ddim; absent: \"lucid\"").left_out_if_empty(),
      field("variance", &T::variance, "variance of ddpm").left_out_if_empty()};
};

template <>
struct Fields<DrawnSamples::Noise> {
  using T = DrawnSamples::Noise;
  static constexpr About kAbout{"Noise", "The initial noise."};
  static constexpr std::tuple kAll{field("source", &T::source, "\"drawn\" or \"file\""),
                                   field("file", &T::file, "name of the file"),
                                   field("sha256", &T::sha256, "SHA-256 of its values")};
};

template <>
struct Fields<DrawnSamples::Execution> {
  using T = DrawnSamples::Execution;
  static constexpr About kAbout{"Execution", "The execution of the network."};
  static constexpr std::tuple kAll{
      field("baseline", &T::baseline, "kernels that executed the network"),
      field("precision", &T::precision, "type of the numbers that the network computes with"),
      field("device", &T::device, "device of the network"),
      field("patches", &T::patches, "the way in which several ranks drew together")
          .left_out_if_empty()};
};

template <>
struct Fields<DrawnSamples> {
  using T = DrawnSamples;
  static constexpr About kAbout{"DrawnSamples",
                                "All that decides the samples that noisemark drew."};
  static constexpr std::tuple kAll{
      field("definition", &T::definition, "definition of the benchmark; null: not known"),
      field("weights", &T::weights, "weights that drew"),
      field("sampler", &T::sampler, "way from noise to samples"),
      field("seed", &T::seed, "seed of all that is random; null: not known"),
      field("noise", &T::noise, "noise that sampling began with"),
      field("execution", &T::execution, "execution of the network; null: not known")};
};

template <>
struct Fields<SamplingFile::Execution> {
  using T = SamplingFile::Execution;
  static constexpr About kAbout{"SamplingExecution", "The execution of the network, and its time."};
  static constexpr std::tuple kAll{
      field<T>("baseline", &T::baseline, "the kernels that executed the network"),
      field<T>("precision", &T::precision, "precision of the network"),
      field<T>("device", &T::device, "device of the network"),
      field<T>("patches", &T::patches, "the way in which several ranks drew together")
          .left_out_if_empty(),
      field("threads", &T::threads, "threads of a process"),
      field("batch", &T::batch, "samples that the network drew at once"),
      field("sampling_s", &T::sampling_s, "time without reading weights and writing files")};
};

template <>
struct Fields<SamplingFile::Samples> {
  using T = SamplingFile::Samples;
  static constexpr About kAbout{"Samples", "The files beside this one."};
  static constexpr std::tuple kAll{field("shape", &T::shape, "samples, channels, rows and columns"),
                                   field("sha256", &T::sha256, "SHA-256 of samples.npy"),
                                   field("pictures_sha256", &T::pictures_sha256,
                                         "SHA-256 of all of pictures/, as `fid` knows it"),
                                   field("sheet_sha256", &T::sheet_sha256, "SHA-256 of sheet.png")};
};

template <>
struct Fields<SamplingFile::PatchSteps> {
  using T = SamplingFile::PatchSteps;
  static constexpr About kAbout{"PatchSteps",
                                "Evaluations of the network of one kind, as rank 0 saw them."};
  static constexpr std::tuple kAll{
      field("kind", &T::kind, "\"synchronous\", or the word of the mode"),
      field("steps", &T::steps, "number of evaluations"),
      field("bytes", &T::bytes, "bytes that the rank gave in all of them, as counted"),
      field("bytes_by_formula", &T::bytes_by_formula, "bytes that it should give"),
      field("operations", &T::operations, "exchanges in all of them"),
      field("step_s", &T::step_s, "mean time of an evaluation"),
      field("predicted_step_s", &T::predicted_step_s, "that time by figures measured apart"),
      field("exposed_step_s", &T::exposed_step_s,
            "mean time that an evaluation waited for others")};
};

template <>
struct Fields<SamplingFile::Patches> {
  using T = SamplingFile::Patches;
  static constexpr About kAbout{"Patches", "The cost of drawing by several ranks."};
  static constexpr std::tuple kAll{
      field("ranks", &T::ranks, "number of ranks"), field("mode", &T::mode, "word of --patch-mode"),
      field("warmup", &T::warmup, "synchronous steps after the first"),
      field("shared_processors", &T::shared_processors,
            "the reason why no efficiency is claimed; empty: it is"),
      field("steps", &T::steps, "kinds of evaluations that were made")};
};

template <>
struct Fields<SamplingFile> {
  using T = SamplingFile;
  static constexpr About kAbout{"SamplingFile", ""};
  static constexpr std::tuple kAll{
      field("definition", &T::definition, "the benchmark's definition"),
      field("weights", &T::weights, "the weights that drew"),
      field("sampler", &T::sampler, "the way from noise to samples"),
      field("seed", &T::seed, "seed of all that is random"),
      field("noise", &T::noise, "the noise that sampling began with"),
      field("execution", &T::execution, "the execution of the network"),
      field("samples", &T::samples, "shape and checksums of what was drawn"),
      field("patches", &T::patches, "the cost of several ranks").left_out_if_empty()};
};

template <>
struct Fields<DistanceFile::Extractor> {
  using T = DistanceFile::Extractor;
  static constexpr About kAbout{"Extractor", "The network that made the features of a set."};
  static constexpr std::tuple kAll{
      field("name", &T::name, "\"inception\""),
      field("distance", &T::distance, "name of its Fréchet distance"),
      field("checksum", &T::checksum, "SHA-256 of its weights"),
      field("resize", &T::resize, "the treatment of images of another size"),
      field("provenance", &T::provenance, "origin of the weights, in words")};
};

template <>
struct Fields<DistanceFile::Set> {
  using T = DistanceFile::Set;
  static constexpr About kAbout{"Set", "One of the two sets."};
  static constexpr std::tuple kAll{
      field("name", &T::name, "as given by the user"),
      field("n", &T::n, "samples; null: not known, or the distribution itself"),
      field("exact", &T::exact, "true: the distribution itself"),
      field("extractor", &T::extractor, "null: not known, or plain values"),
      field("extractor_asserted", &T::extractor_asserted,
            "true: the user says so, and the file does not"),
      field("moments_sha256", &T::moments_sha256, "SHA-256 of mean and covariance"),
      field("drawn", &T::drawn, "null: nobody says"),
      field("gateable", &T::gateable, "true where a gate may be judged by it"),
      field("why_no_gate", &T::why_no_gate, "the reason why not")};
};

template <>
struct Fields<DistanceFile::Bootstrap> {
  using T = DistanceFile::Bootstrap;
  static constexpr About kAbout{"Bootstrap", "The interval by drawing features again."};
  static constexpr std::tuple kAll{field("replicates", &T::replicates, "number of the replicates"),
                                   field("seed", &T::seed, "seed of the draws"),
                                   field("drawn_again", &T::drawn_again, "the set"),
                                   field("confidence", &T::confidence, "level of the interval"),
                                   field("low", &T::low, "lower end of the interval"),
                                   field("high", &T::high, "upper end of the interval")};
};

template <>
struct Fields<DistanceFile::Kernel> {
  using T = DistanceFile::Kernel;
  static constexpr About kAbout{"Kernel", "The kernel distance (KID)."};
  static constexpr std::tuple kAll{
      field("mean", &T::mean, "over the subsets"),
      field("standard_deviation", &T::standard_deviation, "standard deviation over the subsets"),
      field("standard_error", &T::standard_error, "null: subsets are more than half of a set"),
      field("subsets", &T::subsets, "number of the subsets"),
      field("subset_size", &T::subset_size, "samples of a subset"),
      field("draws", &T::draws, "\"counter\" or \"numpy\""),
      field("seed", &T::seed, "seed of the draws")};
};

template <>
struct Fields<DistanceFile::Score> {
  using T = DistanceFile::Score;
  static constexpr About kAbout{"Score", "The score of the samples alone."};
  static constexpr std::tuple kAll{
      field("name", &T::name, "name of the score"),
      field("mean", &T::mean, "mean over the splits; null: not finite"),
      field("standard_deviation", &T::standard_deviation, "standard deviation over the splits"),
      field("splits", &T::splits, "number of the splits")};
};

template <>
struct Fields<DistanceFile::Mixture> {
  using T = DistanceFile::Mixture;
  static constexpr About kAbout{"Mixture", "Samples beside the exact mixture."};
  static constexpr std::tuple kAll{
      field("floor_mean", &T::floor_mean, "mean distance of perfect samples"),
      field("floor_largest", &T::floor_largest, "the largest of these"),
      field("component_share_frac", &T::component_share_frac, "shares of the components"),
      field("component_chi_square", &T::component_chi_square,
            "Pearson's statistic of these shares"),
      field("degrees", &T::degrees, "degrees of freedom"),
      field("p", &T::p, "p of these shares, if the samples were perfect")};
};

template <>
struct Fields<DistanceFile::Gate> {
  using T = DistanceFile::Gate;
  static constexpr About kAbout{"Gate", "The judgement of --min and --max."};
  static constexpr std::tuple kAll{field("min", &T::min, "least value that passes"),
                                   field("max", &T::max, "largest value that passes"),
                                   field("pass", &T::pass, "whether the value passes"),
                                   field("verdict", &T::verdict, "verdict on the value"),
                                   field("words", &T::words, "reason of the verdict")};
};

template <>
struct Fields<DistanceFile> {
  using T = DistanceFile;
  static constexpr About kAbout{"DistanceFile", ""};
  static constexpr std::tuple kAll{
      field("a", &T::a, "evaluated set"),
      field("b", &T::b, "reference"),
      field("d", &T::d, "features of a sample"),
      field("name", &T::name, "\"FID\" only where both extractors say so"),
      field("value", &T::value, "the Fréchet distance; null: not finite"),
      field("mean_term", &T::mean_term, "squared distance of the means"),
      field("trace_term", &T::trace_term, "sum of the traces"),
      field("cross_term", &T::cross_term, "trace of the root of the product"),
      field("method", &T::method, "method of the cross term"),
      field("frechet_s", &T::frechet_s, "time that the distance took"),
      field("bootstrap", &T::bootstrap, "interval of the distance").left_out_if_empty(),
      field("kernel", &T::kernel, "kernel distance").left_out_if_empty(),
      field("precision_frac", &T::precision_frac, "share of A's samples that lie among those of B")
          .left_out_if_empty(),
      field("recall_frac", &T::recall_frac, "share of B's samples that lie among those of A")
          .left_out_if_empty(),
      field("neighbours", &T::neighbours, "neighbours of precision and recall").left_out_if_empty(),
      field("inception_score", &T::inception_score, "score of A's samples alone")
          .left_out_if_empty(),
      field("mixture", &T::mixture, "A's samples beside the exact mixture").left_out_if_empty(),
      field("gate", &T::gate, "judgement of --min and --max").left_out_if_empty()};
};

}  // namespace json
}  // namespace noisemark::reports
