#include "suite/run/spec/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "reports/base/quantity.h"
#include "reports/base/streams.h"
#include "suite/config/lock.h"

namespace noisemark::suite {

reports::Identity identity_of(const PlannedRun& plan, const Dataset& dataset) {
  const Definition& definition = plan.spec.definition;
  const RunSpec& spec = plan.spec;
  reports::Identity identity;
  identity.benchmark = definition.id;
  identity.scale = definition.scale;
  identity.version = definition.version;
  identity.overrides = definition.overrides;
  identity.custom = definition.custom;
  identity.definition_sha256 = definition_sha256(definition);
  identity.mode = spec.mode.name;
  identity.baseline = spec.baseline.name;
  identity.precision = spec.precision.name;
  identity.device = spec.device.str();
  identity.framework = reports::kOwnFramework;
  identity.threads = spec.threads;
  identity.reduction = spec.reduction;
  if (spec.shard_optimizer) identity.shards = "optimizer";
  identity.pipeline = spec.pipeline;
  if (!spec.pipeline.empty()) identity.micro_batches = spec.micro_batches;
  identity.data = dataset.standing();
  return identity;
}

namespace {

std::string random_id() {
  std::random_device entropy;
  return fmt::format("{:08x}{:08x}", entropy(), entropy());
}

bool names_option(const std::vector<std::string>& argv, const std::string& option) {
  return std::any_of(argv.begin(), argv.end(), [&](const std::string& word) {
    return word == option || word.starts_with(option + "=");
  });
}

}  // namespace

std::string repeat_command(const std::vector<std::string>& argv, const std::string& data,
                           int64_t threads, int64_t ranks) {
  std::string line;
  for (size_t i = 0; i < argv.size(); ++i) {
    if (argv[i] == "--out") {
      ++i;
      continue;
    }
    if (argv[i].starts_with("--out=") || argv[i] == "--force" || argv[i] == "--resume") continue;
    const std::string word = i == 0 ? std::filesystem::path(argv[0]).filename().string() : argv[i];
    if (!line.empty()) line += ' ';
    line += reports::shell_word(word);
  }
  if (!data.empty() && !names_option(argv, "--data"))
    line += " --data " + reports::shell_word(data);
  if (threads > 0 && !names_option(argv, "--threads")) {
    line += fmt::format(" --threads {}", threads);
  }
  if (ranks > 1 && !names_option(argv, "--ranks")) line += fmt::format(" --ranks {}", ranks);
  return line;
}

reports::Result new_result(const std::vector<std::string>& argv, const std::string& data,
                           int64_t threads, int64_t ranks) {
  reports::Result result;
  result.run_id = random_id();
  result.created_utc = reports::utc_now();
  result.argv = argv;
  result.repeat_command = repeat_command(argv, data, threads, ranks);
  return result;
}

}  // namespace noisemark::suite
