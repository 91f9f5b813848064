#include "suite/probes/work_recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "memopt/accounting/operator_callback.h"
#include "suite/probes/flop_counter.h"

namespace noisemark::suite {
namespace {

/// Operations for each element of the largest tensor, for operators that do more than one. A
/// function such as exp() counts one. sigmoid(x) is 1 / (1 + exp(-x)).
constexpr std::pair<std::string_view, int64_t> kOperationsPerElement[] = {
    {"aten::sigmoid", 4},            // negation, exp, addition, division
    {"aten::silu", 5},               // sigmoid, product
    {"aten::silu_backward", 9},      // sigmoid; dy * s * (1 + x * (1 - s))
    {"aten::native_group_norm", 5},  // sum, sum of squares (2); product and addition of constants
    {"aten::native_layer_norm", 5},
    {"aten::native_group_norm_backward", 8},  // two sums (1 + 2 and 1); dx = a * dy + b * x + c
    {"aten::native_layer_norm_backward", 8},
    {"aten::_softmax", 4},                // maximum, difference and exp, sum, division
    {"aten::_softmax_backward_data", 4},  // product, sum, difference, product
};

/// These write their first argument and do not read it.
constexpr std::string_view kOverwriters[] = {
    "aten::copy_",    "aten::fill_",   "aten::zero_",        "aten::normal_",
    "aten::uniform_", "aten::random_", "aten::exponential_", "aten::bernoulli_"};
/// The schema of these says that they write gradients, which they do only where a loss is scaled.
constexpr std::string_view kReadersOfGradients[] = {"aten::_fused_adam_", "aten::_fused_adamw_"};
/// These give memory that they do not touch.
constexpr std::string_view kAllocators[] = {"aten::empty", "aten::new_empty", "aten::resize_",
                                            "aten::set_"};

int64_t operations_per_element(std::string_view name) {
  for (const auto& [known, count] : kOperationsPerElement) {
    if (known == name) return count;
  }
  return 1;
}

bool is_one_of(std::string_view name, c10::ArrayRef<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool only_allocates(std::string_view name) {
  return std::any_of(std::begin(kAllocators), std::end(kAllocators),
                     [&](std::string_view known) { return name.starts_with(known); });
}

void add_tensors(const c10::IValue& value, std::vector<at::Tensor>& all) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && tensor.has_storage() && tensor.numel() > 0) all.push_back(tensor);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) add_tensors(tensor, all);
  } else if (value.isList()) {
    for (const c10::IValue& one : value.toListRef()) add_tensors(one, all);
  }
}

/// A dimension of stride 0 repeats the same elements.
int64_t elements_of(const at::Tensor& tensor) {
  int64_t elements = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) != 0) elements *= tensor.size(d);
  }
  return elements;
}

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::set<std::tuple<const void*, int64_t>> counted;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    const int64_t own = elements_of(tensor) * tensor.element_size();
    if (counted.emplace(tensor.const_data_ptr(), own).second) bytes += own;
  }
  return bytes;
}

