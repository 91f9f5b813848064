#!/usr/bin/env python3
"""Measures what it costs to draw images by several processes, each of which computes a band of rows (patch parallel).

    patches.py run --noisemark BIN --out DIR     draw what is missing, then print the table
    patches.py table --noisemark BIN --out DIR   print it

The modes are those of `noisemark sample --patch-mode` (Li et al., "DistriFusion", 2024). For every number of steps one
process draws first, `serial`; all others begin with the same noise. The table shows how far a mode's samples are from
the serial ones (PSNR), and how far each set is from the mixture itself (Fréchet distance); what a rank gives in a step
that is not synchronous, by count and by formula, and how long such a step takes beside its prediction.

Exit codes: 0 every finding is as it must be (the lines below the table); 1 one is not, or a program failed; 2 bad input.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy

SERIAL = "serial"
LEAST_DB = 30
FARTHEST = 0.01  # fraction of the distance of the serial samples


class BadInput(Exception):
    """Something that the user can mend."""


class Drawn(NamedTuple):
    """One set of samples."""

    record: dict[str, Any]  # sampling.json
    samples: numpy.ndarray
    distance: float


Study = dict[int, dict[str, Drawn]]  # sets by steps and mode


def called(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in words[1:])}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def draw(options: argparse.Namespace, steps: int, mode: str) -> None:
    """Draws one set, unless it is there."""
    folder = Path(options.out) / f"{steps}-{mode}"
    if (folder / "sampling.json").exists():
        return
    patches = [] if mode == SERIAL else ["--patch-parallel", options.ranks, "--patch-mode", mode]
    called(options.noisemark, "sample", options.id, "--device", "cpu", "--weights", options.weights, "--threads", 1,
           "--samples", options.samples, "--batch", options.batch, "--steps", steps, *patches, "--out", folder, "--force")


def distance(program: str, folder: Path, record: dict[str, Any]) -> float:
    exact = record["definition"]["id"].partition("-")[0] + ":exact"
    return json.loads(called(program, "fid", folder / "samples.npy", exact, "--json"))["value"]


def read_study(options: argparse.Namespace) -> Study:
    found: Study = {}
    for path in Path(options.out).glob("*-*/sampling.json"):
        steps, _, mode = path.parent.name.partition("-")
        record = json.loads(path.read_text())
        drawn = Drawn(record, numpy.load(path.with_name("samples.npy")), distance(options.noisemark, path.parent, record))
        found.setdefault(int(steps), {})[mode] = drawn
    if not found or any(SERIAL not in sets for sets in found.values()):
        raise BadInput(f"{options.out}: lacks samples of one process (the folder of a study)")
    if len({(one.record["weights"]["sha256"], one.samples.shape) for sets in found.values() for one in sets.values()}) > 1:
        raise BadInput(f"{options.out}: holds samples of other weights or numbers (one study)")
    return {steps: dict(sorted(found[steps].items(), key=lambda one: (one[0] != SERIAL, one[0]))) for steps in sorted(found)}


def psnr_db(samples: numpy.ndarray, serial: numpy.ndarray) -> float:
    """Returns the peak signal-to-noise ratio of values in [-1, 1]."""
    error = numpy.mean((samples.astype(float) - serial) ** 2)
    return float(10 * numpy.log10(4 / error)) if error else float("inf")


def serial_step_s(record: dict[str, Any]) -> float:
    batches = -(-record["samples"]["shape"][0] // record["execution"]["batch"])
    return record["execution"]["sampling_s"] / (batches * record["sampler"]["steps"])


def row_of(steps: int, mode: str, drawn: Drawn, serial: Drawn) -> str:
    cells = [f"{steps}", mode, "", f"{drawn.distance:.4f}", "", "", "", f"{1e3 * serial_step_s(drawn.record):.2f}", "", ""]
    if mode != SERIAL:
        last = drawn.record["patches"]["steps"][-1]
        cells[2] = f"{psnr_db(drawn.samples, serial.samples):.1f}"
        cells[4] = f"{drawn.distance / serial.distance - 1:+.2%}"
        cells[5:7] = (f"{last[name] / last['steps']:.0f}" for name in ("bytes", "bytes_by_formula"))
        cells[7:] = (f"{1e3 * last[name]:.2f}" for name in ("step_s", "predicted_step_s", "exposed_step_s"))
    return "| " + " | ".join(cells) + " |"


def table(study: Study) -> str:
    record = next(iter(study.values()))[SERIAL].record
    shared = {drawn.record.get("patches", {}).get("shared_processors", "") for sets in study.values() for drawn in sets.values()}
    lines = [f"{record['definition']['id']}, weights after {record['weights']['step']} steps of training, "
             f"{record['samples']['shape'][0]} samples in batches of {record['execution']['batch']}.", "",
             "| steps | mode | PSNR, dB | distance | beside serial | bytes a step, counted | by formula | ms a step | predicted | "
             "exposed |", "|" + "---:|" * 10]
    lines += [row_of(steps, mode, drawn, sets[SERIAL]) for steps, sets in study.items() for mode, drawn in sets.items()]
    lines += [f"\nNo efficiency is claimed: {words}." for words in sorted(shared - {""})]
    return "\n".join(lines)


def findings(study: Study) -> list[tuple[bool, str]]:
    """Returns what must be so of every number of steps, and whether it is."""
    found = []
    for steps, sets in study.items():
        serial = sets[SERIAL]
        decibels = {mode: psnr_db(drawn.samples, serial.samples) for mode, drawn in sets.items() if mode != SERIAL}
        for mode in decibels:
            parts = sets[mode].record["patches"]["steps"]
            found.append((all(one["bytes"] == one["bytes_by_formula"] for one in parts),
                          f"{steps} steps, {mode}: a rank gives the bytes of the formula"))
        if "displaced" not in decibels:
            continue
        off = sets["displaced"].distance / serial.distance - 1
        found += [(decibels["displaced"] >= LEAST_DB, f"{steps} steps: displaced is {decibels['displaced']:.1f} dB from serial "
                                                      f"(at least {LEAST_DB})"),
                  (abs(off) <= FARTHEST, f"{steps} steps: its distance is {off:+.2%} beside serial (within {FARTHEST:.0%})")]
        if "no_sync" in decibels:
            found.append((decibels["no_sync"] < decibels["displaced"],
                          f"{steps} steps: no_sync, at {decibels['no_sync']:.1f} dB, is farther"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="draw what is missing, then print the table")
    shown = actions.add_parser("table", help="print the table of a study")
    for one in (run, shown):
        one.add_argument("--noisemark", required=True, help="the program")
        one.add_argument("--out", required=True, help="folder of the study: DIR/STEPS-MODE")
    run.add_argument("--weights", help="folder of a run or its weights (default: DIR/weights, trained if it is not there)")
    run.add_argument("--id", default="gmm16@cpu", help="benchmark of a mixture at one scale (default: %(default)s)")
    run.add_argument("--steps", nargs="+", type=int, default=[10, 20, 50], help="numbers of steps (default: 10 20 50)")
    run.add_argument("--modes", nargs="+", default=["displaced", "no_sync"], help="default: displaced no_sync")
    run.add_argument("--samples", type=int, default=5000, help="samples of every set (default: %(default)s)")
    run.add_argument("--batch", type=int, default=64)
    run.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    try:
        if options.action == "run":
            if options.weights is None:
                options.weights = Path(options.out) / "weights"
                called(options.noisemark, "run", options.id, "--device", "cpu", "--threads", 1, "--no-memory", "--no-profile",
                       "--resume", "--out", options.weights)
            for steps in options.steps:
                for mode in (SERIAL, *options.modes):
                    draw(options, steps, mode)
        study = read_study(options)
    except BadInput as error:
        print(f"patches.py: {error}", file=sys.stderr)
        return 2
    found = findings(study)
    print("\n".join([table(study), "", *(f"{'pass' if good else 'FAIL'}: {words}" for good, words in found)]))
    return 0 if all(good for good, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
