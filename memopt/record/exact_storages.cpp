#include "memopt/record/exact_storages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace noisemark::memopt {
namespace {

/// The arguments and results of an operator, as bits: argument i is bit i.
using Places = uint32_t;
constexpr Places kNothing = 0;
constexpr Places kFirst = 1;
constexpr Places kSecond = 2;
constexpr Places kThird = 4;
constexpr Places kAny = ~Places{0};

struct Bounded {
  std::string_view name;
  Places arguments = kNothing;  ///< arguments that it may save rounded
  Places results = kNothing;
};

/// The operators whose saved tensors enter their derivatives linearly, or through a function of
/// bounded slope, which replay/bounded_rounding.h knows. Names are those of the recorder: below
/// composite operators, in-place forms without "_".
constexpr std::array kBounded = {
    Bounded{"aten::_prelu_kernel", kFirst | kSecond},
    Bounded{"aten::_scaled_dot_product_cudnn_attention", kFirst | kSecond | kThird, kFirst},
    Bounded{"aten::_scaled_dot_product_efficient_attention", kFirst | kSecond | kThird, kFirst},
    Bounded{"aten::_scaled_dot_product_flash_attention", kFirst | kSecond | kThird, kFirst},
    Bounded{"aten::_scaled_dot_product_flash_attention_for_cpu", kFirst | kSecond | kThird, kFirst},
    Bounded{"aten::_softmax", kNothing, kFirst},
    Bounded{"aten::addbmm", kSecond | kThird},
    Bounded{"aten::addcmul", kSecond | kThird},
    Bounded{"aten::addmm", kSecond | kThird},
    Bounded{"aten::addmv", kSecond | kThird},
    Bounded{"aten::addr", kSecond | kThird},
    Bounded{"aten::avg_pool2d", kFirst},
    Bounded{"aten::baddbmm", kSecond | kThird},
    Bounded{"aten::bmm", kFirst | kSecond},
    Bounded{"aten::convolution", kFirst | kSecond},
    Bounded{"aten::convolution_overrideable", kFirst | kSecond},
    Bounded{"aten::cudnn_batch_norm", kFirst},
    Bounded{"aten::dot", kFirst | kSecond},
    Bounded{"aten::gelu", kFirst},
    Bounded{"aten::leaky_relu", kFirst, kFirst},
    Bounded{"aten::linear", kFirst | kSecond},
    Bounded{"aten::log_sigmoid_forward", kFirst},
    Bounded{"aten::max_pool2d_with_indices", kFirst},
    Bounded{"aten::mm", kFirst | kSecond},
    Bounded{"aten::mul", kFirst | kSecond},
    Bounded{"aten::mv", kFirst | kSecond},
    Bounded{"aten::native_batch_norm", kFirst},
    Bounded{"aten::native_dropout", kFirst},
    Bounded{"aten::native_group_norm", kFirst},
    Bounded{"aten::native_layer_norm", kFirst},
    Bounded{"aten::pow", kFirst},
    Bounded{"aten::relu", kNothing, kFirst},
    Bounded{"aten::sigmoid", kNothing, kFirst},
    Bounded{"aten::silu", kFirst},
    Bounded{"aten::softplus", kFirst},
    Bounded{"aten::tanh", kNothing, kFirst},
    Bounded{"aten::threshold", kFirst, kFirst},
    Bounded{"noisemark::group_norm_act", kFirst},
    Bounded{"noisemark::rms_norm_act", kAny},
};

/// Their gradients are sums over many elements, of which none is multiplied by a value of its own.
constexpr std::array<std::string_view, 22> kMixing = {
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::addbmm",
    "aten::addmm",
    "aten::addmv",
    "aten::baddbmm",
    "aten::bmm",
    "aten::convolution",
    "aten::convolution_overrideable",
    "aten::cudnn_batch_norm",
    "aten::linear",
    "aten::mm",
    "aten::mse_loss",
    "aten::mv",
    "aten::native_batch_norm",
    "aten::native_group_norm",
    "aten::native_layer_norm",
    "noisemark::group_norm_act",
    "noisemark::rms_norm_act",
};

struct Steep {
  std::string_view name;
  /// Its results have no bound either, unless they are taken of what was reduced, as a norm's
  /// divisor is.
  bool grows = false;
};

/// The operators whose derivatives have no bound.
constexpr std::array kSteep = {
    Steep{"aten::_linalg_det", true},
    Steep{"aten::_linalg_eigh"},
    Steep{"aten::_linalg_slogdet"},
    Steep{"aten::_linalg_solve_ex", true},
    Steep{"aten::_linalg_svd"},
    Steep{"aten::acos"},
    Steep{"aten::acosh"},
    Steep{"aten::addcdiv", true},
    Steep{"aten::angle"},
    Steep{"aten::asin"},
    Steep{"aten::atan2"},
    Steep{"aten::atanh"},
    Steep{"aten::binary_cross_entropy"},
    Steep{"aten::cholesky_inverse", true},
    Steep{"aten::cholesky_solve", true},
    Steep{"aten::cosh", true},
    Steep{"aten::cumprod", true},
    Steep{"aten::digamma", true},
    Steep{"aten::div", true},
    Steep{"aten::erfinv"},
    Steep{"aten::exp", true},
    Steep{"aten::exp2", true},
    Steep{"aten::expm1", true},
    Steep{"aten::i0", true},
    Steep{"aten::ldexp", true},
    Steep{"aten::lgamma", true},
    Steep{"aten::linalg_cholesky_ex"},
    Steep{"aten::linalg_eig"},
    Steep{"aten::linalg_householder_product", true},
    Steep{"aten::linalg_inv_ex", true},
    Steep{"aten::linalg_lstsq", true},
    Steep{"aten::linalg_lu_factor_ex"},
    Steep{"aten::linalg_lu_solve", true},
    Steep{"aten::linalg_matrix_exp", true},
    Steep{"aten::linalg_pinv", true},
    Steep{"aten::linalg_qr"},
    Steep{"aten::linalg_solve_triangular", true},
    Steep{"aten::log"},
    Steep{"aten::log10"},
    Steep{"aten::log1p"},
    Steep{"aten::log2"},
    Steep{"aten::logcumsumexp"},
    Steep{"aten::logit"},
    Steep{"aten::mvlgamma", true},
    Steep{"aten::polygamma", true},
    Steep{"aten::pow", true},
    Steep{"aten::prod", true},
    Steep{"aten::reciprocal", true},
    Steep{"aten::rsqrt", true},
    Steep{"aten::sinh", true},
    Steep{"aten::special_entr"},
    Steep{"aten::special_erfcx", true},
    Steep{"aten::special_i1", true},
    Steep{"aten::special_log_ndtr"},
    Steep{"aten::special_ndtri"},
    Steep{"aten::special_xlog1py"},
    Steep{"aten::special_zeta", true},
    Steep{"aten::sqrt"},
    Steep{"aten::std"},
    Steep{"aten::std_mean"},
    Steep{"aten::tan", true},
    Steep{"aten::xlogy"},
};

/// One of these operators makes the value that a norm divides by.
constexpr std::array<std::string_view, 6> kReducing = {
    "aten::linalg_vector_norm", "aten::norm", "aten::std",
    "aten::std_mean",           "aten::var",  "aten::var_mean",
};
/// They do so where nothing that they read is negative: the mean of a row may be far smaller than
/// the row.
constexpr std::array<std::string_view, 4> kSumming = {"aten::amax", "aten::max", "aten::mean",
                                                      "aten::sum"};
/// Their results are not negative.
constexpr std::array<std::string_view, 7> kPositive = {
    "aten::_softmax", "aten::abs",      "aten::exp",  "aten::relu",
    "aten::sigmoid",  "aten::softplus", "aten::sqrt",
};

/// Their results have a bound, or the scale of what was normalized.
constexpr std::array<std::string_view, 10> kBounding = {
    "aten::_softmax",
    "aten::cos",
    "aten::cudnn_batch_norm",
    "aten::native_batch_norm",
    "aten::native_group_norm",
    "aten::native_layer_norm",
    "aten::sigmoid",
    "aten::sin",
    "aten::tanh",
    "noisemark::group_norm_act",
};
static_assert(std::is_sorted(kBounding.begin(), kBounding.end()));
static_assert(std::is_sorted(kReducing.begin(), kReducing.end()));
static_assert(std::is_sorted(kPositive.begin(), kPositive.end()));
static_assert(std::is_sorted(kMixing.begin(), kMixing.end()));

std::string_view base_name(const RecordedOperator& op) {
  std::string_view name = op.name;
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

constexpr Places place(size_t i) {
  return i < 32 ? Places{1} << i : kNothing;
}

const Bounded* find_bounded(const RecordedOperator& op) {
  const std::string_view name = base_name(op);
  const auto found = std::find_if(kBounded.begin(), kBounded.end(),
                                  [&](const Bounded& one) { return one.name == name; });
  return found == kBounded.end() ? nullptr : &*found;
}

template <size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& names, const RecordedOperator& op) {
  return std::binary_search(names.begin(), names.end(), base_name(op));
}

const Steep* find_steep(const RecordedOperator& op) {
  const std::string_view name = base_name(op);
  const auto found = std::find_if(kSteep.begin(), kSteep.end(),
                                  [&](const Steep& one) { return one.name == name; });
  return found == kSteep.end() ? nullptr : &*found;
}

bool may_grow(const RecordedOperator& op) {
  const Steep* row = find_steep(op);
  return row != nullptr && row->grows;
}

/// Its result no longer depends on a large input, so that its gradient is smaller than any
/// rounding: a softmax, also that of an attention, a sigmoid, and a hyperbolic tangent.
bool saturates(const RecordedOperator& op) {
  const std::string_view name = base_name(op);
  return name == "aten::_softmax" || name == "aten::sigmoid" || name == "aten::tanh" ||
         name.find("_attention") != std::string_view::npos;
}

/// An operator that may divide by a norm.
bool divides(std::string_view name) {
  return name == "aten::div" || name == "aten::pow" || name == "aten::reciprocal" ||
         name == "aten::rsqrt";
}

bool mixes(const RecordedOperator& op) {
  return is_one_of(kMixing, op);
}

/// The number that an operator is called with in second place, after its input; NaN: none.
double second_number(const RecordedOperator& op) {
  if (op.arguments.size() < 2 || !op.arguments[1].constant.isScalar()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return op.arguments[1].constant.toScalar().toComplexDouble().real();
}

/// A power of 1 to 4 that is a whole number: its derivative grows no faster than its base.
bool is_gentle_power(const RecordedOperator& op) {
  const double exponent = second_number(op);
  return exponent == 1 || exponent == 2 || exponent == 3 || exponent == 4;
}

/// The derivative of softplus is a step that is as steep as its beta; at 4 it is that of GELU.
bool is_gentle_softplus(const RecordedOperator& op) {
  return std::abs(second_number(op)) <= 4;
}

class Rules {
 public:
  explicit Rules(const StepGraph& graph)
      : graph_(graph),
        reaches_(graph.values.size(), false),
        peaks_(graph.values.size(), false),
        comes_(graph.values.size(), false),
        ends_(graph.values.size(), false),
        large_(graph.values.size(), false) {
    // Results are read by later operators alone.
    for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) mark_inputs(*op);
    for (const RecordedOperator& op : graph.operators) mark_results(op);
  }

  [[nodiscard]] bool is_exact(const RecordedSlot& slot) const {
    if (slot.saved_by == kNone || graph_.partly_seen) return true;
    const RecordedOperator& op = graph_.operators[static_cast<size_t>(slot.saved_by)];
    if (!saves_boundedly(op, slot.value)) return true;
    // One element of a group may be so large that nothing is left of the others.
    if (is_unmixed_softmax(op) || marked(large_, slot.value)) return true;
    if (saturates(op) && any_input(op, [this](ValueId id) { return marked(large_, id); })) {
      return true;
    }
    return mixes(op) ? is_below_peak(op) : is_near_steep(op, slot.value);
  }

 private:
  [[nodiscard]] const RecordedValue& value(ValueId id) const {
    return graph_.values[static_cast<size_t>(id)];
  }
  static bool any_of(const std::vector<ValueId>& values, const auto& holds) {
    return std::any_of(values.begin(), values.end(),
                       [&](ValueId id) { return id != kNone && holds(id); });
  }
  static bool any_input(const RecordedOperator& op, const auto& holds) {
    return std::any_of(op.arguments.begin(), op.arguments.end(),
                       [&](const Argument& argument) { return any_of(argument.values, holds); });
  }

  void mark_inputs(const RecordedOperator& op) {
    if (ends_unmixed(op)) mark_arguments(op, ends_);
    if (leaves_pass(op)) {
      for (const ValueId id : op.results) {
        mark(reaches_, id);
        mark(peaks_, id);
      }
    }
    const auto passes_on = [&](const std::vector<bool>& marks) {
      return !mixes(op) && any_of(op.results, [&](ValueId id) { return marked(marks, id); });
    };
    if (is_steep(op) || passes_on(reaches_)) mark_arguments(op, reaches_);
    if ((is_steep(op) && !is_of_reduced(op)) || passes_on(peaks_)) mark_arguments(op, peaks_);
  }

  /// Nobody in the pass reads what it gives, which is no loss: a program may go on with that where
  /// nobody looks.
  [[nodiscard]] bool leaves_pass(const RecordedOperator& op) const {
    const auto read = [this](ValueId id) { return is_read(id); };
    const auto open = [this](ValueId id) { return value(id).has_history && has_elements(id); };
    return !any_of(op.results, read) && any_of(op.results, open);
  }

  /// An operator reads the value whose results have a history: a metric hands nothing on.
  [[nodiscard]] bool is_read(ValueId id) const {
    const std::vector<OperatorId>& readers = value(id).readers;
    return std::any_of(readers.begin(), readers.end(), [this](OperatorId reader) {
      return any_of(graph_.operators[static_cast<size_t>(reader)].results,
                    [this](ValueId result) { return value(result).has_history; });
    });
  }

  static void mark_arguments(const RecordedOperator& op, std::vector<bool>& marks) {
    for (const Argument& argument : op.arguments) {
      for (const ValueId id : argument.values) mark(marks, id);
    }
  }

  /// Something that it gives is the end of the pass, or gets there without being mixed.
  [[nodiscard]] bool ends_unmixed(const RecordedOperator& op) const {
    if (mixes(op) && base_name(op) != "aten::mse_loss") return false;
    const auto read = [this](ValueId id) { return is_read(id); };
    return !any_of(op.results, read) ||
           any_of(op.results, [this](ValueId id) { return marked(ends_, id); });
  }

  void mark_results(const RecordedOperator& op) {
    mark_large(op);
    const bool from = any_input(op, [this](ValueId id) { return marked(comes_, id); });
    if (!is_steep(op) && !is_unmixed_softmax(op) && (mixes(op) || !from)) return;
    for (const ValueId id : op.results) {
      if (id != kNone && value(id).has_history) mark(comes_, id);
    }
  }

  void mark_large(const RecordedOperator& op) {
    if (is_one_of(kBounding, op)) return;
    const bool grows = may_grow(op) && is_steep(op);
    const bool from = any_input(op, [this](ValueId id) { return marked(large_, id); });
    if (grows ? is_of_reduced(op) : !from) return;
    for (const ValueId id : op.results) mark(large_, id);
  }

  /// Returns whether its derivative is steep in a value of the size of a norm's divisor.
  [[nodiscard]] bool is_of_reduced(const RecordedOperator& op) const {
    const std::string_view name = base_name(op);
    if (may_grow(op) && !divides(name)) return false;
    const size_t read = name == "aten::div" ? 1 : 0;
    return op.arguments.size() > read && is_reduced(op.arguments[read]);
  }

  /// It was made of something that has more elements, as the norm of each row is.
  [[nodiscard]] bool is_reduced(const Argument& argument) const {
    const Argument* from = &argument;
    while (!from->values.empty() && from->values.front() != kNone) {
      const ValueId result = from->values.front();
      const RecordedOperator* op = graph_.producer_of(result);
      if (op == nullptr || op->arguments.empty() || mixes(*op)) return false;
      from = &op->arguments.front();
      if (from->values.empty() || from->values.front() == kNone) return false;
      if (is_one_of(kReducing, *op)) return true;
      if (is_one_of(kSumming, *op) && is_positive(from->values.front())) return true;
    }
    return false;
  }

  /// Returns whether it can be told that no element is negative.
  [[nodiscard]] bool is_positive(ValueId id) const {
    const RecordedOperator* op = graph_.producer_of(id);
    if (op == nullptr) return false;
    const std::string_view name = base_name(*op);
    if (name == "aten::pow") return std::fmod(second_number(*op), 2) == 0;
    const bool square = name == "aten::mul" && op->arguments.size() == 2 &&
                        op->arguments[0].values == op->arguments[1].values;
    return square || is_one_of(kPositive, *op);
  }

  static void mark(std::vector<bool>& marks, ValueId id) {
    if (id != kNone) marks[static_cast<size_t>(id)] = true;
  }
  static bool marked(const std::vector<bool>& marks, ValueId id) {
    return marks[static_cast<size_t>(id)];
  }

  /// The gradient of a result may be all in the one row at which a steep operator is steepest.
  /// There the row is small, and so is what the operator made it of: a rounding that suits the
  /// others leaves nothing of it.
  [[nodiscard]] bool is_below_peak(const RecordedOperator& op) const {
    return any_of(op.results, [this](ValueId id) { return marked(peaks_, id); });
  }

  /// A product multiplies the gradient of one operand by the other alone.
  [[nodiscard]] bool is_near_steep(const RecordedOperator& op, ValueId saved) const {
    if (any_of(op.results, [this](ValueId id) { return marked(reaches_, id); })) return true;
    const bool product = base_name(op) == "aten::mul" && op.arguments.size() == 2 &&
                         op.arguments[0].values != op.arguments[1].values;
    return any_input(op, [&](ValueId id) {
      return marked(comes_, id) && !(product && value(id).storage == value(saved).storage);
    });
  }

  [[nodiscard]] bool is_unmixed_softmax(const RecordedOperator& op) const {
    const std::string_view name = base_name(op);
    const bool softmax =
        name == "aten::_softmax" || name == "aten::_log_softmax" || name == "aten::logsumexp";
    return softmax && any_of(op.results, [this](ValueId id) { return marked(ends_, id); });
  }

  /// All elements of a result have the same factor where it is that of a single number.
  [[nodiscard]] bool is_steep(const RecordedOperator& op) const {
    const std::string_view name = base_name(op);
    if (find_steep(op) == nullptr) return false;
    if (name == "aten::pow" && is_gentle_power(op)) return false;
    const auto many = [this](ValueId id) { return has_elements(id); };
    if (name != "aten::div") return any_input(op, many);
    return op.arguments.size() > 1 && any_of(op.arguments[1].values, many);
  }

  [[nodiscard]] int64_t elements_of(ValueId id) const {
    return value(id).bytes() / static_cast<int64_t>(c10::elementSize(value(id).dtype));
  }
  [[nodiscard]] bool has_elements(ValueId id) const { return elements_of(id) > 1; }

  /// The operator is on the list with every place at which it had this memory.
  [[nodiscard]] bool saves_boundedly(const RecordedOperator& op, ValueId saved) const {
    const Bounded* rule = find_bounded(op);
    if (rule == nullptr || (base_name(op) == "aten::pow" && !is_gentle_power(op))) return false;
    if (base_name(op) == "aten::softplus" && !is_gentle_softplus(op)) return false;
    const auto is_saved = [&](ValueId id) { return value(id).storage == value(saved).storage; };
    Places arguments = kNothing;
    Places results = kNothing;
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      if (any_of(op.arguments[i].values, is_saved)) arguments |= place(i);
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (any_of({op.results[i]}, is_saved)) results |= place(i);
    }
    const bool seen = (arguments | results) != kNothing;
    return seen && (arguments & ~rule->arguments) == 0 && (results & ~rule->results) == 0;
  }

