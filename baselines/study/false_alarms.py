#!/usr/bin/env python3
"""Measures how often `noisemark ab` cries wolf, and how often it sleeps.

    false_alarms.py run --noisemark BIN --file units.jsonl      make the units that are missing, then print the table
                        [--records DIR]                         keep each comparison whole: DIR/SLOW-DOWN/UNIT/ab.json
    false_alarms.py table --file units.jsonl [--check]          print it; --check: does it reach what is asked for?

A unit is one comparison of a program with itself on gmm16-ho, of about half a minute (a minute where the pre-declared
extension is taken): 100 of them untouched, 40 each in which every step of B is made to take 5 and 10 % longer, in the
process itself (`noisemark pace --slow-down`). Their order is shuffled by a fixed seed, so that a machine that changes its
mind within hours changes all kinds alike. A unit is one line of the file, written when it ends; `run` makes only what is
missing, and refuses a file that another program, machine or setting made.

Exit codes: 0 made, and with --check reached; 1 a comparison failed, or not reached; 2 bad input; 130 interrupted.
"""

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BENCHMARK = "gmm16-ho"
UNITS = {"0": 100, "0.05": 40, "0.1": 40}  # slow-down of B -> units
MOST_ALARMS = 1  # number among the untouched
FEWEST_CAUGHT = 38  # number among those with 10 %
FLOOR_FOR_FIVE_PERCENT = 0.01  # a calibrated floor up to here promises the 5 % too
FLOOR_QUANTILE = 0.95
MOST_MINUTES = 120  # sum over all units
JUDGED_CODES = (0, 1, 4)  # pass, regression, inconclusive; anything else is no unit
SAME = ("benchmark", "seconds", "identity", "binary_sha256")  # keys that every line of a file shares

Unit = dict[str, Any]


class BadInput(Exception):
    """Something that the user can mend."""


class Failed(Exception):
    """A comparison that is none."""


def order() -> list[tuple[str, int]]:
    """Every unit, as (slow-down, number), always in the same order."""
    units = [(slow_down, number) for slow_down, count in UNITS.items() for number in range(count)]
    random.Random(0).shuffle(units)
    return units


def read_units(file: Path) -> list[Unit]:
    """The units of a file; a last line that was cut off is left out."""
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise BadInput(f"{file}: {error} (a unit per line)") from error


def pair_steps(record: dict[str, Any]) -> list[dict[str, float]]:
    """Median step of A and of B in every pair, in seconds."""
    pairs = []
    for pair in record["pairs"]:
        steps: dict[str, list[float]] = {"A": [], "B": []}
        for turn in pair["turns"]:
            steps[turn["side"]] += turn["step_s"]
        pairs.append({side: statistics.median(seconds) for side, seconds in steps.items()})
    return pairs


def make_unit(args: argparse.Namespace, slow_down: str, number: int) -> Unit:
    """One comparison."""
    begin = time.time()
    with tempfile.TemporaryDirectory() as folder:
        command = [str(args.noisemark), "ab", BENCHMARK, "--a", str(args.noisemark), "--b", str(args.noisemark),
                   "--seconds", str(args.seconds), "--slow-down", slow_down, "--format", "json",
                   "--out", f"{folder}/out", *args.option]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in JUDGED_CODES:
            raise Failed(f"unit {slow_down}/{number}: exit code {done.returncode}: {done.stderr.strip()}")
        comparison = json.loads(done.stdout)
        text = Path(folder, "out", "ab.json").read_text()
    if args.records:
        kept = args.records / slow_down / f"{number:03}" / "ab.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
    record = json.loads(text)
    row = comparison["stochastic"][0]
    return {
        "slow_down": slow_down,
        "unit": number,
        "made_utc": record["created_utc"],
        "took_s": round(time.time() - begin, 1),
        "code": done.returncode,
        "verdict": row["verdict"],
        "exact_alarms": [found["metric"] for found in comparison["exact"] if found["verdict"] != "equivalent"],
        "ratio": row["ratio"],
        "ratio_ci95": row["ratio_ci95"],
        "p": row["p"],
        "margin_frac": row["margin_frac"],
        "look_pairs": record["plan"]["pairs"],
        "judged_pairs": row["pairs"],
        "pairs": pair_steps(record),
        "benchmark": record["a"]["benchmark"],
        "seconds": args.seconds,
        "identity": record["a"]["identity"],
        "binary_sha256": record["a"]["about"]["binary_sha256"],
    }


def require_same(units: list[Unit], unit: Unit, file: Path) -> None:
    """Units of several programs, machines or settings are no sample of anything."""
    for key in SAME:
        if units and units[0][key] != unit[key]:
            raise BadInput(f"{file}: {key}: {units[0][key]} ({unit[key]}: another file)")


def run(args: argparse.Namespace) -> None:
    """Makes what is missing."""
    units = read_units(args.file)
    made = {(unit["slow_down"], unit["unit"]) for unit in units}
    missing = [unit for unit in order() if unit not in made]
    begin = time.time()
    # The rest of a line that a kill cut off is left out.
    args.file.write_text("".join(json.dumps(unit) + "\n" for unit in units))
    for slow_down, number in missing[: args.most]:
        if args.minutes and time.time() - begin > 60 * args.minutes:
            break
        unit = make_unit(args, slow_down, number)
        require_same(units, unit, args.file)
        units.append(unit)
        with args.file.open("a") as lines:
            lines.write(json.dumps(unit) + "\n")
        print(f"{len(units)} of {len(order())}: slow-down {slow_down}: {unit['verdict']}, ratio {unit['ratio']:.4f}, "
              f"{unit['took_s']:.0f} s", file=sys.stderr, flush=True)


