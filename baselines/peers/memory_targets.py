"""Lists what the memory modes must reach: what is asked and aimed for, beside what a table measured.

Bytes are exact: a factor is reached or missed. Times are not: a target is reached where the whole 95 %
interval does and missed where the whole interval misses it, and else not proven. A mode that is to be
faster is also missed where its median is not: nothing then speaks for it.
"""

from dataclasses import dataclass

from devices import CPU, GPU
from memory_rows import CHECKPOINTS, FUSED, PEER, PLAIN, Entry, is_no_higher
from pace import Row

REACHED = "reached"
NOT_PROVEN = "not proven"
MISSED = "missed"
NOT_MEASURED = "not measured"
_RED = (MISSED, NOT_MEASURED)

ECHO = "echo"
MOST_OVERHEAD = 0.03  # part of a step of `echo`, in steps of plain `none`
_PASS = "pass"


def percent(overhead: float) -> str:
    """With its sign: «+1.0 %»."""
    return f"{100 * overhead:+.1f} %"


@dataclass(frozen=True)
class _Factor:
    """Holds how many times fewer bytes than plain `none` a mode must hold."""

    benchmark: str
    mode: str
    figure: str
    asked: float
    aim: float | None
    precisions: tuple[str, ...] = ("fp32",)
    scale: str = CPU

    @property
    def row(self) -> tuple[str, str]:
        """Returns what the target's row says first: of what, and how much is asked."""
        return f"{self.mode}: {self.figure}, times fewer", f"{self.asked:.2f}"

    def is_of(self, benchmark: str, precision: str, scale: str) -> bool:
        name = benchmark.partition("@")[0]
        return self.benchmark == name and precision in self.precisions and self.scale == scale


@dataclass(frozen=True)
class _Overhead:
    """Holds how much longer than under `to` a step may take under `mode`, as a fraction of it."""

    mode: str
    to: str
    most: float
    aim: str = ""

    @property
    def row(self) -> tuple[str, str]:
        """As of a factor."""
        return f"{self.mode}: overhead to {self.to}", f"at most {percent(self.most)}"


_FACTORS = (
    _Factor("ho-cifar10", ECHO, "saved_bytes", 2.9, 3.1, ("fp32", "bf16")),
    _Factor("ho-cifar10", "echo+attn", "saved_bytes", 4.2, 4.4),
    _Factor("ho-cifar10", "mirror+echo", "peak_saved_bytes", 4.0, 4.8),
    _Factor("ho-cifar10", "echo+dpr8", "saved_bytes", 10.0, 12.0),
    _Factor("ho-relu-cifar10", "gist", "saved_bytes", 1.23, 1.30),
    _Factor("lucid-cifar10", ECHO, "saved_bytes", 2.0, None),
    _Factor("ho-cifar10", ECHO, "saved_bytes", 2.7, None, ("fp32",), GPU),
    _Factor("ho-cifar10", ECHO, "saved_bytes", 4.3, None, ("bf16",), GPU),
    _Factor("ho-cifar10", "echo+attn", "saved_bytes", 6.0, None, ("bf16",), GPU),
    _Factor("ho-cifar10", "mirror+echo", "peak_saved_bytes", 4.8, None, ("fp32", "bf16"), GPU),
    _Factor("ho-cifar10", "echo+dpr8", "saved_bytes", 8.0, None, ("fp32", "bf16"), GPU),
)

_OVERHEADS = {
    CPU: (_Overhead(ECHO, PLAIN, MOST_OVERHEAD, "at most 0 %"),),
    GPU: (_Overhead(f"{ECHO}@fused", PLAIN, 0.0), _Overhead(f"{ECHO}@fused", FUSED, MOST_OVERHEAD)),
}


@dataclass(frozen=True)
class Target:
    """One row: all in words, `verdict` one of those above."""

    what: str
    asked: str
    aim: str
    reached: str
    verdict: str


def _factor(target: _Factor, entries: dict[str, Entry]) -> Target:
    aim = f"{target.aim:.2f}" if target.aim else ""
    ours = entries[target.mode].bytes[target.figure].value if target.mode in entries else None
    plain = entries[PLAIN].bytes[target.figure].value
    if not ours or not plain:
        return Target(*target.row, aim, "", NOT_MEASURED)
    verdict = REACHED if plain / ours >= target.asked else MISSED
    return Target(*target.row, aim, f"{plain / ours:.2f}", verdict)


def byte_targets(benchmark: str, precision: str, entries: list[Entry], scale: str = CPU) -> list[Target]:
    """Returns the targets of a benchmark at a scale, in its definition's batch; empty where nothing is asked of it."""
    known = {entry.name: entry for entry in entries}
    return [_factor(target, known) for target in _FACTORS if target.is_of(benchmark, precision, scale)]


