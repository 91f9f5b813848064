#!/usr/bin/env python3
"""Measures what is asked of a GPU, and prints it as one Markdown table, each row with its command.

    gpu_table.py --noisemark build/release/bin/noisemark --data DIR --out FOLDER

Speed beside the Python peers and the cost and bytes of memory modes are by speed_table.py and
memory_table.py, the largest batch by `noisemark fit`, the columns of utilization by
noisemark_gpu_columns, which lies beside the program. FOLDER gets gpu.md, and what every command wrote.
A command that fails has a row that says so, and the others go on. Nothing else may use the GPU.

Exit codes: 0 measured, 1 a command failed, 2 bad input, 77 no GPU here (with NOISEMARK_REQUIRE=cuda 1).
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pace
from definition import BadInput
from memory_targets import MISSED, REACHED
from memory_rows import PLAIN

_PEERS = Path(__file__).resolve().parent
_BENCHMARKS = ("ho-cifar10", "lucid-cifar10")
_PEER_VARIANTS = ("peer-eager", "peer-compiled")
_BASELINES = ("plain", "fused", "fused+channels-last")
_BYTES_OF = "ho-cifar10"
_MODES = {"fp32": ("echo", "mirror+echo", "echo+dpr8"),
          "bf16": ("echo", "echo+attn", "mirror+echo", "echo+dpr8", "none@fused", "echo@fused")}
_OVERHEAD = "overhead"
_COLUMNS = "noisemark_gpu_columns"
_TIMES_LARGER = 4
_FAILED = "failed"
_NO_COMMAND = "no command"

Run = Callable[[list[str], Path], int]


@dataclass(frozen=True)
class Row:
    """All in words."""

    what: str
    asked: str
    measured: str
    verdict: str
    command: str


@dataclass(frozen=True)
class Part:
    """A command, and how its rows are read from what it left: in `folder`, and on standard output."""

    name: str
    command: list[str]
    read: Callable[[str, str], list[Row]]  # standard output, the command as it is shown


def has_gpu(devices: Path, environment: Mapping[str, str]) -> bool:
    """Whether the driver shows one, and it is not hidden from programs."""
    if environment.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()


def cells_of(text: str) -> list[list[str]]:
    """Of every row of the Markdown tables in a text, their heads too."""
    lines = (line.strip() for line in text.splitlines())
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def speed_rows(record: dict[str, Any], title: str, command: str) -> list[Row]:
    """Of each baseline beside each peer; a contestant that could not run has none."""
    timed = [contestant["name"] for contestant in record["contestants"]]
    rows = []
    for peer in (name for name in timed if name in _PEER_VARIANTS):
        by_name = {row.name: row for row in pace.rows_of(record, peer)}
        for name in (name for name in timed if name not in _PEER_VARIANTS):
            ratio = pace.with_interval(by_name[name].ratio, by_name[name].ratio_ci95, 3)
            rate = f"{by_name[name].images_per_s:.0f} images/s"
            rows.append(Row(f"{title}: {name} beside {peer}, times as fast", "", f"{ratio}, {rate}", "", command))
    return rows


def target_rows(text: str, precision: str, command: str, timed: bool) -> list[Row]:
    """What memory_table.py says of its targets; those of time only where it was asked to time them."""
    found = [cells for cells in cells_of(text.partition("\n## Targets\n")[2]) if len(cells) == 5]
    return [Row(f"{_BYTES_OF}@gpu, {precision}: {what}", asked, reached, verdict, command)
            for what, asked, _, reached, verdict in found[2:] if timed or _OVERHEAD not in what]


def fit_rows(text: str, title: str, command: str) -> list[Row]:
    """The largest batch within a budget, in those of `none`."""
    head, _, *rows = cells_of(text)
    batch_at = head.index("largest batch")
    batches = {cells[0]: int(cells[batch_at].replace(",", "")) for cells in rows}
    budget = next(mode for mode in batches if mode.startswith("budget:"))
    times = batches[budget] / batches[PLAIN] if batches[PLAIN] else 0.0
    verdict = REACHED if times >= _TIMES_LARGER else MISSED
    return [Row(f"{title}: largest batch of {budget}, times that of {PLAIN}", f"{_TIMES_LARGER:.2f}",
                f"{times:.2f} ({batches[budget]} and {batches[PLAIN]})", verdict, command)]


def columns_rows(text: str, command: str) -> list[Row]:
    """noisemark_gpu_columns says by its exit code whether each column said what is known of the load."""
    if not text:
        raise ValueError("nothing printed")
    return [Row("columns of utilization beside loads of which they are known", "all hold", "all hold", REACHED,
                command)]


def markdown(rows: list[Row]) -> str:
    """The table. A command's own bars would end a cell."""
    lines = ["| what | asked | measured | verdict | command |", "|---|---:|---:|---|---|"]
    lines += [f"| {r.what} | {r.asked} | {r.measured} | {r.verdict} | {_code(r.command)} |" for r in rows]
    return "\n".join(lines) + "\n"


def _code(command: str) -> str:
    return f"`{command}`".replace("|", "\\|") if command else ""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--noisemark", type=Path, required=True, metavar="BIN")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="of the pictures")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new one")
    parser.add_argument("--memory", default="8GiB", metavar="SIZE",
                        help="within which the largest batch is looked for (default: 8GiB)")
    parser.add_argument("--threads", type=int, default=2, help="of each contestant (default: 2)")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each (default: 12)")
    parser.add_argument("--steps", type=int, default=3, help="of a turn (default: 3)")
    return parser.parse_args(argv)


