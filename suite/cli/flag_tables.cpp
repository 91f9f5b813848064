#include "suite/cli/flag_tables.h"

#include <string_view>
#include <utility>

namespace noisemark::suite {
namespace {

/// For commands that take no suite.
constexpr const char* kModeOfOne = "memory mode (default: none)";

std::vector<Flag> pace_flags() {
  std::vector<Flag> flags;
  for (const Flag& flag : run_flags()) {
    for (const std::string_view name :
         {"mode", "baseline", "precision", "device", "seed", "threads", "loader-threads", "data",
          "set", "init-weights", "deterministic", "flags"}) {
      if (flag.name == name) flags.push_back({flag.name, flag.value, flag.help});
    }
    if (flag.name == "mode") flags.back().help = kModeOfOne;
    if (flag.name == "set") flags.back().repeatable = true;
  }
  return flags;
}

/// What both commands that make pairs of processes take.
std::vector<Flag> with_pair_flags(std::vector<Flag> flags) {
  flags.push_back(
      {"pairs", "N", "of processes, at least 6; as many again if inconclusive (default: 6)"});
  flags.push_back({"seconds", "S", "that N pairs take, about (default: 60)"});
  flags.push_back(
      {"turn", "S", "that a turn takes at most, unless one step takes longer (default: 0.2)"});
  for (const Flag& flag : pace_flags()) flags.push_back(flag);
  return flags;
}

}  // namespace

std::vector<Flag> run_flags() {
  return {
      {"mode", "M", "memory mode (default: none; of a suite: what each benchmark names)", true},
      {"baseline", "B", "how operators are executed, names joined by + (default: plain)", true},
      {"precision", "P", "fp32, tf32, bf16, fp16 or fp64 (default: fp32)"},
      {"device", "D", "cpu, cuda or cuda:N (default: cuda where there is one)"},
      {"seed", "N", "of every random stream (default: the definition's)"},
      {"seeds", "N",
       "runs of so many seeds, from that one on, for `noisemark quality` (default: 1)"},
      {"looks", "K",
       "how often, at most, modes are judged over seeds while some are added (default: 2)"},
      {"threads", "N",
       "of LibTorch on the CPU, at most the machine's processors (default: its own choice)"},
      {"loader-threads", "N", "that make batches ahead; the data are the same (default: 1)"},
      {"data", "DIR", "folder of the pictures (default: $NOISEMARK_DATA)"},
      {"out", "DIR",
       "where the result goes (default: a new folder in $NOISEMARK_OUT or noisemark-out/)"},
      {"force", "", "replace another run's files in the output folder"},
      {"set", "KEY=VALUE", "change a key of the definition; the run is then custom", true},
      {"init-weights", "FILE", "start from a safetensors file under the peers' names"},
      {"checkpoint-every", "N",
       "write a checkpoint every N steps and after the last (default: never)"},
      {"resume", "",
       "continue the run in --out from its checkpoint; what is finished stays as it is"},
      {"deterministic", "", "deterministic algorithms only"},
      {"no-memory", "", "leave the memory pass out"},
      {"memory-snapshot", "",
       "keep a watched step as memory_snapshot.pickle, for PyTorch's memory viewer"},
      {"no-profile", "", "leave the profile pass out"},
      {"no-certificate", "", "do not train a memory mode beside none: no certificate, no overhead"},
      {"fit-memory", "SIZE",
       "find the largest batch whose steady step takes at most SIZE (default: do not)"},
      {"flags", "FILE", "TOML file of these options by name; what is typed wins"},
  };
}

std::vector<Flag> sweep_flags() {
  std::vector<Flag> flags = {{"axis", "KEY=V1,V2,...",
                              "a setting and its values; a comma in brackets divides nothing",
                              true}};
  for (Flag flag : run_flags()) {
    if (flag.name == "seeds" || flag.name == "looks") continue;
    if (flag.name == "mode") flag.help = kModeOfOne;
    if (flag.name == "mode" || flag.name == "baseline") flag.repeatable = false;
    if (flag.name == "out") {
      flag.help = "where the cells go (default: a new folder in $NOISEMARK_OUT or noisemark-out/)";
    }
    if (flag.name == "resume") {
      flag.help = "go on with the sweep in --out; cells that are finished stay as they are";
    }
    flags.push_back(flag);
  }
  return flags;
}

std::vector<Flag> serving_flags() {
  std::vector<Flag> flags = pace_flags();
  flags.push_back({"slow-down", "FRAC", "a control: make every step take 1 + FRAC as long"});
  return flags;
}

std::vector<Flag> ab_flags() {
  return with_pair_flags({
      {"a", "BIN", "the base: a noisemark program"},
      {"b", "BIN", "the candidate"},
      {"a-ref", "REV", "the base: a revision of this git repository, built in build/ab/"},
      {"b-ref", "REV", "the candidate, likewise"},
      {"configure", "WORD", "for cmake, where a revision is built", true},
      {"from", "FILE", "judge a recorded comparison (ab.json) again; nothing is run"},
      {"calibration", "FILE",
       "of `noisemark calibrate`, or a folder of several: its noise floor widens the margin"},
      {"no-bytes", "", "make no short runs: bytes and FLOPs are not compared"},
      {"other-losses", "", "B may compute other numbers: its losses are not judged"},
      {"slow-down", "FRAC", "a control: make every step of B take 1 + FRAC as long"},
      {"out", "DIR", "new folder for ab.json, with every sample, and ab.md (default: none)"},
      {"format", "F", "md, json, junit, gha-smaller, gha-bigger, bmf or ctest (default: md)"},
      {"inconclusive", "W",
       "fail or warn: exit with 4 or 0 when nothing is proven (default: fail)"},
  });
}

std::vector<Flag> calibrate_flags() {
  return with_pair_flags({
      {"units", "N", "comparisons in all, 36 at least to gate with (default: 40)"},
      {"from", "DIR",
       "units are the comparisons recorded in DIR (ab.json, at any depth); nothing is run"},
      {"out", "DIR",
       "folder for calibration.json and .md; gone on with, but with --from a new one"},
  });
}

std::vector<Flag> plan_flags() {
  std::vector<Flag> flags = {
      {"budget", "SIZE[,error=E]",
       "of peak_bytes (2GiB, 20.05MiB), or saved=SIZE of peak_saved_bytes"},
      {"out", "DIR", "where the plot of the Pareto curve goes (default: it is not drawn)"},
  };
  for (const Flag& flag : run_flags()) {
    for (const std::string_view name :
         {"precision", "device", "seed", "threads", "data", "set", "init-weights", "flags"}) {
      if (flag.name == name) flags.push_back(flag);
    }
  }
  return flags;
}

std::vector<Flag> fit_flags() {
  std::vector<Flag> flags = {{"memory", "SIZE", "that a steady step may take: 2GiB, 512MiB"},
                             {"out", "FILE", "where the table goes (default: stdout)"}};
  for (const Flag& flag : run_flags()) {
    for (const std::string_view name : {"mode", "baseline", "precision", "device", "seed",
                                        "threads", "data", "set", "init-weights", "flags"}) {
      if (flag.name == name) flags.push_back(flag);
    }
    if (flag.name == "mode") flags.back().help = kModeOfOne;
  }
  return flags;
}

std::vector<Flag> fid_flags() {
  return {
      {"extractor", "NAME",
       "what makes features of pictures: pixels, cifarnet or inception (default: pixels)"},
      {"weights", "FILE",
       "of the extractor inception (default: what lies in the folder of --data)"},
      {"resize", "NAME",
       "of inception, and of files that do not say: tf1-bilinear (default) or bilinear"},
      {"max", "X", "gate: at most so far is A from B (1: more, 4: not decided)"},
      {"min", "X", "gate: at least so far, for too small a distance is suspicious too"},
      {"bootstrap", "N",
       "draws of A's features for a gate's interval; 0: none (default: 100 with a gate)"},
      {"inconclusive", "W",
       "fail or warn: exit 4 or 0 when the interval reaches across an end (default: fail)"},
      {"reference-samples", "N", "how many B was made of, where its file does not say"},
      {"kid", "", "the kernel distance too: cubic, unbiased, over subsets"},
      {"subsets", "N", "of the kernel distance (default: 100)"},
      {"subset-size", "N", "samples of each (default: 1000)"},
      {"draws", "D", "which samples: counter, or numpy as torch-fidelity does (default: counter)"},
      {"seed", "N", "of those draws and of --bootstrap (default: 0; of numpy's draws 2020)"},
      {"prc", "", "precision and recall too, B being the real pictures (k = 3)"},
      {"inception-score", "", "that of A too, with the extractor inception (10 splits)"},
      {"limit", "N", "of each set the first N pictures or features"},
      {"batch", "N", "pictures that the extractor gets at once (default: 64)"},
      {"features-cache", "DIR", "keep features there; what is whole there is not computed again"},
      {"data", "DIR", "folder of a dataset's files (default: $NOISEMARK_DATA)"},
      {"device", "D", "cpu, cuda or cuda:N (default: cuda where there is one)"},
      {"threads", "N", "of LibTorch on the CPU (default: its own choice)"},
      {"out", "FILE.npz", "mu, sigma and n of A go there, as pytorch-fid reads them"},
      {"json", "", "for programs"},
  };
}

std::vector<Flag> sample_flags() {
  std::vector<Flag> flags = {
      {"weights", "FILE",
       "safetensors under the peers' names, a checkpoint, or the folder of a run"},
      {"use", "W",
       "model or ema, of a checkpoint or folder (default: the definition's eval.weights)"},
      {"samples", "N", "to draw (default: of --noise all, else the definition's sample.count)"},
      {"sampler", "S", "ddim or ddpm (default: the definition's, or ddim)"},
      {"steps", "N", "of ddim (default: the definition's sample.ddim_steps)"},
      {"eta", "E", "of ddim, 0 to 1: share of fresh noise (default: sample.ddim_eta)"},
      {"variance", "V",
       "of ddpm, small (the posterior's) or large (beta) (default: sample.ddpm_variance)"},
      {"noise", "FILE", "initial noise, .npy of [N, C, H, W] (default: drawn by the seed)"},
      {"batch", "B", "samples that go through the network together (default: 16)"},
      {"out", "DIR", "new folder for the samples"},
      {"force", "", "replace the samples in the output folder"},
  };
  for (const Flag& flag : run_flags()) {
    for (const std::string_view name :
         {"baseline", "precision", "device", "seed", "threads", "set"}) {
      if (flag.name == name) flags.push_back({flag.name, flag.value, flag.help});
    }
    if (flag.name == "baseline") {
      flags.back().help =
          "how operators are executed (default: fused+channels-last on the CPU in fp32 or bf16)";
    }
    if (flag.name == "set") flags.back().repeatable = true;
  }
  return flags;
}

}  // namespace noisemark::suite
