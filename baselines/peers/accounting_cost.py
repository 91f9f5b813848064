#!/usr/bin/env python3
"""Times a training step whose memory is accounted for beside one whose is not, and judges the difference.

    accounting_cost.py --bare-loop build/release/bin/noisemark_bare_loop --data DIR --device cuda

Three processes of noisemark_bare_loop train the same in turns (pace.py): `none` has LibTorch's own
allocator and nobody listens; `followed` counts every allocation, as every run of Noisemark does (on a
GPU by the trace tracker of the caching allocator, which cannot be taken off again, hence the processes);
`logged` also writes every event down and gives each byte to its owner, as the memory pass does, whose
steps nobody times. What is judged is `followed`: a step may take 1 % longer at the most.

Exit codes: 0 the whole 95 % interval is within, 1 all of it is above, 2 bad input, 4 neither, 70 a process
failed, 77 no such device or pictures here.
"""

import argparse
import json
import sys
from pathlib import Path

import pace
from endings import EXIT_FAILED, BadInput, exit_code_of
from devices import CPU, asked_for, checked_device, titled
from memory_targets import MISSED, NOT_PROVEN, REACHED, judged_overhead, percent

EXIT_INCONCLUSIVE = 4
EXIT_INTERNAL = 70
MOST = 0.01  # longer than a step without
WITHOUT = "none"
JUDGED = "followed"
ASKED = f"at most {percent(MOST)}"
CONTESTANTS = (WITHOUT, JUDGED, "logged")
_CODES = {REACHED: 0, MISSED: EXIT_FAILED, NOT_PROVEN: EXIT_INCONCLUSIVE}


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = pace.argument_parser(__doc__, threads=2, rounds=24, warmup_rounds=2, steps=3)
    parser.add_argument("--bare-loop", type=Path, required=True, metavar="BIN", help="the program noisemark_bare_loop")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the pictures")
    parser.add_argument("--benchmark", default="ho-cifar10", metavar="ID", help="the benchmark (default: ho-cifar10)")
    parser.add_argument("--device", default=CPU, metavar="D", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "bf16"),
                        help="the precision (default: fp32)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file of all turns, as JSON")
    return parser.parse_args(argv)


def commands(args: argparse.Namespace) -> dict[str, str]:
    """Returns how each contestant is started, by its name."""
    benchmark = asked_for(args.benchmark, checked_device(args.device))
    return {name: pace.words(args.bare_loop, benchmark, "--data", args.data, "--threads", args.threads,
                             "--device", args.device, "--precision", args.precision, "--accounting", name)
            for name in CONTESTANTS}


def table(rows: list[pace.Row], title: str) -> str:
    """Markdown: of each kind of accounting what a step takes longer; the judged one has a verdict."""
    lines = [f"# What accounting for memory costs a step, {title}", "",
             f"| accounting | step longer than with `{WITHOUT}` [95 %] | asked | verdict |", "|---|---:|---:|---|"]
    for row in rows:
        if row.name == WITHOUT:
            continue
        measured, verdict = judged_overhead(row, MOST)
        asked, verdict = (ASKED, verdict) if row.name == JUDGED else ("", "")
        lines.append(f"| {row.name} | {measured} | {asked} | {verdict} |")
    return "\n".join(lines) + "\n"


def exit_code(rows: list[pace.Row]) -> int:
    """Returns the exit code of the judged contestant's verdict."""
    return _CODES[judged_overhead(next(row for row in rows if row.name == JUDGED), MOST)[1]]


def _measure(args: argparse.Namespace) -> int:
    if args.out and args.out.exists():
        raise BadInput(f"--out: {args.out}: is there already (a new file)")
    turns = pace.Turns(args.rounds, args.warmup_rounds, args.steps)
    record = pace.measure(commands(args), turns, WITHOUT)
    rows = pace.rows_of(record, WITHOUT)
    if args.out:
        names: dict[object, str] = {args.data: "DIR", args.bare_loop: "noisemark_bare_loop"}
        args.out.write_text(json.dumps(pace.without_paths(record, names)) + "\n")
    print(table(rows, f"{titled(args.benchmark, args.device)}, {args.precision}"), end="")
    return exit_code(rows)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _measure(_arguments(argv)), failed=EXIT_INTERNAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