def binomial_tail(hits: int, trials: int, p: float) -> float:
    """P(at least `hits` of `trials`)."""
    return math.fsum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(hits, trials + 1))


def solve(function: Any, wanted: float) -> float:
    """Returns where a rising function of [0, 1] takes a value, by bisection to the last bits."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < wanted else (low, middle)
    return (low + high) / 2


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a proportion (Clopper and Pearson 1934)."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else solve(lambda p: binomial_tail(hits, trials, p), tail)
    high = 1.0 if hits == trials else solve(lambda p: binomial_tail(hits + 1, trials, p), 1 - tail)
    return low, high


def of_kind(units: list[Unit], slow_down: str) -> list[Unit]:
    return [unit for unit in units if unit["slow_down"] == slow_down]


def caught(units: list[Unit], slow_down: str) -> int:
    return sum(unit["verdict"] == "REGRESSION" for unit in of_kind(units, slow_down))


def noise_floor(units: list[Unit]) -> float:
    """Returns what 95 % of untouched units stay within, as a fraction (quantile of type 7, as `calibrate`)."""
    sizes = sorted(abs(math.log(unit["ratio"])) for unit in of_kind(units, "0"))
    rank = FLOOR_QUANTILE * (len(sizes) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(sizes) - 1)
    return math.expm1(sizes[below] + (rank - below) * (sizes[above] - sizes[below]))


def table(units: list[Unit]) -> str:
    """The study's table, as Markdown."""
    found = shortfalls(units)
    lines = [f"# {'MISSED' if found else 'REACHED'}: false alarms of `noisemark ab`", "", *(f"- {one}" for one in found),
             *([""] if found else []),
             "| B is slower by | units | called a regression | rate, 95 % | inconclusive | extended | median ratio B / A |",
             "|---:|---:|---:|---|---:|---:|---:|"]
    for slow_down in UNITS:
        kind = of_kind(units, slow_down)
        if not kind:
            continue
        hits = caught(units, slow_down)
        low, high = clopper_pearson(hits, len(kind))
        undecided = sum(unit["verdict"] == "inconclusive" for unit in kind)
        extended = sum(unit["judged_pairs"] > unit["look_pairs"] for unit in kind)
        ratio = statistics.median(unit["ratio"] for unit in kind)
        lines.append(f"| {100 * float(slow_down):g} % | {len(kind)} of {UNITS[slow_down]} | {hits} | {100 * low:.1f} to "
                     f"{100 * high:.1f} % | {undecided} | {extended} | {ratio:.4f} |")
    lines.append("")
    if of_kind(units, "0"):
        lines.append(f"The noise floor of untouched units is {100 * noise_floor(units):.1f} %.")
    exact = sum(bool(unit["exact_alarms"]) for unit in units)
    seconds = [unit["took_s"] for unit in units]
    lines.append(f"In {exact} of {len(units)} units a figure without noise (loss, parameters, bytes, FLOPs) gave an alarm.")
    lines.append(f"A unit took {statistics.median(seconds):.0f} s in the median, and all of them {sum(seconds) / 60:.0f} min.")
    return "\n".join(lines) + "\n"


def shortfalls(units: list[Unit]) -> list[str]:
    """Returns what is asked for and not reached."""
    missing = len(order()) - len({(unit["slow_down"], unit["unit"]) for unit in units})
    if missing:
        return [f"{missing} units are missing"]
    found = []
    if caught(units, "0") > MOST_ALARMS:
        found.append(f"{caught(units, '0')} false alarms (at most {MOST_ALARMS})")
    if caught(units, "0.1") < FEWEST_CAUGHT:
        found.append(f"10 % was caught {caught(units, '0.1')} times (at least {FEWEST_CAUGHT})")
    if noise_floor(units) <= FLOOR_FOR_FIVE_PERCENT and caught(units, "0.05") < FEWEST_CAUGHT:
        found.append(f"5 % was caught {caught(units, '0.05')} times (at least {FEWEST_CAUGHT} at this noise floor)")
    exact = [unit for unit in units if unit["exact_alarms"]]
    if exact:
        found.append(f"{len(exact)} alarms of what has no noise (none)")
    minutes = sum(unit["took_s"] for unit in units) / 60
    if minutes > MOST_MINUTES:
        found.append(f"it took {minutes:.0f} min (at most {MOST_MINUTES})")
    return found


def show(args: argparse.Namespace) -> None:
    """Prints the table; with --check a shortfall is a failure."""
    units = read_units(args.file)
    if not units:
        raise BadInput(f"{args.file}: no units")
    print(table(units), end="")
    found = shortfalls(units) if args.check else []
    if found:
        raise Failed("; ".join(found))


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("run", help="make the units that are missing")
    making.add_argument("--noisemark", type=Path, required=True, metavar="BIN")
    making.add_argument("--seconds", type=float, default=25, help="seconds of a first look (default: 25)")
    making.add_argument("--most", type=int, default=None, metavar="N", help="units of this call (default: all)")
    making.add_argument("--minutes", type=float, default=0, metavar="M",
                        help="start no unit after so many minutes (default: no end)")
    making.add_argument("--records", type=Path, metavar="DIR", help="keep the ab.json of every unit (default: none)")
    making.add_argument("--option", action="append", default=[], metavar="=--WORD",
                        help="an option for noisemark ab, for example --option=--threads=1; may be repeated")
    showing = commands.add_parser("table", help="print the table")
    for command in (making, showing):
        command.add_argument("--file", type=Path, required=True, metavar="FILE", help="the file with a line per unit")
        command.add_argument("--check", action="store_true", help="fail where it does not reach what is asked for")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    args = arguments(argv)
    try:
        if args.command == "run":
            run(args)
        show(args)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    except (Failed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
