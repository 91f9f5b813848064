#!/usr/bin/env python3
"""Measures which rule for the learning rate keeps the loss when the batch grows k-fold, and up to which k.

    large_batches.py run --noisemark BIN --out DIR       train the cells that are missing, then print the table
    large_batches.py table --noisemark BIN --out DIR     print it

The question is that of Goyal et al., "Accurate, Large Minibatch SGD" (2017), sections 2.1 and 2.2, here for Adam and a
diffusion model: every cell sees the same number of samples, so that a batch k times as large makes k times fewer steps.
The rules are those of `scale.rule`; a rise of the learning rate takes the first tenth of the steps. Each cell is a
`noisemark sweep` over equal seeds; it is not one sweep of all, because the number of steps follows from k, and the keys
of the rise from both. A rule keeps the loss at k where the mean over the seeds is not above the interval in which, with
95 %, the mean of as many further trainings with k = 1 would lie (Student's t). Whether this is proven says `noisemark
quality`, whose range of the mean is that interval: a mean may be below its end and its own interval not, as long as the
seeds are few.

Exit codes: 0 made; 1 a training failed; 2 bad input.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from scipy import stats

LEVEL = 0.95
WARM_UP = 0.1  # part of the steps


class BadInput(Exception):
    """Something that the user can mend."""


class Cell(NamedTuple):
    rule: str
    factor: int

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.factor}"


def cells(rules: list[str], factors: list[int]) -> list[Cell]:
    """Without scaling all rules are the same training, made once."""
    return [Cell("none", 1)] + [Cell(rule, factor) for rule in rules for factor in factors if factor > 1]


def definition_of(program: str, wanted: str) -> dict[str, Any]:
    """Returns the resolved definition of ID@SCALE, as `noisemark list` has it."""
    name, _, scale = wanted.partition("@")
    listed = json.loads(subprocess.run([program, "list", "--json"], check=True, capture_output=True).stdout)
    for benchmark in listed["benchmarks"]:
        if benchmark["id"] == name and scale in benchmark["scales"]:
            return benchmark["scales"][scale]["definition"]
    raise BadInput(f"--id: {wanted} (a benchmark at one scale, such as gmm16@cpu)")


def settings_of(cell: Cell, train: dict[str, Any], samples: int) -> list[str]:
    """Returns the keys of the definition that make the cell."""
    batch = train["batch"] * cell.factor
    if samples % batch:
        raise BadInput(f"--factors: {cell.factor}: {samples} samples are no whole number of batches of {batch}")
    steps = samples // batch
    settings = [f"train.batch={batch}", f"train.steps={steps}", f"eval.every={steps}"]
    if cell.rule != "none":
        settings += [f"scale.rule={cell.rule}", f"scale.base_batch={train['batch']}",
                     f"scale.warmup_steps={max(1, round(WARM_UP * steps))}"]
    return settings


def train_cell(options: argparse.Namespace, cell: Cell, settings: list[str]) -> None:
    """Trains a cell with the seeds whose results are not there."""
    seeds = ",".join(str(seed) for seed in range(options.seeds))
    words = [options.noisemark, "sweep", options.id, "--axis", f"seed={seeds}", "--threads", str(options.threads),
             "--no-memory", "--no-profile", "--resume", "--out", str(Path(options.out) / cell.name)]
    for one in settings:
        words += ["--set", one]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{cell.name}: exit code {done.returncode}: {done.stderr.strip()}")


class Trained(NamedTuple):
    losses: list[float]  # one for each seed
    batch: int
    steps: int
    lr: float
    work: str  # work that all cells must share


def read_cell(folder: Path) -> Trained:
    losses, shared = [], set()
    for path in sorted(folder.glob("seed=*/result.json")):
        result = json.loads(path.read_text())
        definition = json.loads(result["definition"])
        losses.append(result["quality"]["evaluations"][-1]["loss"])
        train, scale = definition["train"], definition.get("scale", {})
        grown = train["batch"] / scale.get("base_batch", train["batch"])
        lr = definition["optimizer"]["lr"] * {"linear": grown, "sqrt": grown**0.5}.get(scale.get("rule"), 1)
        hardware = json.dumps(result["identity"]["hardware"], sort_keys=True)
        shared.add((train["batch"], train["steps"], lr, f"{definition['benchmark']['id']} {hardware}"))
    if len(shared) != 1:
        raise BadInput(f"{folder}: {len(shared)} kinds of training (results of one)")
    return Trained(losses, *shared.pop())


def read_study(out: str) -> dict[Cell, Trained]:
    found = {}
    for folder in sorted(Path(out).glob("*-*")):
        rule, _, factor = folder.name.rpartition("-")
        if factor.isdecimal():
            found[Cell(rule, int(factor))] = read_cell(folder)
    if Cell("none", 1) not in found:
        raise BadInput(f"{out}: holds no none-1 (the folder of a study)")
    if len({len(cell.losses) for cell in found.values()}) > 1 or len({cell.work for cell in found.values()}) > 1:
        raise BadInput(f"{out}: the cells have other seeds, benchmarks or machines (one study)")
    return dict(sorted(found.items(), key=lambda item: (item[0].factor, item[0].rule)))


def upper_end(losses: list[float], level: float = LEVEL) -> float:
    """Returns the upper end of the interval for the mean of as many further trainings."""
    count = len(losses)
    if count < 2:
        raise BadInput("--seeds: 1 (at least 2, for an interval)")
    quantile = stats.t.ppf((1 + level) / 2, count - 1)
    return statistics.mean(losses) + quantile * statistics.stdev(losses) * (2 / count) ** 0.5


def proven(program: str, folder: Path, bound: float) -> str:
    """Returns what `noisemark quality` says of a cell's mean beside the interval of k = 1."""
    words = [program, "quality", str(folder), "--range", f"val_loss=0:{bound}", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["ranges"][0]["verdict"]
    except (ValueError, IndexError):
        raise BadInput(f"{folder}: exit code {done.returncode}: {done.stderr.strip()} (a cell of the study)") from None


def farthest_kept(study: dict[Cell, Trained], rule: str, bound: float) -> int:
    """Returns the largest k up to which the rule keeps the loss at every k."""
    farthest = 1
    for cell, trained in study.items():
        if cell.rule == rule and cell.factor > 1:
            if statistics.mean(trained.losses) > bound:
                break
            farthest = cell.factor
    return farthest


def table(study: dict[Cell, Trained], verdicts: dict[Cell, str]) -> str:
    one = study[Cell("none", 1)]
    bound, base = upper_end(one.losses), statistics.mean(one.losses)
    lines = [f"{one.work.split()[0]}, {one.batch * one.steps} samples in every training, {len(one.losses)} seeds. With k = 1 "
             f"the validation loss is {base:.4f}; the mean of as many further trainings lies below {bound:.4f} "
             f"with {(1 + LEVEL) / 2:.1%}.", "",
             "| k | rule | batch | steps | learning rate | mean loss | standard deviation | beside k = 1 | kept | "
             "`noisemark quality` |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for cell, trained in study.items():
        mean = statistics.mean(trained.losses)
        lines.append(f"| {cell.factor} | {cell.rule} | {trained.batch} | {trained.steps} | {trained.lr:.3g} | {mean:.4f} | "
                     f"{statistics.stdev(trained.losses):.4f} | {mean / base - 1:+.1%} | {'yes' if mean <= bound else 'no'} | {verdicts[cell]} |")
    rules = sorted({cell.rule for cell in study})
    said = ", ".join(f"`{rule}` up to k = {farthest_kept(study, rule, bound)}" for rule in rules)
    return "\n".join([*lines, "", f"The loss is kept by {said}."])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="train the cells that are missing, then print the table")
    shown = actions.add_parser("table", help="print the table of a study")
    for one in (run, shown):
        one.add_argument("--noisemark", required=True, help="the program")
        one.add_argument("--out", required=True, help="folder of the study: DIR/RULE-K/seed=N")
    run.add_argument("--id", default="gmm16@cpu", help="benchmark at one scale (default: %(default)s)")
    run.add_argument("--factors", nargs="+", type=int, default=[1, 2, 4, 8],
                     help="factors of the batch, k (default: 1 2 4 8)")
    run.add_argument("--rules", nargs="+", default=["none", "linear", "sqrt"], choices=["none", "linear", "sqrt"])
    run.add_argument("--seeds", type=int, default=5, help="trainings of each cell (default: %(default)s)")
    run.add_argument("--samples", type=int, help="samples of every training (default: the definition's)")
    run.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    try:
        if options.action == "run":
            train = definition_of(options.noisemark, options.id)["train"]
            for cell in cells(options.rules, options.factors):
                settings = settings_of(cell, train, options.samples or train["batch"] * train["steps"])
                train_cell(options, cell, settings)
        study = read_study(options.out)
        bound = upper_end(study[Cell("none", 1)].losses)
        print(table(study, {cell: proven(options.noisemark, Path(options.out) / cell.name, bound) for cell in study}))
    except BadInput as error:
        print(f"large_batches.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
