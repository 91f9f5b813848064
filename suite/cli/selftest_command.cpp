#include "suite/cli/selftest_command.h"

#include <charconv>
#include <filesystem>
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

double noise_floor(const Arguments& arguments) {
  const std::string text = arguments.text("noise-floor");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value >= 1) {
    throw bad_input("--noise-floor", "", text, "a fraction of at least 0 and below 1: 0.01");
  }
  return value;
}

}  // namespace

Answer test_itself(const Arguments& arguments, const std::vector<std::string>& argv) {
  SelfTestPlan plan = shipped_self_test();
  plan.run.argv = argv;
  plan.run.force = arguments.has("force");
  if (arguments.has("noise-floor")) {
    plan.judging.noise_floor_frac["images_per_s"] = noise_floor(arguments);
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
