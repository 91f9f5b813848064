#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "memopt/example/models.h"
#include "memopt/example/training.h"
#include "memopt/modes/budget_mode.h"
#include "memopt/modes/mode.h"

/// memopt in a program that has nothing else of Noisemark: small models are trained under mode
/// "none" and under other modes, and how many times less these hold for backward is printed as a
/// table. A cell is the factor when forward ends and the factor at the peak of the step. The error
/// is the largest of the last step's gradients. Below is what a mode that saves nothing keeps most
/// of, and why a budget is refused.
///
/// noisemark_memopt_example [MODEL...] [MODE...]: without a model all of them, and without a mode
/// those of the table in memopt/README.md.
///
/// Exit code 0: as each mode promises. 1: a lossless mode gave another bit, a budget was exceeded,
/// a mode held more memory, or a model learned nothing. 2: bad usage.
namespace {

namespace memopt = noisemark::memopt;
using example::Outcome;
using example::TaskEntry;

constexpr int kBroken = 1;
constexpr int kBadInput = 2;

std::string printed(const char* format, double number) {
  char text[32];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

/// "40%" of what mode "none" holds becomes a number of bytes; other spellings stay, for the mode's
/// own words on them.
std::string spelled_for(const std::string& mode, const Outcome& none) {
  const size_t number = mode.find('=') + 1;
  const size_t sign = mode.find('%', number);
  if (sign == std::string::npos) return mode;
  const char* const end = mode.data() + sign;
  int percent = 0;
  const auto [stop, error] = std::from_chars(mode.data() + number, end, percent);
  if (error != std::errc() || stop != end || percent < 0 || percent > 100) return mode;
  if (sign + 1 < mode.size() && mode[sign + 1] != ',') return mode;
  return mode.substr(0, number) + std::to_string(none.peak_saved_bytes * percent / 100) +
         mode.substr(sign + 1);
}

/// "2.31 / 1.94"
std::string factors(const Outcome& none, const Outcome& outcome) {
  const auto factor = [](int64_t of_none, int64_t bytes) {
    return printed("%.2f", static_cast<double>(of_none) / static_cast<double>(bytes));
  };
  return factor(none.saved_bytes, outcome.saved_bytes) + " / " +
         factor(none.peak_saved_bytes, outcome.peak_saved_bytes);
}

/// Returns whether less than a twentieth is saved at the peak.
bool saves_nothing(const Outcome& none, const Outcome& outcome) {
  return outcome.peak_saved_bytes * 20 > none.peak_saved_bytes * 19;
}

/// A mode's row, model by model.
struct Row {
  std::string cells;
  double error = 0;  ///< the largest
  bool same_bits = true;

  void add(const Outcome& none, const Outcome& outcome) {
    cells += factors(none, outcome) + " | ";
    error = std::max(error, outcome.gradient_error);
    same_bits = same_bits && example::same_bits_as(outcome, none);
  }
  void add_refused() { cells += "refused | "; }
  [[nodiscard]] std::string text(const std::string& mode) const {
    return "| `" + mode + "` | " + cells + (error == 0 ? "0" : printed("%.1g", error)) + " | " +
           (same_bits ? "yes" : "no") + " |\n";
  }
};

/// Throws for a mode that is spelled wrong, before anything is trained for its sake.
void check_spellings(const std::vector<std::string>& modes) {
  Outcome none;
  none.peak_saved_bytes = 100;  // every percentage is a number of bytes
  for (const std::string& mode : modes) (void)memopt::make_mode(spelled_for(mode, none));
}

/// The rows of the table in memopt/README.md. "budget:saved=60%" stands for three fifths of the
/// most that mode "none" holds, in bytes.
std::vector<std::string> modes_of_table() {
  return {"none",
          "mirror",
          "mirror:sqrt",
          "mirror+echo",
          "echo",
          "echo+attn",
          "gist",
          "echo+attn+gist",
          "q4",
          "echo+attn+dpr8",
          "offload:all",
          "budget:saved=60%",
          "budget:saved=30%,error"};
}

/// The bytes that each mode holds beside mode "none" on each model.
struct Table {
  std::string markdown;
  /// The reasons where a mode saves next to nothing or a budget is refused.
  std::vector<std::string> in_the_way;
  /// "gpt under echo: above its budget"; empty where every mode kept its promises.
  std::vector<std::string> broken;
};

/// A model with its training under mode "none".
struct Subject {
  TaskEntry task;
  Outcome none;
};

void add_cell(Table& table, Row& row, const Subject& subject, const std::string& mode) {
  const std::string spelled = spelled_for(mode, subject.none);
  const std::string who = std::string(subject.task.name) + " under " + spelled + ": ";
  try {
    const Outcome outcome = mode == "none"
                                ? subject.none
                                : example::train(subject.task, spelled, example::TrainingOptions());
    const std::string broken = example::broken_promise(spelled, outcome, subject.none);
    if (!broken.empty()) table.broken.push_back(who + broken);
    const bool saves = mode != "none" && mode.find("offload") == std::string::npos;
    if (saves && saves_nothing(subject.none, outcome)) {
      table.in_the_way.push_back(who + outcome.keeps);
    }
    row.add(subject.none, outcome);
  } catch (const memopt::BudgetTooSmall& refused) {
    table.in_the_way.push_back(who + refused.what());
    row.add_refused();
  }
}

/// Trains each of `tasks` under mode "none" and under each of `modes`. Throws std::invalid_argument
/// for a mode that is spelled wrong, before anything is trained.
Table make_table(const std::vector<TaskEntry>& tasks, const std::vector<std::string>& modes) {
  check_spellings(modes);
  Table table;
  std::vector<Subject> subjects;
  std::string head = "| mode | ";
  std::string line = "|---|";
  for (const TaskEntry& task : tasks) {
    subjects.push_back({task, example::train(task, "none", example::TrainingOptions())});
    head.append(task.name).append(" | ");
    line += "---|";
  }
  table.markdown = head + "error | bit for bit |\n" + line + "---|---|\n";
  for (const std::string& mode : modes) {
    Row row;
    for (const Subject& subject : subjects) add_cell(table, row, subject, mode);
    table.markdown += row.text(mode);
  }
  return table;
}

int run(const std::vector<std::string>& words) {
  std::vector<TaskEntry> tasks;
  std::vector<std::string> modes;
  for (const std::string& word : words) {
    const auto all = example::tasks();
    const auto named = std::find_if(all.begin(), all.end(),
                                    [&](const TaskEntry& task) { return task.name == word; });
    if (named == all.end()) {
      modes.push_back(word);
    } else {
      tasks.push_back(*named);
    }
  }
  if (tasks.empty()) tasks.assign(example::tasks().begin(), example::tasks().end());
  if (modes.empty()) modes = modes_of_table();
  const Table table = make_table(tasks, modes);
  std::printf("%s", table.markdown.c_str());
  for (const std::string& why : table.in_the_way) std::printf("\n%s", why.c_str());
  for (const std::string& broken : table.broken) std::fprintf(stderr, "%s\n", broken.c_str());
  if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
  return table.broken.empty() ? 0 : kBroken;
}

}  // namespace

int main(int argc, char** argv) {
  memopt::install_tracking_allocator();
  memopt::install_saved_tensor_engine();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return run(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return kBadInput;
  }
}
