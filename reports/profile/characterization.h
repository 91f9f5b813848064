#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "reports/base/fields.h"
#include "reports/profile/recording.h"
#include "reports/profile/roofline.h"

/// A network's demands on a machine, as a study of a data centre tells them (Park et al., Deep
/// Learning Inference in Facebook Data Centers, 2018, arXiv 1811.09886): parameters, live
/// activations, operations for each byte, and the time by class of operator.
namespace noisemark::reports {

struct OperatorTimes;

struct ClassShare {
  std::string name;  ///< one that operator_class() gives
  double share_frac = 0;
};

/// One use of a network: a training step, or an evaluation while samples are drawn.
struct Workload {
  std::string name;  ///< "training", "sampling"
  int64_t batch = 0;
  double time_s = 0;                        ///< time of the profiled one
  std::optional<int64_t> activation_bytes;  ///< the most that lived at once
  std::string activation_missing;           ///< reason why that is not known
  double flop = 0;
  double bytes = 0;                 ///< least bytes that its operators read and write
  std::vector<ClassShare> classes;  ///< shares of all operators' time, each once, "other" last
  std::vector<std::string> unclassified;  ///< operators of the class "other", by falling time
};

struct Characterization {
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  std::vector<Workload> workloads;
};

/// Returns the class of an operator by its name: "aten::mkldnn_convolution" is a convolution. What
/// is no operator of a library (views, allocations, autograd's nodes, spans) is "framework".
[[nodiscard]] std::string_view operator_class(std::string_view name);

/// Fills `classes` and `unclassified` from the self times of operators: on the device where it was
/// recorded, else on the host.
void add_classes(const std::vector<OperatorTimes>& operators, Workload& workload);

/// Fills `flop` and `bytes`.
void add_work(const StepWork& work, Workload& workload);

/// Returns the mean time of the recorded steps.
[[nodiscard]] double mean_step_s(const Recording& recording);

/// Returns the most bytes that a recorded step had taken and not given back when one of its
/// operators ended, so that scratch memory within an operator does not count: of a step without
/// gradients, its live activations.
[[nodiscard]] int64_t most_live_bytes(const Recording& recording);

/// Returns the most that an owner held at any instant; empty where no instant knows the owner.
[[nodiscard]] std::optional<int64_t> most_bytes_of(const std::vector<MemoryCounter>& counters,
                                                   std::string_view owner);

/// Section «Characterization» of profile.md; empty without workloads. A pure function.
[[nodiscard]] std::string characterization_section(const Characterization& network);

}  // namespace noisemark::reports

namespace noisemark::reports::json {

template <>
struct Fields<ClassShare> {
  static constexpr About kAbout{"ClassShare", "The time of operators of one class."};
  using T = ClassShare;
  static constexpr std::tuple kAll{
      field("name", &T::name, "\"convolution\"").not_empty(),
      field("share_frac", &T::share_frac, "share of the self time of all operators").at_least(0)};
};

template <>
struct Fields<Workload> {
  static constexpr About kAbout{
      "Workload", "A training step, or an evaluation of the network while samples are drawn."};
  using T = Workload;
  static constexpr std::tuple kAll{
      field("name", &T::name, "kind of the work").one_of("training|sampling"),
      field("batch", &T::batch, "images of a step, or samples of an evaluation").at_least(1),
      field("time_s", &T::time_s, "as it was profiled").at_least(0),
      field("activation_bytes", &T::activation_bytes,
            "the most that lived at once; of sampling at the end of any operator"),
      field("activation_missing", &T::activation_missing, "why that is not known; empty: it is"),
      field("flop", &T::flop, "operations by the formulas of the roofline").at_least(0),
      field("bytes", &T::bytes, "bytes that operators read and write at least, weights among them")
          .at_least(0),
      field("classes", &T::classes, "they sum up to 1"),
      field("unclassified", &T::unclassified, "operators of the class other, by falling time")};
};

template <>
struct Fields<Characterization> {
  static constexpr About kAbout{"Characterization", "A network's demands on a machine."};
  using T = Characterization;
  static constexpr std::tuple kAll{
      field("parameters", &T::parameters, "parameters of the network").at_least(0),
      field("weight_bytes", &T::weight_bytes, "bytes of the parameters").at_least(0),
      field("workloads", &T::workloads, "training, then sampling by batch")};
};

}  // namespace noisemark::reports::json