  const StepGraph& graph_;
  std::vector<bool> reaches_;  ///< a steep operator reads the value, or something made of it
  std::vector<bool> peaks_;    ///< the same, of those that no reduction is before
  std::vector<bool> comes_;    ///< a steep operator made the value, or something in it
  std::vector<bool> ends_;     ///< something made of the value is an end of the pass, unmixed
  std::vector<bool> large_;    ///< nothing bounds what a growing operator made in the value
};

}  // namespace

namespace {

/// Returns whether the slot is the query, the key or the value of an attention.
bool is_attended(const StepGraph& graph, const RecordedSlot& slot) {
  constexpr std::string_view kAttention = "aten::_scaled_dot_product_";
  if (slot.saved_by == kNone) return false;
  const RecordedOperator& op = graph.operators[static_cast<size_t>(slot.saved_by)];
  if (!op.name.starts_with(kAttention)) return false;
  const auto is_slot = [&](const Argument& argument) {
    return !argument.values.empty() && argument.values.front() == slot.value;
  };
  return std::any_of(op.arguments.begin(), op.arguments.begin() + 3, is_slot);
}

/// Returns the memory that several attentions read. How far a query, key or value may be rounded is
/// known when the others are, and those of the last attention may come when it is long encoded.
std::set<StorageId> attended_by_several(const StepGraph& graph) {
  std::map<StorageId, OperatorId> reader;
  std::set<StorageId> shared;
  for (const RecordedSlot& slot : graph.slots) {
    if (!is_attended(graph, slot)) continue;
    const StorageId storage = graph.value(slot.value).storage;
    const auto [first, is_first] = reader.emplace(storage, slot.saved_by);
    if (!is_first && first->second != slot.saved_by) shared.insert(storage);
  }
  return shared;
}

}  // namespace

void mark_exact_storages(StepGraph& graph) {
  const Rules rules(graph);
  const std::set<StorageId> shared = attended_by_several(graph);
  for (RecordedSlot& slot : graph.slots) {
    slot.exact = rules.is_exact(slot) || shared.contains(graph.value(slot.value).storage);
    if (!slot.exact) continue;
    const StorageId storage = graph.values[static_cast<size_t>(slot.value)].storage;
    graph.storages[static_cast<size_t>(storage)].exact = true;
  }
}

}  // namespace noisemark::memopt
