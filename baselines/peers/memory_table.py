#!/usr/bin/env python3
"""Prints what Noisemark's memory modes and the peers' own ways to save memory take and cost.

    memory_table.py --noisemark build/release/bin/noisemark --data DIR --out FOLDER

Every contestant first trains in a process of its own and measures the memory of a steady step; then
all are timed in one interleaved run (pace.py). FOLDER gets memory.md, plots/pareto.svg, the raw turns
(pace.json) and every result.json. A contestant that cannot run here is left out, and the table says
so. All of it runs on the CPU.

Exit codes: 0 measured, 1 a contestant failed, 2 bad input.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pace
from definition import BadInput, CannotRunHere
from memory_plot import draw, points_of
from memory_rows import EAGER, PEER, PLAIN, against_checkpoint, entries_of, figures_of, table
from variants import parse_variant

_PEERS = Path(__file__).resolve().parent
_MODES = ("none", "echo", "echo+attn", "mirror", "mirror+echo", "echo+dpr8", "echo+q4", "offload")
_VARIANTS = ("eager", "checkpoint", "save-on-cpu", "compiled", "compiled-budget=0.5")

# Nothing but what the memory pass needs: the speed is that of the interleaved run.
_SHORT = ("train.steps=1", "eval.samples=8", "eval.every=0")
_WEIGHTS = "weights.safetensors"


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--noisemark", type=Path, required=True, metavar="BIN")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="of the pictures")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new one")
    parser.add_argument("--benchmark", default="ho-cifar10", metavar="ID")
    parser.add_argument("--modes", nargs="+", default=_MODES, metavar="M",
                        help=f"of Noisemark; none always runs (default: {' '.join(_MODES)})")
    parser.add_argument("--variants", nargs="+", default=_VARIANTS, metavar="V",
                        help=f"of the peer; eager always runs (default: {' '.join(_VARIANTS)})")
    parser.add_argument("--batch", type=int, metavar="N", help="other than the definition's")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--threads", type=int, default=2, help="of each contestant (default: 2)")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each (default: 12)")
    parser.add_argument("--warmup-rounds", type=int, default=4,
                        help="left out; modes watch three steps before they settle (default: 4)")
    parser.add_argument("--steps", type=int, default=1, help="of a turn (default: 1)")
    return parser.parse_args(argv)


class Commands:
    """How a contestant is started, by its name: a mode, or peer-VARIANT."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._definition = args.out / "results" / PLAIN / "result.json"

    def measure(self, name: str, out: Path) -> list[str]:
        """Trains and writes a result.json to `out`. The peers' definition is that of `none`, which
        therefore has to run first."""
        if name.startswith(PEER):
            return self._peer(name, "--out", out)
        sets = [word for key in _SHORT for word in ("--set", key)]
        return self._noisemark("run", name, *sets, "--no-profile", "--out", out)

    def pace(self, name: str) -> str:
        """Serves turns."""
        if name.startswith(PEER):
            return shlex.join(self._peer(name, "--pace"))
        return shlex.join(self._noisemark("pace", name))

    def _shared(self) -> list[object]:
        args = self._args
        return ["--data", args.data, "--threads", args.threads, "--precision", args.precision,
                "--device", "cpu"]

    def _peer(self, name: str, *more: object) -> list[str]:
        words = [sys.executable, _PEERS / "run_peer.py", "--definition", self._definition,
                 "--variant", name.removeprefix(PEER), *self._shared(), *more]
        return list(map(str, words))

    def _noisemark(self, command: str, mode: str, *more: object) -> list[str]:
        batch = ["--set", f"train.batch={self._args.batch}"] if self._args.batch else []
        words = [self._args.noisemark, command, self._args.benchmark, "--mode", mode,
                 *self._shared(), *batch, *more]
        return list(map(str, words))