def asked_of(benchmark: str, precision: str, scale: str, timed: bool) -> list[tuple[str, str]]:
    """The first two cells of each target's row in a table of the benchmark; of times only where `timed`."""
    factors = [target.row for target in _FACTORS if target.is_of(benchmark, precision, scale)]
    return factors + [target.row for target in _OVERHEADS[scale] if timed]


def judged_overhead(row: Row, most: float) -> tuple[str, str]:
    """Returns how much longer a step takes than the one `row` is beside, near end of the interval first, and whether
    that is `most` of it at the most."""
    measured = percent(1 / row.ratio - 1)
    if row.ratio_ci95 is None:
        return f"{measured} [too few rounds]", NOT_PROVEN
    near, far = (1 / ratio - 1 for ratio in reversed(row.ratio_ci95))
    verdict = REACHED if far <= most else NOT_PROVEN if near <= most else MISSED
    return f"{measured} [{percent(near)}, {percent(far)}]", verdict


def overhead_target(entries: list[Entry], target: _Overhead = _OVERHEADS[CPU][0]) -> Target:
    """Judges the time of a step of a mode beside another; without `target` of `echo` beside plain `none`."""
    row = next((entry.pace.get(target.to) for entry in entries if entry.name == target.mode), None)
    if row is None:
        return Target(*target.row, target.aim, "", NOT_MEASURED)
    return Target(*target.row, target.aim, *judged_overhead(row, target.most))


def _speed_verdict(row: Row) -> str:
    if row.ratio <= 1:
        return MISSED
    return REACHED if row.ratio_ci95 is not None and row.ratio_ci95[0] > 1 else NOT_PROVEN


def checkpoint_target(entries: list[Entry], checkpoint: str) -> Target:
    """Judges the time of a step beside the peer's checkpointing. Of the timed modes whose certificate passes
    and whose peak is no higher, the one with the highest is judged: bytes are exact, so no time is picked."""
    what, asked, aim = f"a lossless mode at the peak of {checkpoint}", "faster", "by 15 %"
    known = {entry.name: entry for entry in entries}
    if checkpoint not in known or known[checkpoint].bytes["peak_bytes"].value is None:
        return Target(what, asked, aim, "", NOT_MEASURED)
    bound = known[checkpoint].bytes["peak_bytes"]
    able = [entry for entry in entries if not entry.name.startswith(PEER) and checkpoint in entry.pace
            and entry.measured.certificate == _PASS and is_no_higher(entry, bound)]
    if not able:
        return Target(what, asked, aim, "none has a peak as low", MISSED)
    judged = max(able, key=lambda entry: entry.bytes["peak_bytes"].value)
    row = judged.pace[checkpoint]
    interval = row.ratio_ci95
    ends = "too few rounds" if interval is None else " ".join(percent(end - 1) for end in interval)
    return Target(what, asked, aim, f"{judged.name}: {percent(row.ratio - 1)} [{ends}]",
                  _speed_verdict(row))


def time_targets(entries: list[Entry], scale: str = CPU) -> list[Target]:
    """All that are about time. Beside the peer's checkpointing a CPU alone is judged; only torch's own, with
    torch's own Adam, has to be there."""
    overheads = [overhead_target(entries, target) for target in _OVERHEADS[scale]]
    if scale == GPU:
        return overheads
    plain, *others = CHECKPOINTS
    measured = {entry.name for entry in entries}
    judged = [plain, *(name for name in others if name in measured)]
    return [*overheads, *(checkpoint_target(entries, name) for name in judged)]


def targets_table(targets: list[Target]) -> str:
    """Markdown, with what the verdicts mean."""
    lines = ["## Targets", "", "| target | asked | aim | reached | verdict |", "|---|---:|---:|---:|---|"]
    lines += [f"| {t.what} | {t.asked} | {t.aim} | {t.reached} | {t.verdict} |" for t in targets]
    lines += ["", f"A time is `{MISSED}` where its whole 95 % interval misses what is asked, `{REACHED}` where "
                  f"the whole interval does reach it, and else `{NOT_PROVEN}`; what is to be faster is also "
                  f"`{MISSED}` where its median is not."]
    return "\n".join(lines) + "\n"


def missed(targets: list[Target]) -> list[str]:
    """Returns what makes a check red, a line each."""
    return [f"{t.what}: {t.verdict}{f', {t.reached}' if t.reached else ''} (asked: {t.asked})"
            for t in targets if t.verdict in _RED]
