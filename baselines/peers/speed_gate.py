"""Judges whether Noisemark is as many times as fast as a peer as is asked, from the turns of one run (pace.py).

A gate asks of the median over rounds of the ratio within a round. Its 95 % interval is printed beside it,
so that a median that is above by luck can be seen to be.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pace
from endings import EXIT_FAILED, BadInput


@dataclass(frozen=True)
class Gate:
    """`ours` must make at least `least` times as many a second as `peer`. Both are contestants' names."""

    ours: str
    peer: str
    least: float


@dataclass(frozen=True)
class Verdict:
    """One sentence, with what was found and what was asked."""

    words: str
    passed: bool


def _verdict(record: dict[str, Any], gate: Gate) -> Verdict:
    measured = {contestant["name"] for contestant in record["contestants"]}
    for name in (gate.ours, gate.peer):
        if name not in measured:
            return Verdict(f"{gate.ours} beside {gate.peer}: {name} was not measured "
                           f"(at least {gate.least:g} times as fast)", False)
    row = next(row for row in pace.rows_of(record, gate.peer) if row.name == gate.ours)
    ratio = pace.with_interval(row.ratio, row.ratio_ci95, 2)
    return Verdict(f"{gate.ours} is {ratio} times as fast as {gate.peer} (at least {gate.least:g})",
                   row.ratio >= gate.least)


def judge(record: dict[str, Any], gates: Iterable[Gate]) -> list[Verdict]:
    """In the order of the gates. A contestant that took no turns fails its gates."""
    return [_verdict(record, gate) for gate in gates]


def _timed(record: dict[str, Any], contestant: dict[str, Any]) -> list[list[float]]:
    return [turn["step_s"] for turn in contestant["turns"][record["warmup_rounds"]:]]


def read_record(path: Path) -> dict[str, Any]:
    """Returns what pace.measure() returned, from a file. Raises BadInput where it is none, or cannot be judged."""
    try:
        record = json.loads(path.read_text())
        turns = {c["name"]: _timed(record, c) for c in record["contestants"]}
        known = all(c["ready"]["batch"] >= 1 for c in record["contestants"])
        above = all(steps and all(s > 0 for s in steps) for timed in turns.values() for steps in timed)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error} (a file of turns)") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: {error!r} (turns in JSON, as an earlier run wrote them)") from error
    rounds = {len(timed) for timed in turns.values()}
    if not (known and above and len(rounds) == 1 and min(rounds) >= 1):
        raise BadInput(f"{path}: turns of {sorted(turns)} (as many of each after the warm-up, at least one, "
                       "every step_s above 0)")
    return record


def outcome(verdicts: list[Verdict], gate: bool) -> int:
    """Prints the verdicts and returns the exit code: that of a failure only where --gate was given."""
    for verdict in verdicts:
        print(f"{'pass' if verdict.passed else 'FAIL'}: {verdict.words}")
    failed = not all(verdict.passed for verdict in verdicts)
    return EXIT_FAILED if gate and failed else 0
