"""Peak against time of a step as SVG, by gnuplot, in the style of reports/render/plot.cpp."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from memory_rows import PEER, PLAIN, Entry

_NAME = "pareto"
_MEBI = 1 << 20
_HEAD = f"""# Drawn by: gnuplot -d {_NAME}.gp
set encoding utf8
set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' background '#ffffff' name '{_NAME}'
set output '{_NAME}.svg'
set border 3 linecolor rgb '#444444'
set tics nomirror out textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
set key outside right top Left reverse samplen 2 spacing 1.2
set xlabel 'peak_bytes (MiB)'
set ylabel 'time of a step (none = 1)'
set offsets graph 0.05, graph 0.2, graph 0.1, graph 0.1
"""
_FRONT = "with steps linewidth 1 dashtype 2 linecolor rgb '#888888' title 'Pareto front'"


@dataclass(frozen=True)
class Point:
    """A contestant in the plane. Times are divided by plain `none`'s in the same round."""

    name: str
    peak_mib: float
    time: float
    time_ci95: tuple[float, float]

    def dominates(self, other: "Point") -> bool:
        no_worse = self.peak_mib <= other.peak_mib and self.time <= other.time
        return no_worse and (self.peak_mib, self.time) != (other.peak_mib, other.time)


def points_of(entries: list[Entry]) -> list[Point]:
    """Returns the points of the contestants whose peak is known and who were timed."""
    points = []
    for entry in entries:
        peak_bytes, row = entry.bytes["peak_bytes"].value, entry.pace.get(PLAIN)
        if peak_bytes is not None and row is not None:
            low, high = row.ratio_ci95 or (row.ratio, row.ratio)
            time = (1 / high, 1 / low)
            points.append(Point(entry.name, peak_bytes / _MEBI, 1 / row.ratio, time))
    return points


def pareto_front(points: list[Point]) -> list[Point]:
    """Those that no other beats in both, from the lowest peak on."""
    best = [p for p in points if not any(other.dominates(p) for other in points)]
    return sorted(best, key=lambda point: (point.peak_mib, point.time))


def _rows(points: list[Point]) -> str:
    return "".join(
        f'{p.peak_mib:.4f} {p.time:.6g} {p.time_ci95[0]:.6g} {p.time_ci95[1]:.6g} "{p.name}"\n'
        for p in points
    )


def _curves(index: int, title: str, colour: str, mark: int) -> list[str]:
    data = f"'{_NAME}.dat' index {index}"
    return [
        f"{data} using 1:2:3:4 with yerrorbars linewidth 1.5 pointtype {mark} pointsize 0.8 "
        f"linecolor rgb '{colour}' title '{title}'",
        f"{data} using 1:2:5 with labels left offset char 0.8,0.5 font ',11' notitle",
    ]


def sources(points: list[Point]) -> tuple[str, str]:
    """Data and script. A pure function."""
    ours = [point for point in points if not point.name.startswith(PEER)]
    theirs = [point for point in points if point.name.startswith(PEER)]
    data = "# peak_MiB time time_low time_high contestant\n"
    blocks = [f"# Pareto front\n{_rows(pareto_front(points))}"]
    curves = [f"'{_NAME}.dat' index 0 using 1:2 {_FRONT}"]
    for title, chosen, colour, mark in (("Noisemark", ours, "#0072B2", 7),
                                        ("peers", theirs, "#E69F00", 5)):
        if chosen:
            curves += _curves(len(blocks), title, colour, mark)
            blocks.append(f"# {title}\n{_rows(chosen)}")
    return data + "\n\n".join(blocks), _HEAD + "plot " + ", \\\n     ".join(curves) + "\n"


def draw(points: list[Point], folder: Path) -> str:
    """Writes data, script and picture to `folder`/plots. Returns why there is no picture, or ""."""
    place = folder / "plots"
    place.mkdir(exist_ok=True)
    data, script = sources(points)
    (place / f"{_NAME}.dat").write_text(data)
    (place / f"{_NAME}.gp").write_text(script)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(["gnuplot", "-d", f"{_NAME}.gp"], cwd=place, env=environment,
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "gnuplot is not installed"
    return "" if done.returncode == 0 else f"gnuplot failed: {done.stderr.strip()}"