/// "Float" is what LibTorch prints; everyone writes "float32".
std::string type_name(at::ScalarType type) {
  constexpr std::array kNames = {std::pair{at::kFloat, "float32"},
                                 std::pair{at::kDouble, "float64"}, std::pair{at::kHalf, "float16"},
                                 std::pair{at::kBFloat16, "bfloat16"}};
  for (const auto& [known, name] : kNames) {
    if (known == type) return name;
  }
  std::string name = c10::toString(type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name;
}

std::string shapes_of(const std::vector<at::Tensor>& tensors) {
  constexpr size_t kMost = 8;  // an optimizer has hundreds
  std::vector<std::string> all;
  for (const at::Tensor& tensor : tensors) {
    if (all.size() == kMost) break;
    all.push_back(fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")));
  }
  if (tensors.size() > kMost) all.push_back(fmt::format("and {} more", tensors.size() - kMost));
  return fmt::format("{}", fmt::join(all, " "));
}

/// The tensors that an operator reads and writes.
struct Arguments {
  std::vector<at::Tensor> all;
  std::vector<at::Tensor> read;
  std::vector<at::Tensor> written;
};

Arguments arguments_of(const at::RecordFunction& function, const c10::FunctionSchema& schema) {
  Arguments arguments;
  const bool overwrites = is_one_of(function.name(), kOverwriters);
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  for (size_t i = 0; i < std::min(inputs.size(), schema.arguments().size()); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool reads = !argument.is_out() && !(writes && overwrites);
    add_tensors(inputs[i], arguments.all);
    const bool only_read =
        argument.name() == "grads" && is_one_of(function.name(), kReadersOfGradients);
    if (reads) add_tensors(inputs[i], arguments.read);
    if (writes && !only_read) add_tensors(inputs[i], arguments.written);
  }
  return arguments;
}

/// Adds what the operator returned to what it wrote. Memory of an argument that it did not write is
/// a view.
void add_results(const at::RecordFunction& function, Arguments& arguments) {
  std::vector<at::Tensor> results;
  for (const c10::IValue& output : function.outputs()) add_tensors(output, results);
  for (const at::Tensor& result : results) {
    const bool known =
        std::any_of(arguments.all.begin(), arguments.all.end(),
                    [&](const at::Tensor& argument) { return argument.is_alias_of(result); });
    if (!known) arguments.written.push_back(result);
  }
}

int64_t most_elements(const Arguments& arguments) {
  int64_t most = 0;
  for (const auto* tensors : {&arguments.read, &arguments.written}) {
    for (const at::Tensor& tensor : *tensors) most = std::max(most, elements_of(tensor));
  }
  return most;
}

std::atomic<WorkRecorder*> active{nullptr};

}  // namespace

/// A call that has not returned yet.
struct WorkRecorder::Call final : at::ObserverContext {
  std::vector<reports::OperatorWork>* calls = nullptr;
  size_t index = 0;
  Call* around = nullptr;
  std::optional<Arguments> arguments;  ///< none: it counts within an operator with a formula
  int64_t flops = 0;
  bool has_formula = false;
  bool has_work_within = false;
};

thread_local WorkRecorder::Call* WorkRecorder::innermost_ = nullptr;

WorkRecorder::~WorkRecorder() {
  if (recording_) on_step_end(0);
}

reports::StepWork WorkRecorder::work() const {
  if (error_) std::rethrow_exception(error_);
  reports::StepWork work;
  for (const ThreadCalls& thread : threads_) work.push_back(thread.calls);
  return work;
}

void WorkRecorder::on_step_begin(int64_t /*step*/) {
  threads_.clear();
  error_ = nullptr;
  WorkRecorder* none = nullptr;
  TORCH_CHECK(active.compare_exchange_strong(none, this), "work is being recorded already");
  memopt::add_operator_callback(at::RecordFunctionCallback(&on_begin, &on_end)
                                    .needsInputs(true)
                                    .needsOutputs(true)
                                    .scopes({at::RecordScope::FUNCTION}));
  recording_ = true;
}

void WorkRecorder::on_step_end(int64_t /*step*/) {
  if (!recording_) return;
  memopt::remove_operator_callback(&on_begin);
  active = nullptr;
  innermost_ = nullptr;
  recording_ = false;
}

std::vector<reports::OperatorWork>& WorkRecorder::calls_of_this_thread() {
  const std::lock_guard lock(mutex_);
  const std::thread::id self = std::this_thread::get_id();
  for (ThreadCalls& thread : threads_) {
    if (thread.thread == self) return thread.calls;
  }
  return threads_.emplace_back(ThreadCalls{self, {}}).calls;
}

/// LibTorch turns an exception of a callback into a warning, so it is kept for the reader.
void WorkRecorder::keep_error() {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::current_exception();
}

std::unique_ptr<at::ObserverContext> WorkRecorder::on_begin(const at::RecordFunction& function) {
  WorkRecorder* recorder = active.load();
  if (recorder == nullptr) return nullptr;
  auto call = std::make_unique<Call>();
  call->calls = &recorder->calls_of_this_thread();
  call->index = call->calls->size();
  call->calls->emplace_back().name = function.name();
  call->around = innermost_;
  const bool counts_within =
      innermost_ != nullptr && (innermost_->has_formula || !innermost_->arguments.has_value());
  innermost_ = call.get();
  try {
    const auto schema = function.operator_schema();
    if (counts_within || !schema.has_value()) {
      if (!counts_within) call->arguments.emplace();
      return call;
    }
    call->arguments = arguments_of(function, *schema);
    const FlopFormula formula = find_flop_formula(function.name());
    call->has_formula = formula != nullptr;
    if (formula != nullptr) call->flops = least_flops(formula, function.inputs());
  } catch (...) {
    recorder->keep_error();
  }
  return call;
}

void WorkRecorder::on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  WorkRecorder* recorder = active.load();
  auto* call = static_cast<Call*>(context);
  if (recorder == nullptr || call == nullptr) return;
  innermost_ = call->around;
  reports::OperatorWork& work = (*call->calls)[call->index];
  try {
    const bool counts = call->arguments.has_value() &&
                        (call->has_formula || !call->has_work_within) && !only_allocates(work.name);
    if (counts) {
      Arguments& arguments = *call->arguments;
      add_results(function, arguments);
      if (!arguments.written.empty()) {
        work.bytes = bytes_of(arguments.read) + bytes_of(arguments.written);
        std::vector<at::Tensor> touched = arguments.read;
        touched.insert(touched.end(), arguments.written.begin(), arguments.written.end());
        work.footprint = bytes_of(touched);
        work.flops = call->has_formula
                         ? call->flops
                         : operations_per_element(work.name) * most_elements(arguments);
        work.shapes = shapes_of(arguments.all);
        work.type = type_name(arguments.written.front().scalar_type());
      }
    }
  } catch (...) {
    recorder->keep_error();
  }
  if (innermost_ != nullptr && (work.any() || call->has_work_within)) {
    innermost_->has_work_within = true;
  }
}

}  // namespace noisemark::suite
