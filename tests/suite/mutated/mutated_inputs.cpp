// Gives the program files that accidents and careless programs have changed, thousands of them, and
// counts what must never happen: a crash, exit code 70, a hang, and a changed file that is taken
// where a checksum says that it was changed.
//
// The usage stands in kUsage.

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memopt/accounting/tracking_allocator.h"
#include "memopt/autograd/saved_tensor_scope.h"
#include "reports/ab/calibration.h"
#include "reports/base/error.h"
#include "reports/base/file.h"
#include "reports/compare/sides.h"
#include "reports/result/json_io.h"
#include "suite/cli/commands.h"
#include "suite/config/lock.h"
#include "suite/io/numpy.h"
#include "suite/io/png.h"
#include "suite/io/safetensors.h"
#include "suite/run/passes/failure.h"
#include "tests/reports/trace/written.h"
#include "tests/suite/data/image_writer.h"
#include "tests/suite/mutated/mutate.h"
#include "tests/suite/quality/inception/random_weights.h"

namespace noisemark::suite::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A hang is told by processor time, which a busy machine does not lengthen. What waits and takes
// none ends by the clock.
constexpr rlim_t kPatience_s = 120;
constexpr unsigned kLongestWait_s = 600;

int program(const Words& words) {
  try {
    // The program holds the lock inside of it; noisemark_lock reads one from a file.
    if (words.front() == "lock") {
      return parse_lock(reports::read_file(words.back()), words.back()).empty() ? 2 : 0;
    }
    return static_cast<int>(run_command_line(words, words));
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    fmt::print(stderr, "noisemark: {}\n", failure.message);
    return static_cast<int>(failure.code);
  }
}

struct Ended {
  int code = 0;    ///< exit code
  int signal = 0;  ///< the signal that ended it; 0: none
  std::string said;
};