class Parts:
    """The commands of the table, in its order."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args

    def all(self) -> list[Part]:
        return [self._speed(), self._memory("fp32"), self._memory("bf16"), self._fit(), self._columns()]

    def _script(self, name: str, folder: str, *words: object) -> list[str]:
        args = self._args
        return _words(sys.executable, _PEERS / name, "--noisemark", args.noisemark, "--data", args.data,
                      "--device", "cuda", "--threads", args.threads, "--steps", args.steps,
                      "--out", args.out / folder, *words)

    def _speed(self) -> Part:
        folder = self._args.out / "speed"
        command = self._script("speed_table.py", "speed", "--rounds", self._args.rounds,
                               "--benchmarks", *_BENCHMARKS, "--precisions", "bf16",
                               "--contestants", *_PEER_VARIANTS, *_BASELINES)

        def read(_: str, shown: str) -> list[Row]:
            rows = []
            for benchmark in _BENCHMARKS:
                record = json.loads((folder / f"{benchmark}-bf16.json").read_text())
                batch = record["contestants"][0]["ready"]["batch"]
                rows += speed_rows(record, f"{benchmark}@gpu, bf16, batch {batch}", shown)
            return rows

        return Part("speed beside the peers", command, read)

    def _memory(self, precision: str) -> Part:
        """Bytes are asked for in both precisions, times in bf16."""
        timed = precision == "bf16"
        name = f"memory-{precision}"
        turns = ["--rounds", self._args.rounds] if timed else ["--rounds", 1, "--warmup-rounds", 0]
        contestants = ["none@fused", "echo@fused"] if timed else []
        command = self._script("memory_table.py", name, "--benchmark", _BYTES_OF, "--precision", precision,
                               "--modes", *_MODES[precision], "--budgets", "--variants", "eager",
                               "--timed", PLAIN, *contestants, *turns)

        def read(_: str, shown: str) -> list[Row]:
            return target_rows((self._args.out / name / "memory.md").read_text(), precision, shown, timed)

        return Part(f"bytes and times of memory modes, {precision}", command, read)

    def _fit(self) -> Part:
        args = self._args
        command = _words(args.noisemark, "fit", f"{_BYTES_OF}@gpu", "--device", "cuda", "--precision", "bf16",
                         "--threads", args.threads, "--data", args.data, "--memory", args.memory,
                         "--mode", PLAIN, "--mode", f"budget:{args.memory}")
        title = f"{_BYTES_OF}@gpu, bf16, within {args.memory}"
        return Part("largest batch", command, lambda text, shown: fit_rows(text, title, shown))

    def _columns(self) -> Part:
        command = _words(self._args.noisemark.parent / _COLUMNS)
        return Part("columns of utilization", command, columns_rows)


def _words(*words: object) -> list[str]:
    return list(map(str, words))


def _shown(command: list[str], args: argparse.Namespace) -> str:
    """As one would type it, not as this machine has it."""
    names = {args.noisemark: "noisemark", args.noisemark.parent / _COLUMNS: _COLUMNS, sys.executable: "python3",
             _PEERS: "baselines/peers", args.out: "FOLDER", args.data: "DIR"}

    def named(word: str) -> str:
        for path, name in names.items():
            if word == str(path) or word.startswith(f"{path}/"):
                return name + word[len(str(path)):]
        return word

    return shlex.join(map(named, command))


def _run(command: list[str], stdout: Path) -> int:
    print(shlex.join(command), file=sys.stderr, flush=True)
    try:
        with stdout.open("w") as file:
            return subprocess.run(command, stdout=file, check=False).returncode
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127


def _rows_of(part: Part, code: int, stdout: Path, shown: str) -> list[Row]:
    """What could be read, and a row more where the command failed: a table is there after a failed gate."""
    if code == pace.EXIT_CANNOT_RUN_HERE:
        return [Row(part.name, "", "cannot run here", "", shown)]
    failure = [Row(part.name, "", f"exit code {code}", _FAILED, shown)] if code else []
    try:
        return failure + part.read(stdout.read_text(), shown)
    except (OSError, ValueError, KeyError, IndexError, StopIteration) as error:
        return failure or [Row(part.name, "", f"no figures: {error!r}", _FAILED, shown)]


def measure(args: argparse.Namespace, run: Run = _run) -> list[Row]:
    """Runs every command, and writes gpu.md after each, so that what was measured stays."""
    program = shutil.which(args.noisemark)
    if program is None:
        raise BadInput(f"--noisemark: {args.noisemark} (a program)")
    args.noisemark = Path(program)
    if args.out.exists() and any(args.out.iterdir()):
        raise BadInput(f"--out: {args.out}: is not empty (a new folder)")
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [Row("accounting of memory, overhead of a step", "at most +1.0 %", "", _NO_COMMAND, "")]
    for index, part in enumerate(Parts(args).all()):
        stdout = args.out / f"{index + 1}.txt"
        shown = _shown(part.command, args)
        rows[-1:-1] = _rows_of(part, run(part.command, stdout), stdout, shown)
        (args.out / "gpu.md").write_text(markdown(rows))
    return rows


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    args = _arguments(argv)
    if not has_gpu(Path("/dev"), os.environ):
        print("gpu_table: no GPU here", file=sys.stderr)
        required = "cuda" in os.environ.get("NOISEMARK_REQUIRE", "").split(",")
        return pace.EXIT_FAILED if required else pace.EXIT_CANNOT_RUN_HERE
    try:
        rows = measure(args)
    except BadInput as error:
        print(error, file=sys.stderr)
        return pace.EXIT_BAD_INPUT
    except OSError as error:
        print(f"--out: {error}", file=sys.stderr)
        return pace.EXIT_BAD_INPUT
    print(markdown(rows), end="")
    return pace.EXIT_FAILED if any(row.verdict == _FAILED for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
