#!/usr/bin/env python3
"""Tries what the rooflines of profiles propose, and prints what each proposal won beside what was expected of it.

    proposals.py run --noisemark BIN --out DIR [--ids ID ...] [--data DIR] [--rounds N]    profile what is missing, then print
    proposals.py table --out DIR                                                         print

Each round profiles every benchmark under `plain`, `fused`, `channels-last` and both, one after another, so that a
proposal is compared with the baseline that it was made for in the same round. The section "What to try" of a profile's
page has the proposals. Times of a step are those without the profiler.

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


def rows(of_benchmark: Path) -> list[str]:
    made = []
    rounds = whole_rounds(of_benchmark)
    for base in BASELINES[:-1]:
        for proposal in proposals(of_benchmark / base / rounds[0]):
            tried = proposal.baseline
            beyond = statistics.median(
                [other.beyond for turn in rounds for other in proposals(of_benchmark / base / turn) if other.baseline == tried]
            )
            won = [100 * (1 - step_s(of_benchmark / tried / turn) / step_s(of_benchmark / base / turn)) for turn in rounds]
            base_ms = 1000 * statistics.median([step_s(of_benchmark / base / turn) for turn in rounds])
            made.append(
                f"| {of_benchmark.name} | `{base}` | `{tried}` | {proposal.operators} | {base_ms:.0f} | {beyond:.1f} % |"
                f" **{statistics.median(won):.1f} %** | {min(won):.1f} to {max(won):.1f} % |"
            )
    return made


def table(out: Path) -> str:
    if not out.is_dir():
        raise BadInput(f"--out: not a folder: {out} (one that `run` has filled)")
    lines = [
        "| benchmark | baseline | tried | operators that it executes otherwise | step, ms | beyond their roof | won | in rounds |",
        "|---|---|---|---|---:|---:|---:|---:|",
    ]
    for of_benchmark in sorted(folder for folder in out.iterdir() if folder.is_dir()):
        lines += rows(of_benchmark)
    return "\n".join(lines)


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
