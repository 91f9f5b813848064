#!/usr/bin/env python3
"""Prints how fast Noisemark's baselines train beside the Python peers, benchmark by benchmark.

    speed_table.py --noisemark build/release/bin/noisemark --data DIR --out FOLDER

For every benchmark and precision all contestants are timed in one interleaved run (pace.py). With
--bare-loop also what the harness costs: `noisemark pace` against the same calls without it. FOLDER
gets speed.md and the raw turns of every run. A contestant that cannot run here or fails is left out, and
the table says so; it ends with 1 where one failed. With --device cuda all train the benchmarks' @gpu on
the GPU.

Exit codes: 0 measured, 1 a contestant failed, 2 bad input, 77 one that is needed cannot run here.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import pace
import pages
from endings import EXIT_FAILED, BadInput, exit_code_of
from devices import CPU, asked_for, checked_device, titled

_PEERS = Path(__file__).resolve().parent
_BENCHMARKS = ("lucid-cifar10", "ho-cifar10")
_PRECISIONS = ("fp32", "bf16")
_CONTESTANTS = ("peer-eager", "peer-channels-last", "peer-compiled", "peer-channels-last+pooled",
                "peer-channels-last-fused-adam", "peer-compiled-fused-adam", "plain", "fused",
                "fused+channels-last", "fused+channels-last+pooled")

# The words in which both sides answer a turn, and those of the table.
_PHASES = {"step_s": "step", "data_wait_s": "data wait", "forward_s": "forward", "backward_s": "backward",
           "optimizer_s": "optimizer", "ema_s": "EMA"}

# Does what the baseline `pooled` does, for a program that knows nothing of it.
_POOLED = ("env", "MALLOC_ARENA_MAX=1", "MALLOC_MMAP_MAX_=0", "MALLOC_TOP_PAD_=67108864",
           "MALLOC_TRIM_THRESHOLD_=2147483647")


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = pace.argument_parser(__doc__, threads=2, rounds=12, warmup_rounds=2, steps=1)
    pace.add_table(parser)
    parser.add_argument("--bare-loop", type=Path, metavar="BIN", help="the program noisemark_bare_loop")
    parser.add_argument("--device", default=CPU, metavar="D", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--benchmarks", nargs="+", default=_BENCHMARKS, metavar="ID")
    parser.add_argument("--precisions", nargs="+", default=_PRECISIONS,
                        choices=(*_PRECISIONS, "tf32"),
                        help=f"precisions to measure (default: {' '.join(_PRECISIONS)})")
    parser.add_argument("--contestants", nargs="+", default=_CONTESTANTS, metavar="NAME",
                        help="peer-VARIANT, peer-VARIANT+pooled, or a baseline; the first that "
                             f"can run is the reference (default: {' '.join(_CONTESTANTS)})")
    return parser.parse_args(argv)


class Commands:
    """Holds how each contestant is started."""

    def __init__(self, args: argparse.Namespace, definitions: Path) -> None:
        self._args = args
        self._definitions = definitions

    def contestant(self, name: str, benchmark: str, precision: str) -> str:
        """`name` is peer-VARIANT, peer-VARIANT+pooled, or one of Noisemark's baselines."""
        where = ["--data", self._args.data, "--threads", self._args.threads, "--precision", precision,
                 "--device", self._args.device]
        benchmark = asked_for(benchmark, self._args.device)
        if name.startswith("peer-"):
            variant, _, memory = name.removeprefix("peer-").partition("+")
            if memory not in ("", "pooled"):
                raise BadInput(f"--contestants: {name}: +{memory} (+pooled)")
            return pace.words(*(_POOLED if memory else ()), sys.executable, _PEERS / "run_peer.py",
                              "--definition", self._definitions, "--id", benchmark,
                              "--variant", variant, "--pace", *where)
        return pace.words(self._args.noisemark, "pace", benchmark, "--baseline", name, *where)

    def bare_loop(self, benchmark: str) -> str:
        """The same calls without the harness."""
        return pace.words(self._args.bare_loop, asked_for(benchmark, self._args.device),
                          "--data", self._args.data, "--threads", self._args.threads,
                          "--device", self._args.device)


