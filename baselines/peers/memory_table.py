#!/usr/bin/env python3
"""Prints what Noisemark's memory modes and the peers' own ways to save memory take and cost.

    memory_table.py --noisemark build/release/bin/noisemark --data DIR --out FOLDER

Every contestant first trains in a process of its own and measures the memory of a steady step; then
all are timed in one interleaved run (pace.py). FOLDER gets memory.md, plots/pareto.svg, the raw turns
(pace.json) and every result.json. A contestant that cannot run here is left out, as is a budget that
cannot be met, and the table says so. All of it runs on the CPU, or with --device cuda on a GPU, where the
benchmark's @gpu is trained. All contestants are alive while they are timed, which takes the machine more
than the sum of their peaks, their libraries too. Where that is too much, --timed names who is; the others
have bytes alone. A mode runs over the baseline plain, and MODE@BASELINE (echo@fused) over another, which its
certificate is against too.

--resume goes on in a FOLDER whose table was not written: of its results those are taken whose run ended,
by the same command and, of Noisemark, the same program. The others are measured.

--check asks for what the modes must reach: the byte factors asked of the benchmark; on a GPU `echo@fused`
no slower than plain `none` and at most 3 % slower than `none@fused`; on a CPU `echo` at most 3 % slower than
plain `none`, and of the lossless modes whose peak is not above peer-checkpoint's the one with the highest
faster than it (and than peer-checkpoint-fused-adam, where that is there). Bytes are exact; a time is missed
where its whole 95 % interval misses what is asked, and not proven, which is printed and is no failure, where
the interval holds both. No mode is called faster whose median is not.

A mode whose run ends with a failed gate stays in the table, which names the gate, and ends it with 1. So
does a contestant that fails otherwise; of it the table has what was measured before.

Exit codes: 0 measured, 1 a contestant failed or a target of --check was missed, 2 bad input,
77 a contestant that is needed cannot run here.
"""

import argparse
import hashlib
import json
import math
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pace
import pages
from endings import EXIT_BAD_INPUT, EXIT_CANNOT_RUN_HERE, EXIT_FAILED, BadInput, CannotRunHere, exit_code_of
from devices import CPU, asked_for, checked_device, scale_of, titled
from memory_plot import draw, points_of
from memory_rows import (
    PEER,
    PLAIN,
    Entry,
    Measured,
    against_checkpoints,
    entries_of,
    measured_in,
    table,
)
from memory_targets import Target, byte_targets, missed, targets_table, time_targets
from variants import parse_variant

_PEERS = Path(__file__).resolve().parent
MODES = ("none", "echo", "echo+attn", "mirror", "mirror:sqrt", "mirror+echo", "mirror:sqrt+echo",
         "gist", "echo+dpr8", "echo+q4", "offload", "offload:all")
# Shares of the peak of `none`, then whether an error of the gradient is allowed.
BUDGETS = ("0.9", "0.75", "0.75,error=0.01")
_VARIANTS = ("eager", "checkpoint", "checkpoint-fused-adam", "save-on-cpu", "compiled",
             "compiled-budget=0.5")

# Nothing but what the memory pass needs: the speed is that of the interleaved run.
_SHORT = ("train.steps=1", "eval.samples=8", "eval.every=0")
_WEIGHTS = ("weights.safetensors", "ema.safetensors")
_MEBI = 1 << 20
_ROUNDS_OF_A_CHECK = 6
_BUDGET = "budget:"


