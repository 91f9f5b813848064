#include <fmt/format.h>

#include "reports/environment_changes.h"
#include "reports/markdown.h"
#include "reports/quantity.h"
#include "reports/report_sections.h"

namespace noisemark::reports::sections {
namespace {

std::string or_unknown(const std::string& text) {
  return text.empty() ? "not recorded" : text;
}

void add_all(MarkdownTable& table, const std::string& kind, const Strings& strings) {
  for (const auto& [key, value] : strings) table.add_row({kind, key, value});
}

// What a reader should not have to find in a long table.
std::string changes(const Strings& environment) {
  if (!environment.contains(std::string(kChangedWhileItRan))) return "";
  const std::vector<std::string> changed = changes_while_it_ran(environment);
  if (changed.empty()) {
    return "Settings of the machine were read again at the end; none had changed.\n\n";
  }
  return fmt::format("**Changed while it ran: {}.** What it was at the end is in the table.\n\n",
                     fmt::join(changed, ", "));
}

}  // namespace

std::string environment(const Result& result) {
  MarkdownTable table({{"part"}, {"what"}, {"value"}});
  add_all(table, "hardware", result.identity.hardware);
  add_all(table, "software", result.identity.software);
  add_all(table, "system", result.environment);
  if (table.empty()) return "## Environment\n\nNothing was recorded.\n";
  return "## Environment\n\n" + changes(result.environment) + table.text();
}

std::string seeds(const Result& result) {
  MarkdownTable table({{"stream"}, {"seed", Align::kRight}});
  table.add_row({"base", fmt::format("{}", result.seeds.base)});
  for (const auto& [stream, seed] : result.seeds.streams) {
    table.add_row({stream, fmt::format("{}", seed)});
  }
  return "## Seeds\n\n" + table.text();
}

std::string data(const Result& result) {
  std::string text = fmt::format("## Data ({})\n\n", or_unknown(result.identity.data));
  if (result.provenance.data.empty()) return text + "No file was read.\n";
  MarkdownTable table({{"file"},
                       {"bytes", Align::kRight},
                       {"pictures", Align::kRight},
                       {"SHA-256"},
                       {"is the locked one"}});
  for (const DataFile& file : result.provenance.data) {
    table.add_row({code(file.name), format_count(file.bytes),
                   file.pictures ? format_count(*file.pictures) : "not counted", code(file.sha256),
                   file.verified ? "yes" : "no"});
  }
  return text + table.text();
}

std::string repeat(const Result& result) {
  if (result.repeat_command.empty()) return "## Repeat it\n\nNo command was recorded.\n";
  std::string text = fmt::format("## Repeat it\n\n```sh\n{}\n```\n", result.repeat_command);
  if (result.repeat_command.starts_with("noisemark ")) {
    text += "\n`noisemark` is in `bin/` of the build folder (`build/release/bin/noisemark`).\n";
  }
  return text;
}

std::string provenance(const Result& result, const std::string& result_sha256) {
  const Provenance& from = result.provenance;
  MarkdownTable table({{"what"}, {"value"}});
  const auto add_digest = [&](const std::string& name, const std::string& digest) {
    table.add_row({name, digest.empty() ? "not recorded" : code(digest)});
  };
  add_digest("definition, SHA-256", result.identity.definition_sha256);
  add_digest("initial weights, SHA-256", from.init_weights_sha256);
  add_digest("trained weights, SHA-256", result.determinism.weights_sha256);
  if (const std::string& average = result.determinism.ema_sha256; !average.empty()) {
    add_digest("their average, SHA-256", average);
  }
  add_digest("loss trace, SHA-256", result.determinism.loss_trace_sha256);
  for (const auto& [key, value] : from.build) table.add_row({"build: " + key, value});
  for (const auto& [key, value] : from.container) table.add_row({"container: " + key, value});
  if (from.container.empty()) table.add_row({"container", "none"});
  add_digest("commit", from.git_commit);
  table.add_row({"working tree", from.git_dirty ? "changed since the commit" : "as committed"});
  if (from.git_dirty) add_digest("changes, SHA-256", from.git_diff_sha256);
  add_digest("binary, SHA-256", from.binary_sha256);
  for (const Artifact& artifact : result.artifacts) {
    add_digest(fmt::format("{}, SHA-256", artifact.path), artifact.sha256);
  }
  table.add_row({"run", code(result.run_id)});
  table.add_row({"made", result.created_utc});
  add_digest("result.json, SHA-256", result_sha256);
  return "## Provenance\n\n" + table.text();
}

}  // namespace noisemark::reports::sections
