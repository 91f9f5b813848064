#!/usr/bin/env python3
"""Measures what is asked of a GPU, and prints it as one Markdown table, each row with its command.

    gpu_table.py --noisemark build/release/bin/noisemark --data DIR --out FOLDER

The columns of utilization are by noisemark_gpu_columns, what accounting costs by accounting_cost.py, the
cost and bytes of memory modes by memory_table.py, the largest batch by `noisemark fit`, speed beside the
Python peers by speed_table.py; programs lie beside the given one. Of our baselines the fastest is judged
beside each peer, by the same turns that tell which it is. The scripts need Python alone, the peers what
containers/requirements-test.txt names; what the peers lack is named in their rows, and ours are timed.

FOLDER gets gpu.md, and what every command wrote. A command that fails, or takes longer than --longest, has
a row that says so, and the others go on; what is asked and was not measured has a row too. --parts measures
some parts alone; --resume goes on in FOLDER: parts that ended there by the same command are not made again
and have their rows, so that the table can be made in several sittings. Nothing else may use the GPU.

Exit codes: 0 all that is asked of the parts was measured, 1 not all, 2 bad input, 77 no GPU here (with
NOISEMARK_REQUIRE=cuda 1). Whether what was measured is enough is told by verdicts alone.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accounting_cost
import pace
import pages
from devices import GPU
from endings import EXIT_CANNOT_RUN_HERE, EXIT_FAILED, BadInput, CannotRunHere, Failure, exit_code_of
from memory_rows import PLAIN
from memory_targets import MISSED, NOT_MEASURED, NOT_PROVEN, REACHED, asked_of

_PEERS = Path(__file__).resolve().parent
_BENCHMARKS = ("ho-cifar10", "lucid-cifar10")
_BATCH = 128  # batch of their @gpu
_LEAST_SPEED = {"peer-eager": 1.5, "peer-compiled": 1.0}  # our fastest must reach so many times the peer's speed
_BASELINES = ("plain", "fused", "channels-last", "fused+channels-last", "cuda-graph", "fused+cuda-graph",
              "fused+channels-last+cuda-graph")
_BYTES_OF = "ho-cifar10"
_MODES = {"fp32": ("echo", "mirror+echo", "echo+dpr8"),
          "bf16": ("echo", "echo+attn", "mirror+echo", "echo+dpr8", "none@fused", "echo@fused")}
_OVERHEAD = "overhead"
PARTS = ("columns", "accounting", "memory-fp32", "memory-bf16", "fit", *(f"speed-{name}" for name in _BENCHMARKS))
_COLUMNS = "noisemark_gpu_columns"
_BARE_LOOP = "noisemark_bare_loop"
_TIMES_LARGER = 4
_FAILED = "failed"
_CHECKS = {"holds": REACHED, "**does not hold**": MISSED, "not known": NOT_MEASURED}
_TWO_SOURCES = ("copy", "product")  # loads whose busy time is known from two
_POINTS = "within 2 points"
_ALL_FIT = "no larger batch: all data are in it"
_TOO_LONG = 124
_ENDED = "ended.json"

Run = Callable[[list[str], Path], int]


@dataclass(frozen=True)
class Row:
    """All in words."""

    what: str
    asked: str
    measured: str
    verdict: str
    command: str


Asked = list[tuple[str, str]]


@dataclass(frozen=True)
class Part:
    """A command, and how its rows are read from what it left: in its folder, and on standard output."""

    key: str  # word of --parts, which is the name of its folder and files too
    name: str
    command: list[str]
    read: Callable[[str, str], list[Row]]  # standard output, the command as it is shown
    asked: Asked  # the first two cells of rows that must be there
    verdicts: tuple[int, ...] = (0,)  # exit codes that say nothing of whether it was measured
    goes_on: bool = False  # takes --resume where it was cut off


def has_gpu(devices: Path, environment: Mapping[str, str]) -> bool:
    """Returns whether the driver shows one, and it is not hidden from programs."""
    if environment.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()


def cells_of(text: str) -> list[list[str]]:
    """Returns the cells of every row of the Markdown tables in a text, their heads too."""
    lines = (line.strip() for line in text.splitlines())
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def _best(title: str, peer: str) -> tuple[str, str]:
    return f"{title}: fastest baseline beside {peer}, times as fast", f"at least {_LEAST_SPEED[peer]:.2f}"


def speed_verdict(row: pace.Row, least: float) -> str:
    """Returns whether `row` is at least so many times as fast as what it is beside, by the whole interval."""
    if row.ratio_ci95 is None:
        return NOT_PROVEN
    low, high = row.ratio_ci95
    return REACHED if low >= least else NOT_PROVEN if high >= least else MISSED


def speed_rows(record: dict[str, Any], title: str, command: str) -> list[Row]:
    """Returns rows of each baseline beside each peer, and of the fastest what is asked; a contestant that could not run
    has none."""
    timed = [contestant["name"] for contestant in record["contestants"]]
    rows = []
    for peer in (name for name in timed if name in _LEAST_SPEED):
        ours = [row for row in pace.rows_of(record, peer) if row.name not in _LEAST_SPEED]
        if ours:
            best = max(ours, key=lambda row: row.ratio)
            measured = f"{best.name}: {pace.with_interval(best.ratio, best.ratio_ci95, 3)}"
            rows.append(Row(*_best(title, peer), measured, speed_verdict(best, _LEAST_SPEED[peer]), command))
        for row in ours:
            ratio = pace.with_interval(row.ratio, row.ratio_ci95, 3)
            rows.append(Row(f"{title}: {row.name} beside {peer}, times as fast", "",
                            f"{ratio}, {row.images_per_s:.0f} images/s", "", command))
    if not rows:
        rows = [Row(f"{title}: {row.name}", "", f"{row.images_per_s:.0f} images/s", "", command)
                for row in pace.rows_of(record, timed[0])]
    return rows + [Row(f"{title}: left out", "", why, "", command) for why in record["left_out"]]


def _of_bytes(precision: str, what: str) -> str:
    return f"{_BYTES_OF}@gpu, {precision}: {what}"


def target_rows(text: str, precision: str, command: str, timed: bool) -> list[Row]:
    """Returns what memory_table.py says of its targets; those of time only where it was asked to time them."""
    found = [cells for cells in cells_of(text.partition("\n## Targets\n")[2]) if len(cells) == 5]
    return [Row(_of_bytes(precision, what), asked, reached, verdict, command)
            for what, asked, _, reached, verdict in found[2:] if timed or _OVERHEAD not in what]


def _larger(title: str, budget: str) -> tuple[str, str]:
    return f"{title}: largest batch of {budget}, times that of {PLAIN}", f"{_TIMES_LARGER:.2f}"


def fit_rows(text: str, title: str, command: str) -> list[Row]:
    """The largest batch within a budget, in those of `none`."""
    head, _, *rows = cells_of(text)
    batch_at = head.index("largest batch")
    batches = {cells[0]: int(cells[batch_at].replace(",", "")) for cells in rows}
    budget = next(mode for mode in batches if mode.startswith("budget:"))
    asked = _larger(title, budget)
    if not batches[PLAIN]:
        return [Row(*asked, f"no batch of {PLAIN} fits", NOT_MEASURED, command)]
    if any(_ALL_FIT in cell for cells in rows for cell in cells):
        return [Row(*asked, f"{_ALL_FIT}: a smaller --memory is needed", NOT_MEASURED, command)]
    times = batches[budget] / batches[PLAIN]
    return [Row(*asked, f"{times:.2f} ({batches[budget]} and {batches[PLAIN]})",
                REACHED if times >= _TIMES_LARGER else MISSED, command)]


def accounting_rows(text: str, title: str, command: str) -> list[Row]:
    """Returns what accounting_cost.py says of each kind of accounting, of which it judges one."""
    _, _, *rows = cells_of(text)
    return [Row(_accounting(title, kind), asked, measured, verdict, command)
            for kind, measured, asked, verdict in rows]


def _accounting(title: str, kind: str) -> str:
    return f"{title}: accounting for memory, {kind}: overhead of a step"


def _busy(load: str) -> str:
    return f"utilization, {load}: device_busy beside graphics_active"


def columns_rows(text: str, command: str) -> list[Row]:
    """Returns what noisemark_gpu_columns says of each thing that must hold; busy time has two sources."""
    checks = [cells for cells in cells_of(text) if len(cells) == 3 and cells[2] in _CHECKS]
    rows = []
    for what, found, verdict in checks:
        load, _, check = what.partition(": ")
        named = (_busy(load), _POINTS) if check.startswith("device_busy is within") else (f"utilization, {load}", check)
        rows.append(Row(*named, found, _CHECKS[verdict], command))
    if not rows:
        raise ValueError("no checks")
    return rows


def markdown(rows: list[Row]) -> str:
    """The table. A command's own bars would end a cell."""
    lines = ["| what | asked | measured | verdict | command |", "|---|---:|---:|---|---|"]
    lines += [f"| {r.what} | {r.asked} | {r.measured} | {r.verdict} | {_code(r.command)} |" for r in rows]
    return "\n".join(lines) + "\n"