/// The program with these words, in a process of its own.
Ended in_a_process(const Words& words, const fs::path& log) {
  std::fflush(stdout);
  std::fflush(stderr);
  const pid_t child = fork();
  if (child == 0) {
    const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int input = open("/dev/null", O_RDONLY);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    alarm(kLongestWait_s);
    const rlimit processor_time{kPatience_s, kPatience_s};  // SIGKILL, which nothing catches
    setrlimit(RLIMIT_CPU, &processor_time);
    const rlimit address_space{rlim_t{16} << 30U, rlim_t{16} << 30U};
    setrlimit(RLIMIT_AS, &address_space);
    const int code = program(words);
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Ended ended{WIFEXITED(status) ? WEXITSTATUS(status) : 0,
              WIFSIGNALED(status) ? WTERMSIG(status) : 0, reports::read_file(log)};
  return ended;
}

/// The place of the good files, each made by the program itself or recorded in the repository.
class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {
    make_runs();
    make_arrays();
    make_pictures();
    make_cifar();
    make_profile();
    make_inception();
    fs::create_directories(folder_ / "promoted");
    fs::copy(source() / "baselines/results/xeon-model-167-2-cores/gmm16-ho@cpu/none-plain-fp32-cpu",
             folder_ / "kept", fs::copy_options::recursive);
    fs::create_directories(folder_ / "ab");
    fs::copy_file(source() / "tests/reports/ab/recorded/gmm16-ho.json", folder_ / "ab/ab.json");
    fs::copy_file(source() / "suite/benchmarks/v1/gmm16.toml", folder_ / "definition.toml");
    fs::copy_file(source() / "suite/benchmarks/v1/LOCK", folder_ / "LOCK");
    make_calibration();
    reports::write_file_atomically(folder_ / "flags.toml",
                                   "seed = 7\nset = [\"train.batch=4\"]\nthreads = 1\n"
                                   "precision = \"fp32\"\ndeterministic = true\n");
  }

  [[nodiscard]] fs::path operator/(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::string text(const std::string& name) const {
    return (folder_ / name).string();
  }
  static Words short_run(const std::string& id, const Words& more) {
    Words words = {"run",
                   id,
                   "--device",
                   "cpu",
                   "--threads",
                   "1",
                   "--no-memory",
                   "--no-profile",
                   "--no-certificate"};
    return with_sets(words, more);
  }
  static Words with_sets(Words words, const Words& more) {
    for (const char* set : {"train.steps=4", "train.batch=4", "eval.samples=8", "eval.every=2"}) {
      words.insert(words.end(), {"--set", set});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  [[nodiscard]] fs::path log() const { return folder_ / "log"; }

 private:
  static fs::path source() { return NOISEMARK_SOURCE; }

  void make(const Words& words) const {
    const Ended ended = in_a_process(words, log());
    if (ended.code != 0 || ended.signal != 0) {
      throw std::runtime_error(fmt::format("a seed cannot be made ({}, signal {}): {}", ended.code,
                                           ended.signal, ended.said));
    }
  }

  void make_runs() const {
    for (const char* name : {"run", "again", "measured"}) {
      make(short_run(
          "gmm16", {"--out", text(name), "--checkpoint-every", "2", "--set", "sample.sampler=ddim",
                    "--set", "sample.ddim_steps=2", "--set", "sample.count=4"}));
    }
    make({"fid", text("measured/samples/samples.npy"), "gmm16:exact", "--json"});
    fs::create_directories(folder_ / "measured/distances");
    fs::copy_file(log(), folder_ / "measured/distances/mixture.json");
    for (const char* mode : {"none", "echo"}) {
      for (const char* seed : {"1", "2", "3"}) {
        make(short_run("gmm16", {"--mode", mode, "--seed", seed, "--out",
                                 text(fmt::format("study/{}-{}", mode, seed))}));
      }
    }
    make({"quality", text("study"), "--out", text("judged"), "--inconclusive", "warn"});
    reports::write_file_atomically(
        folder_ / "study/suite.json",
        R"({"schema": {"name": "noisemark.suite", "version": "1.0.0"}, "title": "a study", "folders": ["none-1", "none-2", )"
        R"("none-3", "echo-1", "echo-2", "echo-3"], "earlier": {}, "not_run": {}})");
    make({"quality", text("study"), "--out", text("study"), "--inconclusive", "warn"});
    fs::create_directories(folder_ / "suite");
    fs::copy(folder_ / "study/none-1", folder_ / "suite/one", fs::copy_options::recursive);
    reports::write_file_atomically(
        folder_ / "suite/suite.json",
        "{\n  \"schema\": {\"name\": \"noisemark.suite\", \"version\": \"1.0.0\"},\n  \"title\": "
        "\"a sweep\",\n  \"folders\": "
        "[\n    \"one\",\n    \"two\"\n  ],\n  \"earlier\": {},\n  \"not_run\": {\n    \"two\": "
        "\"interrupted\"\n  }\n}\n");
  }

  /// A recorded one, said to be of the runs that were made here.
  void make_calibration() const {
    reports::Calibration calibration = reports::read_calibration(
        source() / "baselines/results/xeon-model-167-2-cores/calibration/gmm16-ho@cpu");
    calibration.identity = reports::same_work(reports::read_result(folder_ / "run/result.json"));
    reports::write_file_atomically(folder_ / "calibration.json",
                                   reports::calibration_json(calibration));
  }

  void make_arrays() const {
    write_npy(text("features.npy"), at::arange(24, at::kFloat).view({8, 3}).sin());
    write_npy(text("images.npy"), at::arange(3072).to(at::kByte).view({4, 16, 16, 3}));
    write_npy(text("noise.npy"), at::arange(512, at::kFloat).view({2, 1, 16, 16}).cos());
    make({"fid", text("features.npy"), "--out", text("moments.npz")});
  }

  void make_pictures() const {
    for (int i = 0; i < 3; ++i) {
      const Picture picture = test_picture(16, 16, 3);
      const std::vector<uint8_t> png = encode_png(picture);
      const std::vector<uint8_t> jpeg = encode_jpeg(picture, 90);
      const std::vector<uint8_t> scans =
          encode_jpeg(test_picture(16, 16, i == 0 ? 1 : 3), 90, true);
      write(fmt::format("png/{}.png", i), {png.begin(), png.end()});
      write(fmt::format("jpeg/{}.jpg", i), {jpeg.begin(), jpeg.end()});
      write(fmt::format("scans/{}.jpg", i), {scans.begin(), scans.end()});
      write(fmt::format("interlaced/{}.png", i), interlaced_png());
    }
    make({"fid", text("png"), "--extractor", "cifarnet", "--features-cache", text("cache"), "--out",
          text("stored.npz")});
  }

  /// A run with a profile in its folder and sentences beside its result, and traces of kineto: the
  /// profile's own, and one of a GPU.
  void make_profile() const {
    fs::copy(folder_ / "run", folder_ / "profiled", fs::copy_options::recursive);
    // It is of the run's own work, so that the report says what limits that.
    make(with_sets({"profile", "gmm16", "--device", "cpu", "--threads", "1", "--steps", "1"},
                   {"--set", "sample.sampler=ddim", "--set", "sample.ddim_steps=2", "--set",
                    "sample.count=4", "--out", text("profiled/profile")}));
    make({"report", text("profiled"), "--base", text("again")});
    fs::copy_file(folder_ / "profiled/profile/trace.json.gz", folder_ / "trace.json.gz");
    std::string events;
    for (int i = 0; i < 6; ++i) {
      events += reports::test::call(100 * i, 5, i + 1);
      events += reports::test::kernel(100 * i + 20, 60, i + 1,
                                      i % 2 == 0 ? "gemm" : "ncclAllReduce", 7 + i % 3);
    }
    write("trace.json",
          R"({"schemaVersion": 1, "traceEvents": [)" + events + reports::test::kEnd + "]}");
  }

  /// Makes files as the converter leaves them, but of random numbers.
  void make_inception() const {
    write_safetensors(text("inception.safetensors"), inception::test::random_tensors(),
                      {{"source_sha256", std::string(64, 'a')},
                       {"tensors_sha256", inception::test::random_weights().tensors_sha256}});
  }

  void make_cifar() const {
    constexpr size_t kRecord = 3073;
    for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                             "data_batch_5", "test_batch"}) {
      std::string bytes(3 * kRecord, '\0');
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(i % kRecord == 0 ? i % 10 : i * 7 % 251);
      }
      write(fmt::format("cifar/{}.bin", name), bytes);
    }
  }

  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    reports::write_file_atomically(folder_ / name, bytes);
  }

  fs::path folder_;
};