class NotMet(Exception):
    """No plan is within a budget."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    # Modes watch three steps before they settle.
    parser = pace.argument_parser(__doc__, threads=2, rounds=12, warmup_rounds=4, steps=1)
    pace.add_table(parser)
    parser.add_argument("--benchmark", default="ho-cifar10", metavar="ID")
    parser.add_argument("--modes", nargs="+", default=MODES, metavar="M",
                        help=f"modes of Noisemark; none always runs (default: {' '.join(MODES)})")
    parser.add_argument("--budgets", nargs="*", default=BUDGETS, metavar="F[,error=E]",
                        help="modes budget:SIZE whose SIZE is F times the peak of none, in whole MiB "
                             f"(default: {' '.join(BUDGETS)})")
    parser.add_argument("--variants", nargs="+", default=_VARIANTS, metavar="V",
                        help=f"variants of the peer; eager always runs (default: {' '.join(_VARIANTS)})")
    parser.add_argument("--batch", type=int, metavar="N", help="batch in place of the definition's")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--device", default=CPU, metavar="D", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--timed", nargs="+", metavar="NAME",
                        help="contestants of the interleaved run beside none, as the table names them, a "
                             "budget by its mode (default: all)")
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    parser.add_argument("--resume", action="store_true", help="measure only what --out does not hold yet")
    return parser.parse_args(argv)


class Commands:
    """Holds how a contestant is started, by its name: a mode, or peer-VARIANT."""

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
                "--device", args.device]

    def _peer(self, name: str, *more: object) -> list[str]:
        words = [sys.executable, _PEERS / "run_peer.py", "--definition", self._definition,
                 "--variant", name.removeprefix(PEER), *self._shared(), *more]
        return list(map(str, words))

    def _noisemark(self, command: str, mode: str, *more: object) -> list[str]:
        batch = ["--set", f"train.batch={self._args.batch}"] if self._args.batch else []
        mode, _, baseline = mode.partition("@")
        execution = ["--baseline", baseline] if baseline else []
        words = [self._args.noisemark, command, asked_for(self._args.benchmark, self._args.device),
                 "--mode", mode, *execution, *self._shared(), *batch, *more]
        return list(map(str, words))


def _share_of(budget: str) -> tuple[float, str]:
    """The share, and what follows it: 0.75 and ",error=0.01" of "0.75,error=0.01"."""
    share, comma, error = budget.partition(",")
    try:
        value = float(share)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise BadInput(f"--budgets: {budget} (a share of the peak of none above 0 and up to 1, and "
                       ",error=E behind it where errors are allowed)")
    return value, comma + error


def budget_mode(budget: str, peak_bytes: int) -> str:
    """The mode of a share of a peak."""
    share, error = _share_of(budget)
    return f"{_BUDGET}{math.ceil(share * peak_bytes / _MEBI)}MiB{error}"


def _budget_modes(args: argparse.Namespace, plain: Measured) -> list[str]:
    peak = plain.bytes["peak_bytes"]
    if peak.value is None and args.budgets:
        raise CannotRunHere(f"--budgets: no peak_bytes of {PLAIN}: {peak.words}")
    return [budget_mode(budget, peak.value) for budget in args.budgets]


def _peers(args: argparse.Namespace) -> list[str]:
    """The peer's `eager`, which ratios are to, whether asked for or not, and the others."""
    return [f"{PEER}{parse_variant(spelling).name}" for spelling in ("eager", *args.variants)]


def _reasons(out: Path) -> str:
    """Why a run that had begun ended as it did, as its result says; "" where none began."""
    result = out / "result.json"
    return " ".join(json.loads(result.read_text())["exit"]["reasons"]) if result.exists() else ""


def _measured(name: str, command: list[str], out: Path) -> tuple[Measured, str]:
    """Runs it and reads its result.json; with it the gates that a mode failed, "" where none. What the
    run says goes to standard error."""
    print(f"memory of {name}", file=sys.stderr, flush=True)
    code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
    if code == EXIT_CANNOT_RUN_HERE:
        raise CannotRunHere(f"{name}: cannot run here")
    why = "" if name.startswith(PEER) else _reasons(out)
    if code == EXIT_BAD_INPUT:
        if name.startswith(_BUDGET) and why:
            raise NotMet(why)
        raise BadInput(f"{name}: refused")
    if code != 0 and (code != EXIT_FAILED or not why):
        raise pace.ContestantFailed(name, f"ended with exit code {code}{f': {why}' if why else ''}")
    for weights in _WEIGHTS:
        (out / weights).unlink(missing_ok=True)  # large, and nobody asks for them here
    return measured_in(json.loads((out / "result.json").read_text())), why if code else ""