def _code(command: str) -> str:
    return f"`{command}`".replace("|", "\\|") if command else ""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = pace.argument_parser(__doc__, threads=2, rounds=12, steps=10)  # more than a loader is ahead
    pace.add_table(parser)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, metavar="PART",
                        help=f"parts to measure (default: {' '.join(PARTS)})")
    parser.add_argument("--resume", action="store_true", help="measure only what --out does not hold yet")
    parser.add_argument("--longest", type=float, default=1800, metavar="S",
                        help="seconds that a part may take (default: 1800)")
    parser.add_argument("--memory", default="8GiB", metavar="SIZE",
                        help="memory into which the largest batch has to fit (default: 8GiB)")
    return parser.parse_args(argv)


class Parts:
    """The commands of the table, in its order."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args

    def all(self) -> list[Part]:
        """Returns all parts; what takes least comes first."""
        return [self._columns(), self._accounting(), self._memory("fp32"), self._memory("bf16"), self._fit(),
                *map(self._speed, _BENCHMARKS)]

    def _script(self, name: str, *words: object) -> list[str]:
        args = self._args
        return _words(sys.executable, _PEERS / name, "--data", args.data, "--device", "cuda",
                      "--threads", args.threads, "--steps", args.steps, *words)

    def _table(self, name: str, folder: str, *words: object) -> list[str]:
        args = self._args
        return self._script(name, "--noisemark", args.noisemark, "--out", args.out / folder, *words)

    def _beside(self, program: str) -> Path:
        return self._args.noisemark.parent / program

    def _speed(self, benchmark: str) -> Part:
        key = f"speed-{benchmark}"
        command = self._table("speed_table.py", key, "--rounds", self._args.rounds,
                              "--benchmarks", benchmark, "--precisions", "bf16",
                              "--contestants", *_LEAST_SPEED, *_BASELINES)
        title = f"{benchmark}@gpu, bf16, batch {_BATCH}"

        def read(_: str, shown: str) -> list[Row]:
            record = json.loads((self._args.out / key / f"{benchmark}-bf16.json").read_text())
            batches = {contestant["ready"]["batch"] for contestant in record["contestants"]}
            if batches != {_BATCH}:
                raise ValueError(f"batches of {sorted(batches)}")
            return speed_rows(record, title, shown)

        return Part(key, f"speed beside the peers, {benchmark}", command, read,
                    [_best(title, peer) for peer in _LEAST_SPEED])

    def _memory(self, precision: str) -> Part:
        """Bytes are asked for in both precisions, times in bf16."""
        timed = precision == "bf16"
        name = f"memory-{precision}"
        turns = ["--rounds", self._args.rounds] if timed else ["--rounds", 1, "--warmup-rounds", 0]
        contestants = ["none@fused", "echo@fused"] if timed else []
        command = self._table("memory_table.py", name, "--benchmark", _BYTES_OF, "--precision", precision,
                              "--modes", *_MODES[precision], "--budgets", "--variants", "eager",
                              "--timed", PLAIN, *contestants, *turns)

        def read(_: str, shown: str) -> list[Row]:
            return target_rows(pages.read(self._args.out / name / "memory.md"), precision, shown, timed)

        asked = [(_of_bytes(precision, what), how_much)
                 for what, how_much in asked_of(_BYTES_OF, precision, GPU, timed)]
        return Part(name, f"bytes and times of memory modes, {precision}", command, read, asked, goes_on=True)

    def _fit(self) -> Part:
        args = self._args
        budget = f"budget:{args.memory}"
        command = _words(args.noisemark, "fit", f"{_BYTES_OF}@gpu", "--device", "cuda", "--precision", "bf16",
                         "--threads", args.threads, "--data", args.data, "--memory", args.memory,
                         "--mode", PLAIN, "--mode", budget)
        title = f"{_BYTES_OF}@gpu, bf16, within {args.memory}"
        return Part("fit", "largest batch", command, lambda text, shown: fit_rows(text, title, shown),
                    [_larger(title, budget)])

    def _accounting(self) -> Part:
        command = self._script("accounting_cost.py", "--bare-loop", self._beside(_BARE_LOOP),
                               "--benchmark", _BYTES_OF, "--precision", "bf16",
                               "--rounds", 2 * self._args.rounds, "--out", self._args.out / "accounting.json")
        title = f"{_BYTES_OF}@gpu, bf16"
        asked = [(_accounting(title, accounting_cost.JUDGED), accounting_cost.ASKED)]
        return Part("accounting", "accounting for memory", command, lambda text, shown: accounting_rows(text, title, shown),
                    asked, (0, EXIT_FAILED, accounting_cost.EXIT_INCONCLUSIVE))

    def _columns(self) -> Part:
        asked = [(_busy(load), _POINTS) for load in _TWO_SOURCES]
        return Part("columns", "columns of utilization", _words(self._beside(_COLUMNS)), columns_rows, asked,
                    (0, EXIT_FAILED))


def _words(*words: object) -> list[str]:
    return list(map(str, words))


def _shown(command: list[str], args: argparse.Namespace) -> str:
    """As one would type it, not as this machine has it."""
    beside = {args.noisemark.parent / program: program for program in (_COLUMNS, _BARE_LOOP)}
    names = {args.noisemark: "noisemark", **beside, sys.executable: "python3",
             _PEERS: "baselines/peers", args.out: "FOLDER", args.data: "DIR"}

    def named(word: str) -> str:
        for path, name in names.items():
            if word == str(path) or word.startswith(f"{path}/"):
                return name + word[len(str(path)):]
        return word

    return shlex.join(map(named, command))


def _run(command: list[str], stdout: Path, longest_s: float) -> int:
    """The exit code; of one that took too long, and was ended with all that it had started, 124."""
    print(shlex.join(command), file=sys.stderr, flush=True)
    try:
        with stdout.open("w") as file:
            process = subprocess.Popen(command, stdout=file, start_new_session=True)
            try:
                return process.wait(timeout=longest_s)
            except subprocess.TimeoutExpired:
                return _TOO_LONG
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127


def _rows_of(part: Part, code: int, stdout: Path, shown: str) -> list[Row]:
    """Returns what could be read, a row more where the command failed (a table is there after a failed gate), and
    one of each that is asked for and missing."""
    if code == EXIT_CANNOT_RUN_HERE:
        rows = [Row(part.name, "", "cannot run here", "", shown)]
    else:
        how = "took longer than --longest" if code == _TOO_LONG else f"exit code {code}"
        rows = [] if code in part.verdicts else [Row(part.name, "", how, _FAILED, shown)]
        try:
            rows += part.read(stdout.read_text(), shown)
        except (OSError, ValueError, KeyError, IndexError, StopIteration) as error:
            rows = rows or [Row(part.name, "", f"no figures: {error!r}", _FAILED, shown)]
    there = {row.what for row in rows}
    return rows + [Row(what, how_much, "", NOT_MEASURED, shown)
                   for what, how_much in part.asked if what not in there]


class Ended:
    """Says which parts have ended in a folder, by what command and with which exit code."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._parts: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}

    def code(self, part: Part) -> int | None:
        """None where it has not ended, or by another command."""
        ended = self._parts.get(part.key, {})
        return ended["code"] if ended.get("command") == part.command else None

    def keep(self, part: Part, code: int) -> None:
        self._parts[part.key] = {"command": part.command, "code": code}
        self._file.write_text(json.dumps(self._parts, indent=1) + "\n")


