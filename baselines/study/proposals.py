#!/usr/bin/env python3
"""Tries what the rooflines of profiles propose, and prints what each proposal won beside what was expected of it.

    proposals.py run --noisemark BIN --out DIR [--ids ID ...] [--data DIR] [--rounds N]    profile what is missing, then print
    proposals.py table --out DIR                                                         print

Each round profiles every benchmark under `plain`, `fused`, `channels-last` and both, one after another, so that a
proposal is compared with the baseline that it was made for in the same round. The section "What to try" of a profile's
page has the proposals. Predicted is what their operators take beyond their roof, as a share of a profiled step; times of
a step are those without the profiler.

Exit codes: 0 made; 1 a profile failed; 2 bad input.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "peers"))
from pages import finished  # noqa: E402

BASELINES = ("plain", "fused", "channels-last", "fused+channels-last")
ROW = re.compile(r"^\| `--baseline (\S+)` *\| *(.*?) *\| *([\d.]+)\s% *\| *([\d.]+)\s% *\| *([\d.]+)\s% *\|$", re.MULTILINE)


class BadInput(Exception):
    """Something that the user can mend."""


class Proposal(NamedTuple):
    baseline: str
    operators: str
    beyond: float  # percent of a step that they take beyond their roof


def profile(arguments: argparse.Namespace, name: str, baseline: str, folder: Path) -> None:
    command = [arguments.noisemark, "profile", name, "--device", "cpu", "--baseline", baseline, "--out", str(folder), "--force"]
    if arguments.data:
        command += ["--data", arguments.data]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        raise SystemExit(1)


def run(arguments: argparse.Namespace) -> None:
    for turn in range(arguments.rounds):
        for name in arguments.ids:
            for baseline in BASELINES:
                folder = Path(arguments.out) / name / baseline / str(turn)
                if not (folder / "profile.md").is_file():
                    folder.parent.mkdir(parents=True, exist_ok=True)
                    profile(arguments, name, baseline, folder)


def step_s(folder: Path) -> float:
    return float(json.loads((folder / "profile.json").read_text())["cost"]["plain_s"])


def proposals(folder: Path) -> list[Proposal]:
    return [Proposal(row[1], row[2], float(row[5])) for row in ROW.finditer((folder / "profile.md").read_text())]


def whole_rounds(of_benchmark: Path) -> list[str]:
    """Returns the rounds in which every baseline was profiled: a run may have been stopped."""
    pages = [{page.parent.name for page in of_benchmark.glob(f"{baseline}/*/profile.md")} for baseline in BASELINES]
    rounds = sorted(set.intersection(*pages))
    if not rounds:
        raise BadInput(f"{of_benchmark}: no round of {', '.join(BASELINES)} (one that `run` has finished)")
    return rounds


class Trial(NamedTuple):
    """A proposal that was tried in several rounds. Shares are percent of the baseline's step."""

    benchmark: str
    base: str
    proposal: Proposal
    is_first: bool  # the line "What limits it" says to try it first
    base_ms: float
    predicted: float
    won: list[float]  # round by round

    @property
    def is_bound(self) -> bool:
        """`fused` joins operators, which may win more than they take beyond their roof."""
        return ("fused" in self.proposal.baseline) == ("fused" in self.base)

    def is_right(self) -> bool:
        won = statistics.median(self.won)
        return won > 0 and (won <= self.predicted or not self.is_bound)

    def row(self) -> str:
        rounds = f"{sum(won > 0 for won in self.won)} of {len(self.won)}"
        return (
            f"| {self.benchmark} | `{self.base}` | `{self.proposal.baseline}` | {self.proposal.operators} |"
            f" {'yes' if self.is_first else 'no'} | {self.base_ms:.0f} | {'at most ' if self.is_bound else ''}{self.predicted:.1f} % |"
            f" **{statistics.median(self.won):.1f} %** | {min(self.won):.1f} to {max(self.won):.1f} % | {rounds} |"
            f" {'yes' if self.is_right() else 'no'} |"
        )


def trials(of_benchmark: Path) -> list[Trial]:
    made = []
    rounds = whole_rounds(of_benchmark)
    for base in BASELINES[:-1]:
        for place, proposal in enumerate(proposals(of_benchmark / base / rounds[0])):
            tried = proposal.baseline
            predicted = statistics.median(
                [other.beyond for turn in rounds for other in proposals(of_benchmark / base / turn) if other.baseline == tried]
            )
            won = [100 * (1 - step_s(of_benchmark / tried / turn) / step_s(of_benchmark / base / turn)) for turn in rounds]
            base_ms = 1000 * statistics.median([step_s(of_benchmark / base / turn) for turn in rounds])
            made.append(Trial(of_benchmark.name, base, proposal, place == 0, base_ms, predicted, won))
    return made


def page(made: list[Trial]) -> str:
    first = [trial for trial in made if trial.is_first]
    lines = [
        f"Of {len(first)} lines \"What limits it\" {sum(trial.is_right() for trial in first)} were right:"
        " what they say to try first won in the median of the rounds, and within its bound.",
        "",
        "| benchmark | baseline | tried | operators that it executes otherwise | named first | step, ms | predicted | won | in rounds"
        " | rounds won | right |",
        "|---|---|---|---|---|---:|---:|---:|---:|---:|---|",
    ]
    return "\n".join(lines + [trial.row() for trial in made])


def table(out: Path) -> str:
    if not out.is_dir():
        raise BadInput(f"--out: not a folder: {out} (one that `run` has filled)")
    return page([trial for folder in sorted(out.iterdir()) if folder.is_dir() for trial in trials(folder)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--noisemark")
    parser.add_argument("--out", required=True)
    parser.add_argument("--ids", nargs="+", default=["ho-cifar10@cpu", "lucid-cifar10@cpu"])
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    try:
        if arguments.command == "run":
            if not arguments.noisemark:
                raise BadInput("--noisemark: not given (the program that is run)")
            run(arguments)
        print(finished(table(Path(arguments.out))))
    except BadInput as error:
        print(f"proposals.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
