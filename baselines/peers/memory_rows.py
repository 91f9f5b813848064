"""The table of memory against time: what is read, what is derived, and the Markdown of it."""

from dataclasses import dataclass
from typing import Any

from pace import Row, rows_of, with_interval
from peer_result import Figure

PLAIN = "none"
FUSED = "none@fused"
EAGER = "peer-eager"
# The second spends no more on its optimizer than Noisemark does.
CHECKPOINTS = ("peer-checkpoint", "peer-checkpoint-fused-adam")
PEER = "peer-"

_FIGURES = ("peak_bytes", "saved_bytes", "peak_saved_bytes")
_MEBI = 1 << 20
_UNLIKE = (
    "The `saved_bytes` of a peer are not quite those of Noisemark: they contain the noise that was drawn and, in "
    "bf16, casts of weights, which Noisemark counts as `input` and `autocast_cache`."
)


@dataclass(frozen=True)
class Measured:
    """Holds what a contestant's result.json says: bytes of a steady step by the metric's name, and whether
    it trains like `none`, in a few words ("": nobody asked)."""

    bytes: dict[str, Figure]
    certificate: str = ""


@dataclass(frozen=True)
class Entry:
    """One contestant: what was measured, and speed by the name of what it is divided by, empty where it
    was not timed."""

    name: str
    measured: Measured
    pace: dict[str, Row]

    @property
    def bytes(self) -> dict[str, Figure]:
        return self.measured.bytes


def measured_in(result: dict[str, Any]) -> Measured:
    """Reads the figures of a result.json, Noisemark's or a peer's."""
    metrics = {metric["name"]: metric for metric in result["metrics"]}
    figures = {name: _figure_of(metrics[name]) for name in _FIGURES}
    return Measured(figures, _certificate_of(result.get("memory_mode", {})))


def _certificate_of(mode: dict[str, Any]) -> str:
    if not mode.get("measured"):
        return ""
    error = mode["gradient_error"]["error_frac"]
    if not mode["lossless"] and error is not None:
        return f"lossy: gradient error {error:.2g}"
    return mode["certificate"]["verdict"].replace("_", " ")


def _figure_of(metric: dict[str, Any]) -> Figure:
    if metric["value"] is None:
        return Figure(None, metric["missing_reason"])
    return Figure(int(metric["value"]), metric["method"])


def entries_of(measured: dict[str, Measured], record: dict[str, Any]) -> list[Entry]:
    """Returns entries of all that were measured, in their order; those of the interleaved run with their speed."""
    timed = [contestant["name"] for contestant in record["contestants"]]
    references = [name for name in (PLAIN, FUSED, EAGER, *CHECKPOINTS) if name in timed]
    pace = {reference: dict(zip(timed, rows_of(record, reference))) for reference in references}
    return [
        Entry(name, figures,
              {reference: rows[name] for reference, rows in pace.items() if name in rows})
        for name, figures in measured.items()
    ]


def _bytes_cells(figure: Figure, plain: Figure) -> list[str]:
    if figure.value is None:
        return ["none", ""]
    factor = f"{plain.value / figure.value:.2f}" if plain.value and figure.value else ""
    return [f"{figure.value / _MEBI:.1f}", factor]


def _memory_cells(entry: Entry, plain: Entry) -> list[str]:
    cells = [entry.name, entry.measured.certificate]
    for name in _FIGURES:
        cells += _bytes_cells(entry.bytes[name], plain.bytes[name])
    return cells


def _time_cells(entry: Entry, plain: Entry) -> list[str]:
    if not entry.pace:
        return [entry.name, "not timed", *("" for _ in plain.pace)]
    cells = [entry.name, f"{entry.pace[PLAIN].images_per_s:.2f}"]
    return cells + [with_interval(row.ratio, row.ratio_ci95, 3) for row in entry.pace.values()]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _missing(entries: list[Entry]) -> list[str]:
    """A line for each figure and reason, with all who have it."""
    who: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for name, figure in entry.bytes.items():
            if figure.value is None:
                who.setdefault((name, figure.words), []).append(entry.name)
    return [f"- No {name} of {', '.join(names)}: {words}." for (name, words), names in who.items()]


def _rows(columns: list[str], rows: list[list[str]]) -> list[str]:
    return [_line(columns), "|---|" + "---:|" * (len(columns) - 1), *map(_line, rows)]


def table(entries: list[Entry]) -> str:
    """Markdown: one table of bytes and one of time, which together are too wide for a page; a row for each
    contestant, the first of which is plain `none`."""
    plain = entries[0]
    memory = ["contestant", "certificate"]
    for name in _FIGURES:
        memory += [f"{name} (MiB)", "factor"]
    time = ["contestant", "images/s", *(f"ratio to {reference} [95 %]" for reference in plain.pace)]
    lines = [*_rows(memory, [_memory_cells(entry, plain) for entry in entries]), "",
             *_rows(time, [_time_cells(entry, plain) for entry in entries])]
    if missing := _missing(entries):
        lines += ["", *missing]
    if any(entry.name.startswith(PEER) for entry in entries):
        lines += ["", _UNLIKE]
    return "\n".join(lines) + "\n"


def is_no_higher(entry: Entry, bound: Figure) -> bool:
    """Returns whether its peak is known, and at most `bound`."""
    peak = entry.bytes["peak_bytes"].value
    return peak is not None and bound.value is not None and peak <= bound.value


def against_checkpoints(entries: list[Entry]) -> str:
    """Returns what of Noisemark has a peak no higher than torch.utils.checkpoint, and how fast it is."""
    known = {entry.name: entry for entry in entries}
    return "\n".join(_against(known[name], entries) for name in CHECKPOINTS if name in known)


def _against(checkpoint: Entry, entries: list[Entry]) -> str:
    bound = checkpoint.bytes["peak_bytes"]
    ours = [e for e in entries if not e.name.startswith(PEER) and is_no_higher(e, bound)]
    lines = [f"## Against {checkpoint.name}, at a peak no higher", ""]
    for entry in ours:
        row = entry.pace.get(checkpoint.name)
        speed = f"{with_interval(row.ratio, row.ratio_ci95, 3)} times as fast" if row else "not timed"
        lines.append(f"- {entry.name}: {speed}.")
    if not ours:
        lines.append("No mode has a peak as low.")
    return "\n".join(lines) + "\n"
