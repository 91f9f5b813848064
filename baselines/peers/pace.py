#!/usr/bin/env python3
"""Times training steps of several live programs in one interleaved run.

    pace.py ours='noisemark pace lucid-cifar10 --baseline fused' \\
            peer='build/venv/bin/python3 run_peer.py --definition FILE --id lucid-cifar10 --pace'

Every contestant is a process. It first prints {"ready": true, "batch": N, ...}; then, for each line
`run K`, it trains K steps and prints one line {"step_s": [K numbers], "loss": [...], ...}; it ends
at `quit` or end of file. Turns go forth and back (A B C, C B A, ...), so that a machine that slows
down or speeds up does so for all alike. Ratios are taken within a round.

What a contestant says on standard error is shown where it fails. An answer that takes longer than
half an hour is none.

Exit codes: 0 measured, 1 a contestant failed, 2 bad input, 77 a contestant cannot run here.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from endings import EXIT_CANNOT_RUN_HERE, BadInput, CannotRunHere, Failure, exit_code_of
from steady import median_interval

_LONGEST_ANSWER_S = 1800.0


class ContestantFailed(Failure):
    """A process ended, answered nonsense or nothing in the middle of the run."""

    def __init__(self, name: str, how: str) -> None:
        super().__init__(f"{name}: {how}")
        self.name = name


class Contestant:
    """One live process. Use it in a `with`; leaving ends the process."""

    def __init__(self, name: str, command: str, longest_answer_s: float = _LONGEST_ANSWER_S) -> None:
        self.name = name
        self.command = command
        self.turns: list[dict[str, Any]] = []
        self._longest_answer_s = longest_answer_s
        self._said = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
            )
        except OSError as error:
            raise BadInput(f"{name}: {command}: {error.strerror} (a command)") from error

    def __enter__(self) -> "Contestant":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate("quit\n" if kind is None and self._process.poll() is None else None)
        self._said.close()

    def _last_words(self) -> str:
        """Returns the end of what it said on standard error, which is shown: why it ended, for short."""
        self._said.seek(0)
        said = self._said.read()
        print(said, end="", file=sys.stderr, flush=True)
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return f": {lines[-1]}" if lines else ""

    def _line(self) -> str:
        """Empty where the process ended, or is ended because it does not answer."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(self._longest_answer_s, give_up)
        timer.start()
        line = self._process.stdout.readline() if self._process.stdout else ""
        timer.cancel()
        if late.is_set():
            raise ContestantFailed(self.name, f"no answer within {self._longest_answer_s:.0f} s{self._last_words()}")
        return line

    def _read(self) -> dict[str, Any]:
        line = self._line()
        if not line:
            code = self._process.wait()
            if code == EXIT_CANNOT_RUN_HERE:
                raise CannotRunHere(f"{self.name}: cannot run here (exit code {code}){self._last_words()}")
            raise ContestantFailed(self.name, f"ended with exit code {code}{self._last_words()}")
        try:
            return json.loads(line)
        except json.JSONDecodeError as error:
            self._process.kill()
            raise ContestantFailed(self.name, f"{line.strip()!r} (one line of JSON)") from error

    def await_ready(self) -> None:
        self.ready = self._read()
        if self.ready.get("ready") is not True or not self.ready.get("batch"):
            self._process.kill()
            raise ContestantFailed(self.name, f"{self.ready} (ready: true, batch: N)")

    def run(self, steps: int) -> None:
        """One turn."""
        if self._process.stdin is None:
            raise ContestantFailed(self.name, "no standard input")
        try:
            self._process.stdin.write(f"run {steps}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; reading says how
        turn = self._read()
        if len(turn.get("step_s", [])) != steps:
            self._process.kill()
            raise ContestantFailed(self.name, f"{turn} (step_s with {steps} numbers)")
        self.turns.append(turn)


@dataclass(frozen=True)
class Row:
    """One contestant's figures over the rounds after the warm-up."""

    name: str
    images_per_s: float
    images_per_s_ci95: tuple[float, float] | None
    ratio: float
    ratio_ci95: tuple[float, float] | None
    rounds: int


@dataclass(frozen=True)
class Turns:
    """Says how many each contestant gets."""

    rounds: int
    warmup_rounds: int  # left out of the figures
    steps: int  # steps of a turn

    def __post_init__(self) -> None:
        if min(self.rounds, self.steps) < 1 or self.warmup_rounds < 0:
            raise BadInput("--rounds, --steps: (an integer of at least 1)")


_COUNTS = {"threads": "threads of each contestant", "rounds": "turns of each contestant",
           "warmup_rounds": "first rounds that do not count", "steps": "steps of a turn"}


def argument_parser(words: str | None, **counts: int) -> argparse.ArgumentParser:
    """Returns a parser with an option for each of _COUNTS that is given, with this default."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in counts.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default,
                            help=f"{_COUNTS[name]} (default: {default})")
    return parser


def add_table(parser: argparse.ArgumentParser) -> None:
    """Adds the options of whatever measures the program and writes a folder."""
    parser.add_argument("--noisemark", type=Path, required=True, metavar="BIN", help="the program")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the pictures")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder")


def run_rounds(contestants: list[Contestant], turns: Turns) -> list[str]:
    """All turns, forth and back; returns whose they were."""
    order = []
    for index in range(turns.warmup_rounds + turns.rounds):
        for contestant in contestants if index % 2 == 0 else reversed(contestants):
            contestant.run(turns.steps)
            order.append(contestant.name)
        print(f"round {index + 1} of {turns.warmup_rounds + turns.rounds}", file=sys.stderr, flush=True)
    return order


def rates(turns: list[dict[str, Any]], batch: int) -> list[float]:
    """Images per second of each turn, from its median step."""
    return [batch / median(turn["step_s"]) for turn in turns]


def table_rows(
    turns: dict[str, list[dict[str, Any]]], batches: dict[str, int], reference: str
) -> list[Row]:
    """`turns` without the warm-up. A ratio is the median over rounds of the rate's ratio to the
    reference's in the same round; its interval is that of a median."""
    base = rates(turns[reference], batches[reference])
    rows = []
    for name in turns:
        rate = rates(turns[name], batches[name])
        ratio = [ours / theirs for ours, theirs in zip(rate, base)]
        rows.append(Row(name, median(rate), median_interval(rate), median(ratio),
                        median_interval(ratio), len(rate)))
    return rows


def with_interval(value: float, interval: tuple[float, float] | None, digits: int) -> str:
    """«1.234 [1.200, 1.260]»"""
    if interval is None:
        return f"{value:.{digits}f} [too few rounds]"
    return f"{value:.{digits}f} [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def markdown(rows: list[Row], reference: str) -> str:
    """The table that is printed."""
    lines = [
        f"| contestant | images/s [95 %] | ratio to {reference} [95 %] | rounds |",
        "|---|---:|---:|---:|",
    ]
    for row in rows:
        rate = with_interval(row.images_per_s, row.images_per_s_ci95, 2)
        ratio = with_interval(row.ratio, row.ratio_ci95, 3)
        lines.append(f"| {row.name} | {rate} | {ratio} | {row.rounds} |")
    return "\n".join(lines) + "\n"


def words(*parts: object) -> str:
    """A command line of its words."""
    return shlex.join(map(str, parts))


LeftOut = list[CannotRunHere | ContestantFailed]


def _started(
    name: str, command: str, steps: int, running: ExitStack, left_out: LeftOut | None
) -> list[Contestant]:
    """The contestant, ready; none where it may be left out and cannot train. That is found by a turn
    before the rounds, of which there are no figures."""
    with ExitStack() as own:
        contestant = own.enter_context(Contestant(name, command))
        try:
            contestant.await_ready()
            if left_out is not None:
                contestant.run(steps)
                contestant.turns.clear()
        except (CannotRunHere, ContestantFailed) as error:
            if left_out is None:
                raise
            left_out.append(error)
            return []
        running.push(own.pop_all())
    return [contestant]


def measure(
    commands: dict[str, str], turns: Turns, reference: str | None = None, left_out: LeftOut | None = None
) -> dict[str, Any]:
    """Starts the contestants and runs the rounds. Returns everything, raw turns included, as JSON
    values. `commands` are by name; `reference` is one of the names, or the first that runs. With
    `left_out`, which takes why, contestants that cannot train do not end the run; the reference must."""
    with ExitStack() as running:
        contestants: list[Contestant] = []
        for name, command in commands.items():
            contestants += _started(name, command, turns.steps, running, left_out)
        names = [contestant.name for contestant in contestants]
        if not names or (reference is not None and reference not in names):
            raise (left_out or [BadInput("contestants: none (NAME=COMMAND)")])[-1]
        reference = reference or names[0]
        order = run_rounds(contestants, turns)
    record = {
        "steps_per_turn": turns.steps,
        "warmup_rounds": turns.warmup_rounds,
        "order": order,
        "contestants": [
            {"name": c.name, "command": c.command, "ready": c.ready, "turns": c.turns}
            for c in contestants
        ],
    }
    return {**record, "rows": [vars(row) for row in rows_of(record, reference)]}


def rows_of(record: dict[str, Any], reference: str) -> list[Row]:
    """The figures of what measure() returned, with ratios to `reference`."""
    contestants = record["contestants"]
    timed = {c["name"]: c["turns"][record["warmup_rounds"] :] for c in contestants}
    return table_rows(timed, {c["name"]: c["ready"]["batch"] for c in contestants}, reference)


def without_paths(record: dict[str, Any], names: dict[object, str]) -> dict[str, Any]:
    """A record to keep tells what was run, not where this machine has it: `names` are by path."""
    for contestant in record["contestants"]:
        for path, name in names.items():
            contestant["command"] = contestant["command"].replace(str(path), name)
    return record


def _named_commands(words: list[str]) -> dict[str, str]:
    commands: dict[str, str] = {}
    for word in words:
        name, equals, command = word.partition("=")
        if not (name and equals and command) or name in commands:
            raise BadInput(f"contestant: {word!r} (NAME=COMMAND, each name once)")
        commands[name] = command
    return commands


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argument_parser(__doc__, rounds=12, warmup_rounds=2, steps=3)
    parser.add_argument("contestants", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--reference", metavar="NAME", help="the contestant that ratios are to (default: the first)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file of all results, as JSON")
    return parser.parse_args(argv)


def _run(args: argparse.Namespace) -> None:
    turns = Turns(args.rounds, args.warmup_rounds, args.steps)
    commands = _named_commands(args.contestants)
    reference = args.reference or next(iter(commands))
    if reference not in commands:
        raise BadInput(f"--reference: {reference} (one of: {', '.join(commands)})")
    record = measure(commands, turns, reference)
    print(markdown(rows_of(record, reference), reference), end="")
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _run(_arguments(argv)) or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
