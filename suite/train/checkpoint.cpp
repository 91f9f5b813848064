#include "suite/train/checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "reports/base/error.h"
#include "reports/result/result_fields.h"
#include "suite/io/safetensors.h"

namespace noisemark::suite {
namespace {

constexpr const char* kFormat = "noisemark.checkpoint.2";
constexpr const char* kDivision = "division";

constexpr std::string_view kSamples = "samples.";  // begins the names of sample lists

at::Tensor to_tensor(const std::vector<double>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), tensor.data_ptr<double>());
  return tensor;
}

std::vector<double> to_vector(const at::Tensor& tensor) {
  const double* data = tensor.const_data_ptr<double>();
  return {data, data + tensor.numel()};
}

/// One evaluation as a row of numbers: six scalars (excess last, NaN for none), then three arrays
/// of equal or zero length, each preceded by its length.
std::vector<double> evaluation_row(const reports::Evaluation& evaluation) {
  std::vector<double> row{static_cast<double>(evaluation.step),
                          static_cast<double>(evaluation.samples_seen),
                          evaluation.elapsed_s,
                          evaluation.loss,
                          evaluation.weighted_loss,
                          evaluation.excess_frac.value_or(std::nan(""))};
  const auto append = [&row](const auto& values) {
    row.push_back(static_cast<double>(values.size()));
    for (const auto value : values) row.push_back(static_cast<double>(value));
  };
  append(evaluation.timesteps);
  append(evaluation.per_timestep);
  append(evaluation.optimal_per_timestep);
  return row;
}

reports::Evaluation evaluation_from_row(const std::vector<double>& row) {
  size_t at = 0;
  const auto next = [&] { return row.at(at++); };
  reports::Evaluation evaluation;
  evaluation.step = static_cast<int64_t>(next());
  evaluation.samples_seen = static_cast<int64_t>(next());
  evaluation.elapsed_s = next();
  evaluation.loss = next();
  evaluation.weighted_loss = next();
  const double excess = next();
  if (!std::isnan(excess)) evaluation.excess_frac = excess;
  for (auto left = static_cast<size_t>(next()); left > 0; --left) {
    evaluation.timesteps.push_back(static_cast<int64_t>(next()));
  }
  for (std::vector<double>* values : {&evaluation.per_timestep, &evaluation.optimal_per_timestep}) {
    for (auto left = static_cast<size_t>(next()); left > 0; --left) values->push_back(next());
  }
  return evaluation;
}

NamedTensors progress_tensors(const TrainingProgress& progress) {
  NamedTensors tensors;
  for (const auto& [key, values] : reports::json::kSampleLists) {
    tensors.emplace_back(fmt::format("{}{}", kSamples, key), to_tensor(progress.samples.*values));
  }
  for (size_t i = 0; i < progress.evaluations.size(); ++i) {
    tensors.emplace_back("evaluation." + std::to_string(i),
                         to_tensor(evaluation_row(progress.evaluations[i])));
  }
  tensors.emplace_back("elapsed_s", to_tensor({progress.elapsed_s}));
  return tensors;
}

