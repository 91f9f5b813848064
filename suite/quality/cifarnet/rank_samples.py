#!/usr/bin/env python3
"""Tests whether the distance on cifarnet's features ranks samples as it should: by training, and by sampling steps.

    rank_samples.py --program build/release/bin/noisemark --data DIR     # a few minutes

Trains a small network on CIFAR-10 from the same seed for ever more steps, draws samples from the same noise, and
takes their distance from test pictures; then draws from the last one with ever fewer steps of DDIM. Prints each
distance and Spearman's rank correlation, which has to be at most -0.8: more training and more steps bring samples
nearer, but for one pair of neighbouring levels (of the 4 of training; of the 5 of sampling two pairs that share none).

Exit codes: 0 both rank so, 1 one does not.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TRAINED_STEPS = (5, 25, 100, 400)
SAMPLING_STEPS = (1, 2, 4, 8, 16)
SAMPLES = 300  # 2 * 144 is the least that may be gated
BOUND = -0.8

DEFINITION = """
[benchmark]
id = "cifarnet-rank"
title = "A small network on CIFAR-10"
version = 1
modes = ["none"]
[model]
name = "lucid-unet"
dim = 16
dim_mults = [1, 2, 4]
[data]
name = "cifar10"
[diffusion]
schedule = "sigmoid"
objective = "v"
[optimizer]
lr = 1e-3
beta2 = 0.99
clip_norm = 1.0
[train]
batch = 16
[measure]
memory_steps = 0
profile_steps = 0
"""


class Noisemark:
    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.program = args.program.resolve()
        self.data = args.data.resolve()
        self.folder = folder
        self.common = ["--device", "cpu", "--threads", str(args.threads)]
        (folder / "rank.toml").write_text(DEFINITION)

    def __call__(self, *words: str) -> str:
        command = [self.program, *words, *self.common]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
        return done.stdout

    def train(self, steps: int) -> str:
        self("run", "rank.toml", "--data", str(self.data), "--baseline", "fused+channels-last",
             "--set", f"train.steps={steps}", "--out", f"trained-{steps}")
        return f"trained-{steps}"

    def distance(self, weights: str, steps: int) -> float:
        out = f"{weights}-sampled-{steps}"
        self("sample", "rank.toml", "--weights", weights, "--steps", str(steps), "--samples", str(SAMPLES),
             "--out", out)
        answer = self("fid", f"{out}/pictures", "lucid-cifar10:test", "--extractor", "cifarnet", "--limit", "2000",
                      "--data", str(self.data), "--json")
        return json.loads(answer)["value"]


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Spearman's, of values without ties."""
    def ranks(values: list[float]) -> list[int]:
        return [sorted(values).index(value) for value in values]

    n = len(x)
    return 1 - 6 * sum((a - b) ** 2 for a, b in zip(ranks(x), ranks(y))) / (n * (n * n - 1))


def judged(what: str, levels: tuple[int, ...], values: list[float]) -> tuple[str, bool]:
    """A row of the table, and whether the distances fall with the levels as they have to."""
    correlation = rank_correlation(list(levels), values)
    passed = correlation <= BOUND + 1e-9  # only rounding of a fraction of small integers
    cells = " | ".join(f"{level}: {value:.3g}" for level, value in zip(levels, values))
    return f"| {what} | {cells} | rank correlation {correlation:+.2f} | {'pass' if passed else 'FAIL'} |", passed


def outcome(trained: list[float], sampled: list[float]) -> int:
    """Judges the distances by TRAINED_STEPS and by SAMPLING_STEPS: prints both rows, returns the exit code."""
    rows = (judged("training steps", TRAINED_STEPS, trained), judged("sampling steps", SAMPLING_STEPS, sampled))
    for row, _ in rows:
        print(row)
    return 0 if all(passed for _, passed in rows) else 1


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, metavar="BIN", help="the program noisemark")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR",
                        help="the folder that holds cifar-10-batches-bin/")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        noisemark = Noisemark(args, Path(folder))
        weights = [noisemark.train(steps) for steps in TRAINED_STEPS]
        trained = [noisemark.distance(one, SAMPLING_STEPS[-1]) for one in weights]
        sampled = [noisemark.distance(weights[-1], steps) for steps in SAMPLING_STEPS[:-1]] + trained[-1:]
    return outcome(trained, sampled)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
