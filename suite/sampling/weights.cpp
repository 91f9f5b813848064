#include "suite/sampling/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/streams.h"
#include "reports/compare/sides.h"
#include "reports/result/json_io.h"
#include "suite/config/lock.h"
#include "suite/train/checkpoint.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// Names the file of one kind in a run's folder.
struct KindEntry {
  const char* kind;
  const char* file;
};
constexpr KindEntry kKinds[] = {{"model", "weights.safetensors"}, {"ema", "ema.safetensors"}};

std::string file_of(const std::string& kind) {
  for (const KindEntry& entry : kKinds) {
    if (entry.kind == kind) return entry.file;
  }
  throw bad_input("--use", "", kind, "model or ema");
}

std::string kind_of(const fs::path& file) {
  for (const KindEntry& entry : kKinds) {
    if (entry.file == file.filename()) return entry.kind;
  }
  return "";
}

std::string field(const std::map<std::string, std::string>& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  return found == metadata.end() ? "" : found->second;
}

SamplingWeights weights_of_one_kind(const fs::path& path, SafetensorsFile file,
                                    const std::string& kind) {
  const std::string own = kind_of(path);
  if (!kind.empty() && !own.empty() && kind != own) {
    throw bad_input("--use", kind, path.string() + " holds the other kind",
                    "the folder of a run, or a checkpoint, which hold both");
  }
  return {std::move(file.tensors), path.string(), own.empty() ? kind : own,
          field(file.metadata, "definition_sha256"), field(file.metadata, "step")};
}

SamplingWeights weights_of_checkpoint(const fs::path& path, const SafetensorsFile& file,
                                      const std::string& kind) {
  return {checkpoint_weights(file, path.string(), kind), path.string(), kind,
          field(file.metadata, "definition_sha256"), field(file.metadata, "step")};
}

/// Returns the runs in a folder of them: one level below it, or two, as a suite has its seeds.
std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code unknown;
  const auto own = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(folder, own, unknown), end; entry != end;
       entry.increment(unknown)) {
    if (unknown) break;
    if (entry.depth() >= 2) entry.disable_recursion_pending();
    if (entry->path().filename() == file_of("model") && entry.depth() > 0) {
      runs.push_back(entry->path().parent_path());
    }
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

/// The file in a run's folder that has the weights of this kind.
fs::path file_in(const fs::path& folder, const std::string& kind) {
  const fs::path wanted = folder / file_of(kind);
  const fs::path checkpoint = folder / "checkpoint.safetensors";
  if (!fs::exists(wanted) && !fs::exists(folder / file_of("model")) && fs::exists(checkpoint)) {
    return checkpoint;
  }
  if (!fs::exists(wanted) && !fs::exists(folder / file_of(kind == "ema" ? "model" : "ema"))) {
    const std::vector<fs::path> runs = runs_in(folder);
    const std::string found = runs.empty()
                                  ? "holds no weights"
                                  : fmt::format("a folder of runs, {} of them", runs.size());
    throw bad_input("--weights", folder.string(), found,
                    "the folder of one run that has been trained" +
                        (runs.empty() ? "" : ", as " + runs.front().string()));
  }
  if (!fs::exists(wanted)) {
    throw bad_input(folder.string(), wanted.filename().string(), "not there",
                    "the folder of a run that has been trained; or --use " +
                        std::string(kind == "ema" ? "model" : "ema"));
  }
  return wanted;
}

}  // namespace

SamplingWeights read_sampling_weights(const fs::path& source, const std::string& kind,
                                      const std::string& otherwise) {
  const std::string chosen = kind.empty() ? otherwise : kind;
  (void)file_of(chosen);  // another word is refused, whatever is read
  const bool is_folder = fs::is_directory(source);
  const fs::path path = is_folder ? file_in(source, chosen) : source;
  SafetensorsFile file = read_safetensors(path.string());
  if (is_checkpoint(file)) return weights_of_checkpoint(path, file, chosen);
  return weights_of_one_kind(path, std::move(file), is_folder ? chosen : kind);
}

namespace {

/// The canonical definition of the run that made the weights; empty where it is not known.
std::string definition_of_training(const SamplingWeights& weights) {
  const fs::path file = fs::path(weights.file).parent_path() / "result.json";
  try {
    if (!fs::exists(file)) return "";
    const reports::Result run = reports::read_result(file);
    const bool is_its_own = run.identity.definition_sha256 == weights.definition_sha256;
    return is_its_own ? run.definition : "";
  } catch (const Error&) {
    return "";  // whoever draws does not need it
  }
}

/// "model.dim" to "16", of every key that says what is drawn.
reports::Strings drawing_keys(const std::string& canonical) {
  reports::Strings keys;
  const nlohmann::json definition = nlohmann::json::parse(canonical);
  for (const char* section : {"model", "diffusion"}) {
    const auto found = definition.find(section);
    if (found == definition.end()) continue;
    for (const auto& [key, value] : found->items()) {
      keys[fmt::format("{}.{}", section, key)] =
          value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  return keys;
}

/// "model.resolution=32 (here 16); to draw as it was trained, add --set model.resolution=32".
std::string differences(const std::string& trained, const Definition& definition) {
  std::vector<std::string> differing;
  std::string options;
  const auto differ =
      reports::differing_fields(drawing_keys(trained), drawing_keys(canonical_json(definition)));
  for (const reports::FieldDifference& one : differ) {
    const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
    differing.push_back(
        fmt::format("{}={} (here {})", one.field, shown(one.base), shown(one.candidate)));
    if (one.base.empty()) continue;
    options += " --set " + reports::shell_word(one.field + "=" + one.base);
  }
  if (differing.empty()) return "";
  return fmt::format("{}{}", fmt::join(differing, ", "),
                     options.empty() ? "" : "; to draw as it was trained, add" + options);
}

}  // namespace

std::string other_training(const SamplingWeights& weights, const Definition& definition) {
  const std::string& sha256 = weights.definition_sha256;
  if (sha256.empty() || sha256 == definition_sha256(definition)) return "";
  const std::string trained = definition_of_training(weights);
  if (trained.empty()) {
    const std::string other = locked_name_of(sha256);
    return fmt::format("{}: trained under another definition than {}, whose network fits: {}",
                       weights.file, definition.id,
                       other.empty() ? "a custom one" : "that of " + other);
  }
  const std::string differing = differences(trained, definition);
  return differing.empty() ? "" : fmt::format("{}: trained with {}", weights.file, differing);
}

}  // namespace noisemark::suite