TrainingProgress progress_from(const NamedTensors& tensors) {
  TrainingProgress progress;
  for (const auto& [name, tensor] : tensors) {
    for (const auto& [key, values] : reports::json::kSampleLists) {
      if (name.starts_with(kSamples) && name.substr(kSamples.size()) == key) {
        progress.samples.*values = to_vector(tensor);
      }
    }
    if (name.starts_with("evaluation.")) {
      progress.evaluations.push_back(evaluation_from_row(to_vector(tensor)));
    }
    if (name == "elapsed_s") progress.elapsed_s = to_vector(tensor).at(0);
  }
  std::sort(progress.evaluations.begin(), progress.evaluations.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return progress;
}

bool is_progress(const std::string& name) {
  return name.starts_with(kSamples) || name.starts_with("evaluation.") || name == "elapsed_s";
}

/// A file may hold its tensors in another order than they were given.
std::string sha256_by_name(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return tensors_sha256(tensors);
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

void require_same(const std::string& path, const std::string& field, const std::string& found,
                  const std::string& own) {
  if (found == own) return;
  throw Error(ExitCode::kNotComparable,
              path + ": " + field + ": " + or_none(found) + " (this run has " + or_none(own) + ")");
}

const std::string& field_of(const SafetensorsFile& file, const std::string& path,
                            const std::string& name) {
  const auto found = file.metadata.find(name);
  if (found == file.metadata.end()) {
    throw bad_input(path, name, "missing", "a checkpoint written by --checkpoint-every");
  }
  return found->second;
}

void require_whole(const SafetensorsFile& file, const std::string& path) {
  const std::string& format = field_of(file, path, "format");
  if (format != kFormat) throw bad_input(path, "format", format, kFormat);
  if (sha256_by_name(file.tensors) != field_of(file, path, "tensors_sha256")) {
    throw bad_input(path, "", "damaged: its checksum does not match", "a whole checkpoint");
  }
}

int64_t step_of(const SafetensorsFile& file, const std::string& path) {
  const std::string& text = field_of(file, path, "step");
  int64_t step = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc{} || stop != text.data() + text.size() || step < 0) {
    throw bad_input(path, "step", text, "a whole number from 0 on");
  }
  return step;
}

/// The file, found whole and of this run.
SafetensorsFile read_own(const std::string& path, const CheckpointKey& key) {
  SafetensorsFile file = read_safetensors(path);
  require_whole(file, path);
  const auto field = [&](const char* name) { return field_of(file, path, name); };
  require_same_run(
      path,
      {field("definition_sha256"), field("variant"), field("data"), field("init_weights_sha256")},
      key);
  return file;
}

/// Returns those whose names begin with `prefix`, without it.
NamedTensors without_prefix(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

}  // namespace

void require_same_run(const std::string& where, const CheckpointKey& found,
                      const CheckpointKey& own) {
  require_same(where, "definition_sha256", found.definition_sha256, own.definition_sha256);
  require_same(where, "variant", found.variant, own.variant);
  require_same(where, "data", found.data, own.data);
  if (found.init_weights_sha256.empty() || own.init_weights_sha256.empty()) return;
  require_same(where, "init_weights_sha256", found.init_weights_sha256, own.init_weights_sha256);
}

bool is_checkpoint(const SafetensorsFile& file) {
  const auto format = file.metadata.find("format");
  return format != file.metadata.end() && format->second.starts_with("noisemark.checkpoint.");
}

NamedTensors checkpoint_weights(const SafetensorsFile& file, const std::string& path,
                                const std::string& kind) {
  require_whole(file, path);
  NamedTensors weights = without_prefix("model.", file.tensors);
  if (kind == "model") return weights;
  const NamedTensors average = without_prefix("ema.", file.tensors);
  if (average.empty()) throw bad_input(path, "ema", "no average in it", "model, or another file");
  for (auto& [name, tensor] : weights) {
    for (const auto& [averaged, shadow] : average) {
      if (averaged == name) tensor = shadow;
    }
  }
  return weights;
}

void write_checkpoint(const std::string& path, Trainer& trainer, const CheckpointKey& key,
                      const TrainingProgress& progress) {
  NamedTensors tensors = trainer.whole_state();
  const NamedTensors measured = progress_tensors(progress);
  tensors.insert(tensors.end(), measured.begin(), measured.end());
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kCPU).contiguous();
  std::map<std::string, std::string> metadata{{"format", kFormat},
                                              {"definition_sha256", key.definition_sha256},
                                              {"variant", key.variant},
                                              {"data", key.data},
                                              {"init_weights_sha256", progress.init_weights_sha256},
                                              {"step", std::to_string(trainer.next_step())},
                                              {"tensors_sha256", sha256_by_name(tensors)}};
  if (!progress.division.firsts.empty()) metadata[kDivision] = text_of(progress.division);
  write_safetensors(path, tensors, metadata);
}

void require_checkpoint(const std::string& path, const CheckpointKey& key) {
  (void)read_own(path, key);
}

Division division_in_checkpoint(const std::string& path) {
  const SafetensorsFile file = read_safetensors(path);
  const auto found = file.metadata.find(kDivision);
  return found == file.metadata.end() ? Division{} : division_from(found->second);
}

TrainingProgress read_checkpoint(const std::string& path, Trainer& trainer,
                                 const CheckpointKey& key) {
  const SafetensorsFile file = read_own(path, key);
  const int64_t step = step_of(file, path);
  NamedTensors state;
  for (const auto& named : file.tensors) {
    if (!is_progress(named.first)) state.push_back(named);
  }
  const at::NoGradGuard no_grad;
  const NamedTensors whole = trainer.whole_state();
  copy_by_name(state, whole, path);
  trainer.restore(whole, step);
  TrainingProgress progress = progress_from(file.tensors);
  progress.init_weights_sha256 = file.metadata.at("init_weights_sha256");
  return progress;
}

}  // namespace noisemark::suite
