#include "reports/plot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "reports/file.h"

namespace noisemark::reports {
namespace {

namespace fs = std::filesystem;

class [[nodiscard]] SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// Runs gnuplot in `folder` without the user's settings. Returns why it failed, empty when it did
// not.
std::string run_gnuplot(const fs::path& folder, const std::string& script) {
  SpawnActions actions;
  posix_spawn_file_actions_addchdir_np(actions.get(), folder.c_str());
  for (const int stream : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(actions.get(), stream, "/dev/null", O_RDWR, 0);
  }
  std::string program = "gnuplot";
  std::string defaults = "-d";
  std::string file = script;
  std::array<char*, 4> argv{program.data(), defaults.data(), file.data(), nullptr};
  std::string locale = "LC_ALL=C.UTF-8";  // numbers and letters must not depend on the user's
  std::array<char*, 2> environment{locale.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, program.c_str(), actions.get(), nullptr, argv.data(),
                                 environment.data());
  if (error == ENOENT) return "gnuplot is not installed";
  if (error != 0) return "gnuplot cannot be started: " + std::generic_category().message(error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return "gnuplot was lost: " + std::generic_category().message(errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return "gnuplot failed (run `gnuplot -d " + script + "` in plots/ to see why)";
}

// gnuplot ends with 0 also when the disk did not take its last bytes.
bool is_whole_picture(const fs::path& path) {
  if (!fs::is_regular_file(path)) return false;
  const std::string text = read_file(path);
  return text.substr(0, text.find_last_not_of("\r\n") + 1).ends_with("</svg>");
}

bool holds(const fs::path& path, const std::string& text) {
  return fs::is_regular_file(path) && read_file(path) == text;
}

}  // namespace

Plots write_plots(const fs::path& folder, const std::vector<PlotSource>& sources) {
  Plots plots;
  const fs::path place = folder / "plots";
  for (const PlotSource& source : sources) {
    make_folder(place);
    const fs::path data = place / (source.name + ".dat");
    const fs::path script = place / (source.name + ".gp");
    const fs::path picture = place / (source.name + ".svg");
    const bool same = holds(data, source.data) && holds(script, source.script);
    write_file_atomically(data, source.data);
    write_file_atomically(script, source.script);
    if (!same) fs::remove(picture);
    std::string failure = run_gnuplot(place, script.filename().string());
    const bool whole = is_whole_picture(picture);
    if (failure.empty() && !whole) failure = "gnuplot left no whole picture (is the disk full?)";
    if (!failure.empty() && !(same && whole)) {
      fs::remove(picture);
      plots.left_out = failure;
      continue;
    }
    plots.links.push_back({source.title, "plots/" + picture.filename().string()});
  }
  return plots;
}

Plots write_plots(const fs::path& folder, const Result& result) {
  return write_plots(folder, plot_sources(result));
}

}  // namespace noisemark::reports