def _contestants(args: argparse.Namespace) -> list[str]:
    """`none` and the peer's `eager`, which ratios are to, whether asked for or not."""
    variants = (parse_variant(spelling).name for spelling in ("eager", *args.variants))
    return list(dict.fromkeys([PLAIN, *args.modes, *(f"{PEER}{name}" for name in variants)]))


def _measured(name: str, command: list[str], out: Path) -> dict:
    """Runs it and returns its result.json. What it says goes to standard error."""
    print(f"memory of {name}", file=sys.stderr, flush=True)
    code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
    if code == pace.EXIT_CANNOT_RUN_HERE:
        raise CannotRunHere(f"{name}: cannot run here")
    if code == pace.EXIT_BAD_INPUT:
        raise BadInput(f"{name}: refused")
    if code != 0:
        raise pace.ContestantFailed(f"{name}: ended with exit code {code}")
    (out / _WEIGHTS).unlink(missing_ok=True)  # large, and nobody asks for them here
    return json.loads((out / "result.json").read_text())


def _measure_memory(args: argparse.Namespace, commands: Commands) -> tuple[dict, list[str]]:
    """The figures by contestant, and who cannot run here."""
    figures, absent = {}, []
    for name in _contestants(args):
        out = args.out / "results" / name
        try:
            figures[name] = figures_of(_measured(name, commands.measure(name, out), out))
        except CannotRunHere:
            absent.append(name)
    if PLAIN not in figures:
        raise CannotRunHere(f"{PLAIN}: cannot run here")
    return figures, absent


def _head(args: argparse.Namespace, batch: int) -> str:
    return (
        f"# Memory and time of {args.benchmark}@cpu\n\n{args.precision}, batch {batch}, "
        f"{args.threads} threads. Bytes of one steady step; factor: those of `{PLAIN}` divided by "
        "them. Ratios of images per second are taken within the rounds of one interleaved run, "
        "with the 95 % interval of their median.\n"
    )


def _check(args: argparse.Namespace) -> None:
    if shutil.which(args.noisemark) is None:
        raise BadInput(f"--noisemark: {args.noisemark} (a program)")
    if args.out.exists() and any(args.out.iterdir()):
        raise BadInput(f"--out: {args.out}: is not empty (a new folder)")
    if args.batch is not None and args.batch < 1:
        raise BadInput(f"--batch: {args.batch} (an integer of at least 1)")


def _kept(record: dict, args: argparse.Namespace) -> dict:
    return pace.without_paths(record, {
        Path(sys.executable): "python3", _PEERS: "baselines/peers", args.out: "FOLDER",
        args.data: "DIR", args.noisemark: "noisemark",
    })


def measure(args: argparse.Namespace) -> str:
    """Runs everything, writes FOLDER, returns the text of memory.md."""
    _check(args)
    turns = pace.Turns(args.rounds, args.warmup_rounds, args.steps)
    commands = Commands(args)
    figures, absent = _measure_memory(args, commands)
    record = pace.measure({name: commands.pace(name) for name in figures}, turns, PLAIN)
    entries = entries_of(figures, record)
    sections = [_head(args, record["contestants"][0]["ready"]["batch"]), table(entries)]
    if absent:
        sections.append(f"Cannot run here: {', '.join(absent)}.\n")
    if compared := against_checkpoint(entries):
        sections.append(compared)
    failure = draw(points_of(entries), args.out)
    sections.append(f"No plot: {failure}.\n" if failure else "![Peak and time](plots/pareto.svg)\n")
    text = "\n".join(sections)
    (args.out / "pace.json").write_text(json.dumps(_kept(record, args)) + "\n")
    (args.out / "memory.md").write_text(text)
    return text


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    args = _arguments(argv)
    try:
        print(measure(args), end="")
    except (BadInput, CannotRunHere) as error:
        print(error, file=sys.stderr)
        return pace.EXIT_BAD_INPUT
    except pace.ContestantFailed as error:
        print(error, file=sys.stderr)
        return pace.EXIT_FAILED
    except OSError as error:
        print(f"--out: {error}", file=sys.stderr)
        return pace.EXIT_BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