def _recorded(command: list[str], program_sha256: str, out: Path) -> tuple[Measured, str] | None:
    """Returns what an earlier run of this command left in `out`, as _measured() returns it; None where nothing
    did, or another program. Of a peer `program_sha256` is empty, as it is in its result."""
    try:
        result = json.loads((out / "result.json").read_text())
        # A program's first word is a path to it, a script's first is the interpreter.
        is_same = (result["argv"][1:] == command[-len(result["argv"]) + 1:]
                   and result["provenance"]["binary_sha256"] == program_sha256)
        ended = result["exit"]
    except (OSError, ValueError, KeyError):
        return None
    if not is_same or ended["code"] not in (0, EXIT_FAILED):
        return None
    return measured_in(result), " ".join(ended["reasons"]) if ended["code"] else ""


class MemoryPasses:
    """Measures one contestant after the other, and remembers who has no figures. With the checksum of the
    program it takes what was measured before."""

    def __init__(self, folder: Path, commands: Commands, program_sha256: str | None) -> None:
        self._folder = folder
        self._commands = commands
        self._program_sha256 = program_sha256
        self.measured: dict[str, Measured] = {}
        self.absent: list[str] = []
        self.not_met: list[str] = []  # sentences
        self.failed: list[str] = []  # sentences: modes with the gates, and what had no result

    def run(self, names: Iterable[str]) -> None:
        for name in dict.fromkeys(names):
            if name in self.measured:
                continue
            out = self._folder / name
            try:
                self.measured[name], why = self._of(name, self._commands.measure(name, out), out)
                if why:
                    self.failed.append(f"{name} failed: {why}")
            except CannotRunHere:
                self.absent.append(name)
            except NotMet as error:
                self.not_met.append(f"{error}.")
            except pace.ContestantFailed as error:
                if name == PLAIN:
                    raise
                self.failed.append(f"{error}.")

    def _of(self, name: str, command: list[str], out: Path) -> tuple[Measured, str]:
        if self._program_sha256 is not None:
            program = "" if name.startswith(PEER) else self._program_sha256
            if (before := _recorded(command, program, out)) is not None:
                return before
            shutil.rmtree(out, ignore_errors=True)  # it is of a run that was cut off
        return _measured(name, command, out)

    def left_out(self) -> list[str]:
        """Paragraphs for the table's reader."""
        absent = [f"Cannot run here: {', '.join(self.absent)}."] if self.absent else []
        return [f"{text}\n" for text in (*absent, *self.not_met, *self.failed)]


def _checksum(program: Path) -> str:
    return hashlib.sha256(Path(shutil.which(program)).read_bytes()).hexdigest()


def _measure_memory(args: argparse.Namespace, commands: Commands) -> MemoryPasses:
    passes = MemoryPasses(args.out / "results", commands, _checksum(args.noisemark) if args.resume else None)
    passes.run([PLAIN])
    if PLAIN not in passes.measured:
        raise CannotRunHere(f"{PLAIN}: cannot run here")
    passes.run(args.modes)
    passes.run(_budget_modes(args, passes.measured[PLAIN]))
    passes.run(_peers(args))
    return passes


def _head(args: argparse.Namespace, batch: int) -> str:
    return (
        f"# Memory and time of {titled(args.benchmark, args.device)}\n\n{args.precision}, batch {batch}, "
        f"{args.threads} threads. Bytes are those of one steady step, and a factor is those of `{PLAIN}` divided "
        "by them. A certificate is `pass` where loss, gradients and weights are bitwise those of "
        f"`{PLAIN}`; a mode that rounds has the relative error of its gradient instead. Ratios of images per "
        "second are taken within the rounds of one interleaved run, with the 95 % interval of their "
        "median.\n"
    )


