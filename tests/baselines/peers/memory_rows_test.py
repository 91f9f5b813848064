"""The memory table and its plot, from made-up bytes and turns: real formulas, known figures."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import tiny
from memory_plot import Point, draw, pareto_front, points_of, sources
from memory_rows import Entry, against_checkpoint, entries_of, figures_of, table
from peer_result import Figure

MIB = 1 << 20
ROUNDS = 6  # the fewest with a 95 % interval of the median


def record(step_s: dict[str, float]) -> dict[str, Any]:
    """Turns of which the first is a warm-up; the machine is twice as slow in every other round."""
    contestants = [
        {"name": name, "ready": {"batch": 4},
         "turns": [{"step_s": [9.0]}] + [{"step_s": [(1 + i % 2) * s]} for i in range(ROUNDS)]}
        for name, s in step_s.items()
    ]
    return {"warmup_rounds": 1, "contestants": contestants}


def figures(peak_mib: float | None, saved_mib: float) -> dict[str, Figure]:
    peak = Figure(None, "it was not there") if peak_mib is None else Figure(int(peak_mib * MIB), "")
    return {"peak_bytes": peak, "saved_bytes": Figure(int(saved_mib * MIB), "")}


BYTES = {"none": figures(100, 60), "echo": figures(60, 20), "peer-eager": figures(104, 62),
         "peer-checkpoint": figures(80, 15)}
STEP_S = {"none": 0.5, "echo": 0.5, "peer-eager": 0.4, "peer-checkpoint": 1.0}


def entries() -> list[Entry]:
    return entries_of(BYTES, record(STEP_S))


class RowsTest(unittest.TestCase):
    def test_factors_are_to_none_and_ratios_to_every_reference_there_is(self) -> None:
        lines = table(entries()).splitlines()
        self.assertEqual(
            lines[0],
            "| contestant | peak_bytes (MiB) | factor | saved_bytes (MiB) | factor | images/s | "
            "ratio to none [95 %] | ratio to peer-eager [95 %] | ratio to peer-checkpoint [95 %] |")
        self.assertEqual(
            lines[3],
            "| echo | 60.0 | 1.67 | 20.0 | 3.00 | 6.00 | 1.000 [1.000, 1.000] | "
            "0.800 [0.800, 0.800] | 2.000 [2.000, 2.000] |")
        self.assertEqual(len(lines), 2 + len(STEP_S))

    def test_a_figure_that_is_missing_is_named_with_its_reason_and_not_drawn(self) -> None:
        bytes_of = {**BYTES, "peer-eager": figures(None, 62)}
        some = entries_of(bytes_of, record(STEP_S))
        self.assertIn("| peer-eager | none |  | 62.0 | 0.97 |", table(some))
        self.assertIn("- peer-eager: no peak_bytes: it was not there.", table(some))
        self.assertEqual([p.name for p in points_of(some)], ["none", "echo", "peer-checkpoint"])

    def test_only_modes_with_a_peak_no_higher_stand_against_checkpoint(self) -> None:
        text = against_checkpoint(entries())
        self.assertIn("- echo: 2.000 [2.000, 2.000] times as fast.", text)
        self.assertNotIn("- none:", text)
        self.assertNotIn("- peer-", text)
        low = entries_of({**BYTES, "peer-checkpoint": figures(10, 9)}, record(STEP_S))
        self.assertIn("No mode has a peak as low.", against_checkpoint(low))
        del low[-1]
        self.assertEqual(against_checkpoint(low), "")

    def test_bytes_come_from_the_metrics_of_any_result(self) -> None:
        metrics = [{"name": "peak_bytes", "value": 5.0, "missing_reason": "", "method": "m"},
                   {"name": "saved_bytes", "value": None, "missing_reason": "r", "method": ""}]
        self.assertEqual(figures_of({"metrics": metrics}),
                         {"peak_bytes": Figure(5, "m"), "saved_bytes": Figure(None, "r")})


class PlotTest(unittest.TestCase):
    def test_the_front_is_what_nothing_else_beats_in_both(self) -> None:
        def point(name: str, peak_mib: float, time: float) -> Point:
            return Point(name, peak_mib, time, (time, time))

        points = [point("slow", 3, 2), point("a", 1, 3), point("b", 3, 1), point("twin", 3, 1),
                  point("c", 2, 2), point("high", 4, 1)]
        self.assertEqual([p.name for p in pareto_front(points)], ["a", "c", "b", "twin"])

    def test_points_have_the_time_of_a_step_in_those_of_none(self) -> None:
        data, script = sources(points_of(entries()))
        self.assertIn('60.0000 1 1 1 "echo"', data)
        self.assertIn('80.0000 2 2 2 "peer-checkpoint"', data)
        front = data.split("\n\n\n")[0].splitlines()[2:]
        self.assertEqual([row.split()[-1] for row in front], ['"echo"', '"peer-eager"'])
        self.assertIn("index 2", script)

    def test_without_peers_only_noisemark_is_drawn(self) -> None:
        data, script = sources(points_of(entries())[:2])
        self.assertNotIn("peers", data + script)

    def test_gnuplot_takes_the_script(self) -> None:
        if shutil.which("gnuplot") is None:
            self.skipTest("gnuplot is not installed")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(draw(points_of(entries()), Path(folder)), "")
            picture = (Path(folder) / "plots" / "pareto.svg").read_text()
        self.assertIn("peer-checkpoint", picture)

    def test_without_gnuplot_the_reason_is_said(self) -> None:
        code = ("import sys, pathlib; sys.path.insert(0, sys.argv[1]); import memory_plot; "
                "print(memory_plot.draw([], pathlib.Path(sys.argv[2])))")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", "-c", code, str(tiny.PEERS), folder],
                                  env={"PATH": folder}, text=True, capture_output=True)
        self.assertEqual(done.stdout.strip(), "gnuplot is not installed", done.stderr)


if __name__ == "__main__":
    unittest.main()