/// Changes a file.
using How = std::string (*)(const std::string& good, Random& random);

/// A kind of file that the program reads.
struct Kind {
  const char* name;
  const char* file;  ///< path below the seeds; a folder: the one file in it, at any depth
  How how;
  bool sealed;  ///< something says what its bytes were: changed ones must not pass
  size_t share;
  std::vector<std::function<Words(const Seeds&)>> readers;
  /// Words of the answer to the good file.
  std::string_view answer = {};
  int code = answer.empty() ? 0 : 2;  ///< the exit code for the good file

  /// Returns whether a reader went through the file as it does with the good one.
  [[nodiscard]] bool takes(const Ended& ended) const {
    if (ended.signal != 0) return false;
    return ended.code == code && ended.said.find(answer) != std::string::npos;
  }
};

Words drawn(const Seeds& at, const Words& more) {
  Words words = {"sample", "gmm16", "--device", "cpu", "--force", "--out", at.text("drawn")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The words of a calibration that was read and used, on two runs.
constexpr std::string_view kJudged = "too few pairs (1 pair can";

constexpr const char* kKept = "kept/c0c0438f36e7719a/result.json";

/// Returns the inputs of a study of one run, whose distances were read before.
constexpr std::string_view kAlone = "nothing but the reference";
constexpr int kNeeded = static_cast<int>(ExitCode::kBaselineNeeded);

std::vector<Kind> kinds() {
  using S = const Seeds&;
  const auto check_run = [](S at) -> Words { return {"check", at.text("run")}; };
  const auto report = [](S at) -> Words { return {"report", at.text("run"), "--format", "md"}; };
  const auto table = [](S at) -> Words { return {"table", at.text("run")}; };
  const auto history = [](S at) -> Words { return {"history", at.text("run")}; };
  const auto compare = [](S at) -> Words {
    return {"compare", at.text("run"), at.text("again"), "--exact"};
  };
  const auto resumed = [](S at) -> Words {
    return Seeds::short_run(
        "gmm16",
        {"--out", at.text("resumed"), "--checkpoint-every", "2", "--set", "sample.sampler=ddim",
         "--set", "sample.ddim_steps=2", "--set", "sample.count=4", "--resume"});
  };
  const auto defined = [](S at) -> Words {
    return {"pace", at.text("definition.toml"), "--device", "cpu", "--threads", "1"};
  };
  const auto flagged = [](S at) -> Words {
    return {"pace", "gmm16", "--device", "cpu", "--flags", at.text("flags.toml")};
  };
  const auto pictures = [](const char* folder) {
    return [folder](S at) -> Words {
      return {"fid", at.text(folder), at.text("png-good"), "--extractor", "pixels"};
    };
  };
  const auto weights = [](S at) -> Words {
    return drawn(
        at, {"--weights", at.text("run/weights.safetensors"), "--samples", "1", "--steps", "1"});
  };
  const auto noise = [](S at) -> Words {
    return drawn(at, {"--weights", at.text("study/none-1/weights.safetensors"), "--noise",
                      at.text("noise.npy"), "--steps", "1"});
  };
  const auto features = [](S at) -> Words {
    return {"fid", at.text("features.npy"), at.text("moments.npz")};
  };
  const auto cifar = [](S at) -> Words {
    return {"fid", "ho-cifar10:train", "ho-cifar10:test", "--data", at.text("cifar"), "--limit",
            "2"};
  };
  const auto judged = [](S at) -> Words {
    return {"quality", at.text("study"), "--out", at.text("judged"), "--inconclusive", "warn"};
  };
  const auto ab = [](S at) -> Words { return {"ab", "--from", at.text("ab/ab.json")}; };
  const auto calibrated = [](S at) -> Words {
    return {"compare",
            at.text("run"),
            at.text("again"),
            "--calibration",
            at.text("calibration.json"),
            "--inconclusive",
            "warn"};
  };
  const auto suite_report = [](S at) -> Words {
    return {"report", at.text("suite"), "--format", "md"};
  };
  const auto suite_check = [](S at) -> Words { return {"check", at.text("suite")}; };
  const auto exported = [](const char* format) {
    return [format](S at) -> Words { return {"report", at.text("run"), "--format", format}; };
  };
  const auto against_page = [](S at) -> Words {
    return {"compare", at.text("run/report.md"), at.text("again"), "--exact"};
  };
  const auto finished = [resumed](S at) -> Words {
    Words words = resumed(at);
    std::replace(words.begin(), words.end(), at.text("resumed"), at.text("run"));
    return words;
  };
  const auto check_measured = [](S at) -> Words { return {"check", at.text("measured")}; };
  const auto measured = [](S at) -> Words { return {"quality", at.text("measured")}; };
  const auto check_study = [](S at) -> Words { return {"check", at.text("study")}; };
  const auto kept = [](S at) -> Words { return {"baseline", "show", at.text("kept")}; };
  const auto check_kept = [](S at) -> Words { return {"check", at.text("kept")}; };
  const auto promoted = [](S at) -> Words {
    return {"baseline",          "promote",    at.text("kept"), "--into",
            at.text("promoted"), "--hardware", "here",          "--force"};
  };
  const auto units = [](S at) -> Words { return {"calibrate", "--from", at.text("ab")}; };
  const auto from_weights = [](S at) -> Words {
    return {"pace",     "gmm16", "--init-weights", at.text("study/none-1/ema.safetensors"),
            "--device", "cpu"};
  };
  const auto from_checkpoint = [](S at) -> Words {
    return drawn(at, {"--weights", at.text("resumed/checkpoint.safetensors"), "--samples", "1",
                      "--steps", "1"});
  };
  const auto images = [](S at) -> Words {
    return {"fid", at.text("images.npy"), at.text("png-good"), "--extractor", "pixels"};
  };
  const auto cached = [](S at) -> Words {
    return {"fid",      at.text("png"),       "--extractor",
            "cifarnet", "--features-cache",   at.text("cache"),
            "--out",    at.text("stored.npz")};
  };
  const auto lock = [](S at) -> Words { return {"lock", at.text("LOCK")}; };
  const auto origin = [](S at) -> Words {
    return {"fid", at.text("run/samples/samples.npy"), "gmm16:exact"};
  };
  const auto trace = [](const char* file) {
    return [file](S at) -> Words { return {"trace", at.text(file)}; };
  };
  const auto check_profiled = [](S at) -> Words { return {"check", at.text("profiled")}; };
  const auto report_profiled = [](S at) -> Words { return {"report", at.text("profiled")}; };
  const auto inception = [](S at) -> Words {
    return {"fid",
            at.text("png"),
            at.text("png"),
            "--limit",
            "2",
            "--extractor",
            "inception",
            "--weights",
            at.text("inception.safetensors")};
  };
  return {
      {"trace", "trace.json", mutated_text, false, 2, {trace("trace.json")}},
      {"trace, as JSON", "trace.json", mutated_json, false, 3, {trace("trace.json")}},
      {"trace, packed", "trace.json.gz", mutated_bytes, false, 1, {trace("trace.json.gz")}},
      {"profile.json",
       "profiled/profile/profile.json",
       mutated_text,
       true,
       2,
       {check_profiled, report_profiled}},
      {"profile.json, sealed again",
       "profiled/profile/profile.json",
       mutated_json,
       false,
       2,
       {check_profiled, report_profiled}},
      {"insight.json",
       "profiled/insight.json",
       mutated_text,
       true,
       2,
       {check_profiled, report_profiled}},
      {"insight.json, sealed again",
       "profiled/insight.json",
       mutated_json,
       false,
       2,
       {check_profiled, report_profiled}},
      {"weights of inception", "inception.safetensors", mutated_bytes, false, 1, {inception}},
      {"weights of inception, header",
       "inception.safetensors",
       mutated_safetensors,
       false,
       1,
       {inception}},
      {"result.json",
       "run/result.json",
       mutated_text,
       true,
       5,
       {check_run, report, table, history, compare}},
      {"result.json, sealed again",
       "run/result.json",
       mutated_json,
       false,
       8,
       {check_run, report, table, history, compare}},
      {"events.mlog", "run/events.mlog", mutated_text, true, 2, {check_run}},
      {"report.md", "run/report.md", mutated_text, true, 1, {check_run}},
      {"quality.json", "judged/quality.json", mutated_text, true, 2, {judged}},
      {"quality.json, sealed again", "judged/quality.json", mutated_json, false, 2, {judged}},
      {"suite.json", "suite/suite.json", mutated_text, false, 2, {suite_report, suite_check}},
      {"suite.json, as JSON",
       "suite/suite.json",
       mutated_json,
       false,
       2,
       {suite_report, suite_check}},
      {"ab.json", "ab/ab.json", mutated_text, true, 1, {ab}},
      {"ab.json, sealed again", "ab/ab.json", mutated_json, false, 2, {ab}},
      {"calibration.json", "calibration.json", mutated_text, true, 2, {calibrated}, kJudged},
      {"calibration.json, sealed again",
       "calibration.json",
       mutated_json,
       false,
       2,
       {calibrated},
       kJudged},
      {"definition", "definition.toml", mutated_text, false, 2, {defined}},
      {"definition, values", "definition.toml", mutated_values, false, 6, {defined}},
      {"flags", "flags.toml", mutated_text, false, 1, {flagged}},
      {"flags, values", "flags.toml", mutated_values, false, 2, {flagged}},
      {"PNG", "png/0.png", mutated_bytes, false, 1, {pictures("png")}},
      {"PNG, chunks", "png/0.png", mutated_png, false, 6, {pictures("png")}},
      {"JPEG", "jpeg/0.jpg", mutated_bytes, false, 3, {pictures("jpeg")}},
      {"JPEG, segments", "jpeg/0.jpg", mutated_jpeg, false, 5, {pictures("jpeg")}},
      {".npy of features", "features.npy", mutated_bytes, false, 1, {features}},
      {".npy of features, header", "features.npy", mutated_npy, false, 3, {features}},
      {".npz of moments", "moments.npz", mutated_bytes, false, 1, {features}},
      {".npz of moments, members", "moments.npz", mutated_npz, false, 4, {features}},
      {".npy of noise", "noise.npy", mutated_bytes, false, 1, {noise}},
      {"CIFAR-10", "cifar/data_batch_1.bin", mutated_bytes, false, 2, {cifar}},
      {"weights", "run/weights.safetensors", mutated_bytes, false, 1, {weights}},
      {"weights, header", "run/weights.safetensors", mutated_safetensors, false, 3, {weights}},
      {"checkpoint", "resumed/checkpoint.safetensors", mutated_bytes, true, 1, {resumed}},
      {"sampling.json", "run/samples/sampling.json", mutated_text, false, 1, {origin}},
      {"sampling.json, as JSON", "run/samples/sampling.json", mutated_json, false, 1, {origin}},
      {"result.json, in other readers",
       "run/result.json",
       mutated_json,
       false,
       4,
       {exported("junit"), exported("bmf"), exported("ctest"), exported("gha-smaller"),
        against_page, finished}},
      {"report.md of a base", "run/report.md", mutated_text, false, 1, {against_page}},
      {"an artifact", "measured/samples/samples.npy", mutated_bytes, true, 1, {check_measured}},
      {"plot data", "run/plots/loss.dat", mutated_text, true, 1, {check_run}},
      {"plot script", "run/plots/loss.gp", mutated_text, true, 1, {check_run}},
      {"quality.md", "study/quality.md", mutated_text, true, 1, {check_study}},
      {"distance", "measured/distances/mixture.json", mutated_text, false, 1, {measured}, kAlone},
      {"distance, as JSON",
       "measured/distances/mixture.json",
       mutated_json,
       false,
       2,
       {measured},
       kAlone},
      {"baseline", kKept, mutated_text, true, 1, {check_kept, promoted}},
      {"baseline, sealed again", kKept, mutated_json, false, 2, {kept, check_kept, promoted}},
      {"baseline's page", "kept/baseline.md", mutated_text, false, 1, {kept}},
      {"ab.json of a unit", "ab/ab.json", mutated_json, false, 1, {units}, "", kNeeded},
      {"weights to start from",
       "study/none-1/ema.safetensors",
       mutated_safetensors,
       false,
       1,
       {from_weights}},
      {"weights in a checkpoint",
       "resumed/checkpoint.safetensors",
       mutated_safetensors,
       false,
       1,
       {from_checkpoint}},
      {".npy of images", "images.npy", mutated_npy, false, 2, {images}},
      {"kept features", "cache", mutated_bytes, false, 1, {cached}},
      {"kept features, header", "cache", mutated_safetensors, false, 1, {cached}},
      {"PNG, interlaced palette",
       "interlaced/0.png",
       mutated_png,
       false,
       3,
       {pictures("interlaced")}},
      {"JPEG, progressive", "scans/1.jpg", mutated_jpeg, false, 2, {pictures("scans")}},
      {"JPEG, gray", "scans/0.jpg", mutated_jpeg, false, 2, {pictures("scans")}},
      {"LOCK", "LOCK", mutated_text, false, 1, {lock}},
      {"LOCK, as JSON", "LOCK", mutated_json, false, 1, {lock}},
  };
}

struct Count {
  size_t inputs = 0;
  size_t refused = 0;
  size_t crashes = 0;
  size_t internal = 0;
  size_t hangs = 0;
  size_t taken = 0;  ///< changed files that pass where a checksum says so

  [[nodiscard]] size_t bad() const { return crashes + internal + hangs + taken; }
};

struct Options {
  uint64_t seed = 0;
  size_t count = 5000;
  std::optional<size_t> only;
  fs::path folder;
};

class Campaign {
 public:
  Campaign(Options options, const Seeds& seeds)
      : options_(std::move(options)), seeds_(seeds), kinds_(kinds()) {
    for (size_t i = 0; i < kinds_.size(); ++i) order_.insert(order_.end(), kinds_[i].share, i);
  }

  /// Returns whether each reader takes the good file, and names those that do not: one that ends
  /// early for another reason would prove nothing.
  [[nodiscard]] bool controls_pass() const {
    bool pass = true;
    for (const Kind& kind : kinds_) {
      for (const auto& reader : kind.readers) {
        const Words words = reader(seeds_);
        const Ended ended = in_a_process(words, seeds_.log());
        fs::remove(seeds_ / "resumed/result.json");
        if (kind.takes(ended)) continue;
        fmt::print("{}, unchanged: noisemark {} ends with {}, signal {}\n    {}\n", kind.name,
                   fmt::join(words, " "), ended.code, ended.signal, ended.said);
        pass = false;
      }
    }
    std::fflush(stdout);
    return pass;
  }

  bool run() {
    if (!controls_pass()) return false;
    if (options_.only) {
      one(*options_.only);
    } else {
      for (size_t i = 0; i < options_.count; ++i) one(i);
    }
    return tell();
  }

 private:
  static fs::path file_of(const fs::path& path) {
    if (fs::is_regular_file(path)) return path;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) return entry.path();
    }
    throw std::runtime_error(path.string() + ": no file in it");
  }

  void one(size_t number) {
    const Kind& kind = kinds_[order_[number % order_.size()]];
    Random random(options_.seed * 1'000'003 + number);
    const fs::path file = file_of(seeds_ / kind.file);
    const std::string good = reports::read_file(file);
    std::string bad = good;
    while (bad == good) bad = kind.how(good, random);
    const Words words = kind.readers[random() % kind.readers.size()](seeds_);
    reports::write_file_atomically(file, bad);
    take(kind, number, words, in_a_process(words, seeds_.log()));
    if (!options_.only) reports::write_file_atomically(file, good);
    fs::remove(seeds_ / "resumed/result.json");
  }

  void take(const Kind& kind, size_t number, const Words& words, const Ended& ended) {
    Count& count = counts_[kind.name];
    ++count.inputs;
    if (ended.code != 0) ++count.refused;
    const char* fault = nullptr;
    if (ended.signal == SIGALRM || ended.signal == SIGKILL) {
      fault = "hangs";
      ++count.hangs;
    } else if (ended.signal != 0) {
      fault = "crashes";
      ++count.crashes;
    } else if (ended.code == static_cast<int>(ExitCode::kInternal)) {
      fault = "ends with 70";
      ++count.internal;
    } else if (kind.sealed && kind.takes(ended)) {
      fault = "takes a changed file";
      ++count.taken;
    }
    if (fault == nullptr && !options_.only) return;
    fmt::print("--only {}: {}: {}: noisemark", number, kind.name,
               fault == nullptr ? fmt::format("exit code {}", ended.code) : fault);
    for (const std::string& word : words) fmt::print(" {}", word);
    fmt::print("\n    {}\n", ended.said.substr(0, 400));
    std::fflush(stdout);
  }

  [[nodiscard]] bool tell() const {
    Count all;
    fmt::print("{:<32} {:>7} {:>8} {:>7} {:>5} {:>5} {:>6}\n", "", "inputs", "refused", "crash",
               "70", "hang", "taken");
    const auto row = [](const std::string& name, const Count& one) {
      fmt::print("{:<32} {:>7} {:>8} {:>7} {:>5} {:>5} {:>6}\n", name, one.inputs, one.refused,
                 one.crashes, one.internal, one.hangs, one.taken);
    };
    for (const auto& [name, one] : counts_) {
      row(name, one);
      all.inputs += one.inputs;
      all.refused += one.refused;
      all.crashes += one.crashes;
      all.internal += one.internal;
      all.hangs += one.hangs;
      all.taken += one.taken;
    }
    row("all", all);
    return all.bad() == 0 && all.inputs > 0;
  }

  Options options_;
  const Seeds& seeds_;
  std::vector<Kind> kinds_;
  std::vector<size_t> order_;  ///< kinds, each as often as its share
  std::map<std::string, Count> counts_;
};