def _check(args: argparse.Namespace) -> None:
    checked_device(args.device)
    if shutil.which(args.noisemark) is None:
        raise BadInput(f"--noisemark: {args.noisemark} (a program)")
    if (args.out / "memory.md").exists():
        raise BadInput(f"--out: {args.out}: has a table (a new folder)")
    if not args.resume and args.out.exists() and any(args.out.iterdir()):
        raise BadInput(f"--out: {args.out}: is not empty (a new folder, or --resume)")
    if args.batch is not None and args.batch < 1:
        raise BadInput(f"--batch: {args.batch} (an integer of at least 1)")
    if args.check and args.rounds < _ROUNDS_OF_A_CHECK:
        raise BadInput(f"--rounds: {args.rounds} (with --check at least {_ROUNDS_OF_A_CHECK}, the fewest "
                       "with a 95 % interval)")
    known = (PLAIN, *args.modes, *_peers(args))
    for name in args.timed or ():
        if name not in known and not name.startswith(_BUDGET):
            raise BadInput(f"--timed: {name} (of: {', '.join(known)}, {_BUDGET}SIZE)")
    for budget in args.budgets:
        _share_of(budget)


def _kept(record: dict, args: argparse.Namespace) -> dict:
    return pace.without_paths(record, {
        Path(sys.executable): "python3", _PEERS: "baselines/peers", args.out: "FOLDER",
        args.data: "DIR", args.noisemark: "noisemark",
    })


def _targets(args: argparse.Namespace, entries: list[Entry]) -> list[Target]:
    """Factors are asked for at the definition's batch alone."""
    of_bytes = [] if args.batch else byte_targets(args.benchmark, args.precision, entries,
                                                    scale_of(args.device))
    return of_bytes + time_targets(entries, scale_of(args.device)) if of_bytes or args.check else []


def _timed(args: argparse.Namespace, passes: MemoryPasses) -> list[str]:
    if args.timed is None:
        return list(passes.measured)
    return [name for name in passes.measured if name == PLAIN or name in args.timed]


def measure(args: argparse.Namespace) -> tuple[str, list[Target], list[str]]:
    """Runs everything, writes FOLDER, returns the text of memory.md, what was to be reached, and the
    modes that failed a gate."""
    _check(args)
    turns = pace.Turns(args.rounds, args.warmup_rounds, args.steps)
    commands = Commands(args)
    passes = _measure_memory(args, commands)
    left_out: pace.LeftOut = []
    record = pace.measure({name: commands.pace(name) for name in _timed(args, passes)}, turns, PLAIN, left_out)
    passes.failed += [f"While timed, {why}." for why in left_out]
    entries = entries_of(passes.measured, record)
    targets = _targets(args, entries)
    sections = [_head(args, record["contestants"][0]["ready"]["batch"])]
    if targets:
        sections.append(targets_table(targets))
    sections += [table(entries), *passes.left_out()]
    if compared := against_checkpoints(entries):
        sections.append(compared)
    failure = draw(points_of(entries), args.out)
    sections.append(f"No plot: {failure}.\n" if failure else "![Peak and time](plots/pareto.svg)\n")
    text = "\n".join(sections)
    (args.out / "pace.json").write_text(json.dumps(_kept(record, args)) + "\n")
    pages.write(args.out / "memory.md", text)
    return text, targets, passes.failed


def _run(args: argparse.Namespace) -> int:
    text, targets, failed = measure(args)
    print(text, end="")
    for failure in failed:
        print(failure, file=sys.stderr)
    failures = missed(targets) if args.check else []
    for failure in failures:
        print(f"--check: {failure}", file=sys.stderr)
    return EXIT_FAILED if failed or failures else 0


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _run(_arguments(argv)), "--out")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
