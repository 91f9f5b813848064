#include "suite/run/earlier_run.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "memopt/mode.h"
#include "reports/error.h"
#include "reports/file.h"
#include "reports/gate.h"
#include "reports/json_io.h"
#include "reports/mark.h"
#include "reports/sha256.h"
#include "reports/write_report.h"
#include "suite/config/canonical.h"
#include "suite/run/verdict.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

std::string data_checksum(const std::vector<reports::DataFile>& files) {
  if (files.empty()) return {};
  reports::Sha256 sha;
  for (const reports::DataFile& file : files) sha.update(file.name + "\n" + file.sha256 + "\n");
  return sha.hex();
}

/// Everything outside the definition that decides which bits come next.
std::string execution_of(const reports::Identity& identity, uint64_t seed, bool deterministic) {
  return fmt::format("{}-{}-{} {} {} threads, seed {}{}", identity.mode, identity.baseline,
                     identity.precision, identity.device, identity.threads, seed,
                     deterministic ? ", deterministic" : "");
}

bool has_its_report(const fs::path& folder, const reports::Result& result) {
  const fs::path path = folder / "report.md";
  if (!fs::exists(path)) return false;
  const auto mark = reports::read_mark(reports::read_file(path));
  return mark && mark->run_id == result.run_id;
}

void require_own(const fs::path& path, const reports::Result& result, const CheckpointKey& own) {
  const std::string& framework = result.identity.framework;
  if (framework != "noisemark") {
    throw Error(ExitCode::kNotComparable,
                path.string() + ": framework: " + framework + " (this run has noisemark)");
  }
  require_same_run(path.string(), run_key(result), own);
}

}  // namespace

CheckpointKey run_key(const PlannedRun& plan, const std::vector<reports::DataFile>& data) {
  const Variant& variant = plan.variant;
  reports::Identity identity;
  identity.mode = variant.mode;
  identity.baseline = variant.baseline;
  identity.precision = variant.precision.name;
  identity.device = variant.device.str();
  identity.threads = variant.threads;
  return {definition_sha256(plan.definition),
          execution_of(identity, plan.seed, variant.deterministic), data_checksum(data)};
}

CheckpointKey run_key(const reports::Result& result) {
  return {result.identity.definition_sha256,
          execution_of(result.identity, result.seeds.base, result.protocol.deterministic),
          data_checksum(result.provenance.data), result.provenance.init_weights_sha256};
}

std::optional<reports::Result> earlier_result(const fs::path& folder, const CheckpointKey& own) {
  const fs::path path = folder / "result.json";
  if (!fs::exists(path)) return std::nullopt;
  reports::Result result = reports::read_result(path);
  require_own(path, result, own);
  return result;
}

std::optional<reports::Result> finished_result(const fs::path& folder, const PlannedRun& plan) {
  const fs::path path = folder / "result.json";
  if (!fs::exists(path)) return std::nullopt;
  reports::Result result = reports::read_result(path);
  require_own(path, result, run_key(plan, result.provenance.data));
  return reports::is_finished(result) ? std::optional(std::move(result)) : std::nullopt;
}

void require_continuable(const std::string& checkpoint, const CheckpointKey& own,
                         const std::string& mode) {
  require_checkpoint(checkpoint, own);
  if (memopt::make_mode(mode)->lossless()) return;
  throw Error(
      ExitCode::kNotComparable,
      "--resume: " + checkpoint + ": of " + mode +
          ", a mode that rounds, but not in the first passes of a process: the run would not end "
          "as one that was not stopped (a lossless mode; without this file --resume begins the run "
          "anew)");
}

void tell_of_checkpoints(const std::string& mode) {
  if (memopt::make_mode(mode)->lossless()) return;
  fmt::print(stderr,
             "noisemark: --checkpoint-every: {} is a mode that rounds: --resume will not continue "
             "from its checkpoints\n",
             mode);
}

ExitCode leave_finished(const reports::Result& result, const fs::path& folder) {
  if (!has_its_report(folder, result)) reports::rewrite_report(folder);
  fmt::print(stderr, "noisemark: --resume: {}: the run is finished and stays as it is\n",
             folder.string());
  fmt::print("{}", verdict_text(result, folder));
  std::fflush(stdout);
  return static_cast<ExitCode>(result.exit.code);
}

}  // namespace noisemark::suite