constexpr std::string_view kUsage =
    "usage: noisemark_mutated_inputs [--seed N] [--count N] [--only N] [--folder DIR]\n"
    "The N-th input is the same for a seed whatever the count (default: 5000); --only makes that\n"
    "one alone and keeps it in DIR (default: a folder of its own, removed at the end).\n";

/// Returns nothing for words that are none of the usage.
std::optional<Options> options_of(const Words& words) {
  Options options;
  if (words.size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& value = words[i + 1];
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (words[i] == "--folder") {
      options.folder = value;
    } else if (words[i] == "--seed" && whole) {
      options.seed = number;
    } else if (words[i] == "--count" && whole) {
      options.count = number;
    } else if (words[i] == "--only" && whole) {
      options.only = number;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

int campaign(const Options& options) {
  fs::path folder = options.folder;
  if (folder.empty()) {
    std::string pattern = (fs::temp_directory_path() / "noisemark-mutated-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return 1;
    folder = pattern;
  } else {
    fs::create_directories(folder);
  }
  const Seeds seeds(folder);
  fs::copy(seeds / "png", seeds / "png-good", fs::copy_options::recursive);
  fs::copy(seeds / "run", seeds / "resumed", fs::copy_options::recursive);
  fs::remove(seeds / "resumed/result.json");
  const bool good = Campaign(options, seeds).run();
  if (options.folder.empty()) fs::remove_all(folder);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace noisemark::suite::test

int main(int argc, char** argv) {
  namespace test = noisemark::suite::test;
  std::signal(SIGXFSZ, SIG_IGN);
  setenv("OMP_NUM_THREADS", "1", 1);  // programs that are started take it
  at::set_num_threads(1);             // a forked child would wait for threads of its parent's
  noisemark::memopt::install_tracking_allocator();
  noisemark::memopt::install_saved_tensor_engine();
  const std::vector<std::string> words(argv + 1, argv + argc);
  // A series starts its runs by this program.
  if (!words.empty() && !words.front().starts_with("--")) return test::program(words);
  const bool help = words == std::vector<std::string>{"--help"};
  const auto options = test::options_of(words);
  if (help || !options) {
    fmt::print(help ? stdout : stderr, "{}", test::kUsage);
    return help ? 0 : 2;
  }
  try {
    return test::campaign(*options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
