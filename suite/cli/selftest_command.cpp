#include "suite/cli/selftest_command.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "reports/file.h"
#include "suite/selftest/selftest.h"

namespace noisemark::suite {
namespace {

namespace fs = std::filesystem;

/// Removed with what is in it, unless the user named it.
class ResultsFolder {
 public:
  explicit ResultsFolder(const std::string& given) : path_(given), kept_(!given.empty()) {
    if (kept_) return;
    std::string name = (fs::temp_directory_path() / "noisemark-selftest-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Error(ExitCode::kCannotWrite,
                  name + ": cannot make a folder: " + std::generic_category().message(errno));
    }
    path_ = name;
  }
  ~ResultsFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool kept_;
};

std::optional<double> noise_floor(const Arguments& arguments) {
  const std::optional<double> floor = arguments.number("noise-floor", 0);
  if (floor && *floor >= 1) {
    throw bad_input("--noise-floor", "", arguments.text("noise-floor"), "a fraction below 1: 0.01");
  }
  return floor;
}

}  // namespace

Answer test_itself(const Arguments& arguments, const std::vector<std::string>& argv) {
  SelfTestPlan plan = shipped_self_test();
  plan.run.argv = argv;
  plan.run.force = arguments.has("force");
  if (const auto floor = noise_floor(arguments)) {
    plan.judging.noise["images_per_s"].floor_frac = *floor;
  }
  const ResultsFolder folder(arguments.text("out"));
  const auto outcomes = run_self_test(plan, folder.path());
  Answer answer;
  answer.text = trials_markdown(outcomes);
  answer.code = exit_code_of(outcomes);
  reports::write_file_atomically(folder.path() / "selftest.md", answer.text);
  return answer;
}

}  // namespace noisemark::suite