def _made(part: Part, args: argparse.Namespace, run: Run, ended: Ended) -> int | None:
    """Its exit code: of an earlier sitting, or of now; None where it is not to be made and was not."""
    code = ended.code(part)
    if part.key not in args.parts or code in part.verdicts:
        return code
    folder, command = args.out / part.key, part.command
    if folder.exists() and part.goes_on and not (folder / "memory.md").exists():
        command = [*command, "--resume"]
    elif folder.exists():
        shutil.rmtree(folder)  # the command was cut off, failed, or was another
    code = run(command, args.out / f"{part.key}.txt")
    ended.keep(part, code)
    return code


def measure(args: argparse.Namespace, run: Run | None = None) -> list[Row]:
    """Runs every command, and writes gpu.md after each, so that what was measured stays."""
    program = shutil.which(args.noisemark)
    if program is None:
        raise BadInput(f"--noisemark: {args.noisemark} (a program)")
    args.noisemark = Path(program)
    begun = (args.out / _ENDED).exists()
    if args.out.exists() and any(args.out.iterdir()) and not (args.resume and begun):
        raise BadInput(f"--out: {args.out}: is not empty (a new folder, or with --resume one of a table that was begun)")
    args.out.mkdir(parents=True, exist_ok=True)
    ended = Ended(args.out / _ENDED)
    run = run or (lambda command, stdout: _run(command, stdout, args.longest))
    rows: list[Row] = []
    for part in Parts(args).all():
        code = _made(part, args, run, ended)
        if code is not None:
            rows += _rows_of(part, code, args.out / f"{part.key}.txt", _shown(part.command, args))
            pages.write(args.out / "gpu.md", markdown(rows))
    return rows


def exit_code(rows: list[Row]) -> int:
    """Returns whether the table is whole."""
    return EXIT_FAILED if any(row.verdict in (_FAILED, NOT_MEASURED) for row in rows) else 0


def _tell(args: argparse.Namespace) -> int:
    if not has_gpu(Path("/dev"), os.environ):
        required = "cuda" in os.environ.get("NOISEMARK_REQUIRE", "").split(",")
        raise (Failure if required else CannotRunHere)("gpu_table: no GPU here")
    rows = measure(args)
    print(markdown(rows), end="")
    return exit_code(rows)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _tell(_arguments(argv)), "--out")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