def _names(args: argparse.Namespace, definitions: Path) -> dict[object, str]:
    names = {args.data: "DIR", definitions: "list.json", Path(sys.executable): "python3",
             _PEERS: "baselines/peers", args.noisemark: "noisemark"}
    return {**names, args.bare_loop: "noisemark_bare_loop"} if args.bare_loop else names


def _median_ms(turns: list[dict[str, Any]], phase: str) -> str:
    samples = [seconds for turn in turns for seconds in turn.get(phase, [])]
    return f"{1000 * median(samples):.1f}" if samples else "-"


def phase_table(record: dict[str, Any]) -> str:
    """Returns where each contestant's time goes: milliseconds, medians over the steps after the warm-up."""
    lines = [f"| contestant, ms | {' | '.join(_PHASES.values())} |", "|---|" + "---:|" * len(_PHASES)]
    for contestant in record["contestants"]:
        turns = contestant["turns"][record["warmup_rounds"] :]
        cells = [_median_ms(turns, phase) for phase in _PHASES]
        lines.append(f"| {contestant['name']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _notes(left_out: pace.LeftOut) -> str:
    """Returns who has no row, and why."""
    return "".join(f"\nLeft out: {why}.\n" for why in left_out)


class Table:
    """Times sets of contestants and collects what is said about them."""

    def __init__(self, args: argparse.Namespace, definitions: Path) -> None:
        self._args = args
        self._definitions = definitions
        self.text = ""
        self.failed = False

    def add(self, title: str, file: str, commands: dict[str, str], steps: int) -> None:
        """One interleaved run. Contestants that cannot run here or fail are dropped and named."""
        left_out: pace.LeftOut = []
        while True:
            try:
                table = self._run(file, commands, steps, left_out)
                break
            except pace.ContestantFailed as error:  # the process ended between others, after its first turn
                if error in left_out or len(commands) == 1:
                    raise
                left_out.append(error)
                commands = {name: command for name, command in commands.items() if name != error.name}
        self.failed = self.failed or any(isinstance(why, pace.ContestantFailed) for why in left_out)
        section = f"## {title}\n{table}{_notes(left_out)}\n"
        print(section, flush=True)
        self.text += section

    def _run(self, file: str, commands: dict[str, str], steps: int, left_out: pace.LeftOut) -> str:
        turns = pace.Turns(self._args.rounds, self._args.warmup_rounds, steps)
        record = pace.measure(commands, turns, left_out=left_out)
        reference = record["contestants"][0]["name"]
        kept = pace.without_paths(record, _names(self._args, self._definitions))
        kept["left_out"] = [str(why) for why in left_out]
        (self._args.out / file).write_text(json.dumps(kept) + "\n")
        return f"{pace.markdown(pace.rows_of(record, reference), reference)}\n{phase_table(kept)}"


def measure(args: argparse.Namespace) -> bool:
    """Every table, printed as it is ready, and all of them in speed.md; whether no contestant failed."""
    checked_device(args.device)
    if args.out.exists() and any(args.out.iterdir()):
        raise BadInput(f"--out: {args.out}: is not empty (a new folder)")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        definitions = Path(folder) / "list.json"
        listed = subprocess.run([args.noisemark, "list", "--json"], check=True, capture_output=True)
        definitions.write_bytes(listed.stdout)
        commands, table = Commands(args, definitions), Table(args, definitions)
        for benchmark in args.benchmarks:
            for precision in args.precisions:
                chosen = {name: commands.contestant(name, benchmark, precision)
                          for name in args.contestants}
                table.add(f"{titled(benchmark, args.device)}, {precision}", f"{benchmark}-{precision}.json", chosen,
                          args.steps)
        if args.bare_loop:
            for benchmark in args.benchmarks:
                pair = {"bare loop": commands.bare_loop(benchmark),
                        "noisemark": commands.contestant("plain", benchmark, "fp32")}
                table.add(f"Harness, {titled(benchmark, args.device)}, fp32", f"{benchmark}-harness.json", pair,
                          2 * args.steps)
    head = (f"# Training speed, {args.threads} threads\n\nThe tables show images per second, "
            "and the ratio within each round to the first contestant that can run, with the 95 % interval of its "
            "median.\n\n")
    pages.write(args.out / "speed.md", head + table.text)
    return not table.failed


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: 0 if measure(_arguments(argv)) else EXIT_FAILED, "--noisemark")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
