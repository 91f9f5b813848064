"""The memory table and its plot, from made-up bytes and turns: real formulas, known figures."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import tiny
from definition import BadInput
from memory_plot import Point, draw, pareto_front, points_of, sources
from memory_rows import Entry, Measured, against_checkpoint, entries_of, measured_in, table
from memory_table import budget_mode
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


def mib(value: float | None, why: str) -> Figure:
    return Figure(None, why) if value is None else Figure(int(value * MIB), "")


def measured(peak: float | None, saved: float, peak_saved: float | None = None,
             certificate: str = "") -> Measured:
    return Measured({"peak_bytes": mib(peak, "it was not there"), "saved_bytes": mib(saved, ""),
                     "peak_saved_bytes": mib(peak_saved, "nobody knows")}, certificate)


MEASURED = {"none": measured(100, 60, 60), "echo": measured(60, 20, 24, "pass"),
            "peer-eager": measured(104, 62), "peer-checkpoint": measured(80, 15)}
STEP_S = {"none": 0.5, "echo": 0.5, "peer-eager": 0.4, "peer-checkpoint": 1.0}


def entries() -> list[Entry]:
    return entries_of(MEASURED, record(STEP_S))


class RowsTest(unittest.TestCase):
    def test_factors_are_to_none_and_ratios_to_every_reference_there_is(self) -> None:
        lines = table(entries()).splitlines()
        self.assertEqual(
            lines[0],
            "| contestant | peak_bytes (MiB) | factor | saved_bytes (MiB) | factor | "
            "peak_saved_bytes (MiB) | factor | certificate | images/s | "
            "ratio to none [95 %] | ratio to peer-eager [95 %] | ratio to peer-checkpoint [95 %] |")
        self.assertEqual(
            lines[3],
            "| echo | 60.0 | 1.67 | 20.0 | 3.00 | 24.0 | 2.50 | pass | 6.00 | 1.000 [1.000, 1.000] | "
            "0.800 [0.800, 0.800] | 2.000 [2.000, 2.000] |")
        self.assertEqual(lines[2 + len(STEP_S)], "")

    def test_a_footnote_says_what_the_saved_bytes_of_peers_contain(self) -> None:
        self.assertIn("casts of weights", table(entries()))
        self.assertNotIn("casts of weights", table(entries()[:2]))

    def test_a_figure_that_is_missing_is_named_with_its_reason_and_not_drawn(self) -> None:
        some = entries_of({**MEASURED, "peer-eager": measured(None, 62)}, record(STEP_S))
        self.assertIn("| peer-eager | none |  | 62.0 | 0.97 |", table(some))
        self.assertIn("- No peak_bytes of peer-eager: it was not there.", table(some))
        self.assertIn("- No peak_saved_bytes of peer-eager, peer-checkpoint: nobody knows.", table(some))
        self.assertEqual([p.name for p in points_of(some)], ["none", "echo", "peer-checkpoint"])

    def test_only_modes_with_a_peak_no_higher_stand_against_checkpoint(self) -> None:
        text = against_checkpoint(entries())
        self.assertIn("- echo: 2.000 [2.000, 2.000] times as fast.", text)
        self.assertNotIn("- none:", text)
        self.assertNotIn("- peer-", text)
        low = entries_of({**MEASURED, "peer-checkpoint": measured(10, 9)}, record(STEP_S))
        self.assertIn("No mode has a peak as low.", against_checkpoint(low))
        del low[-1]
        self.assertEqual(against_checkpoint(low), "")

    def test_bytes_come_from_the_metrics_of_any_result(self) -> None:
        metrics = [{"name": "peak_bytes", "value": 5.0, "missing_reason": "", "method": "m"},
                   {"name": "saved_bytes", "value": None, "missing_reason": "r", "method": ""},
                   {"name": "peak_saved_bytes", "value": 4.0, "missing_reason": "", "method": "m"}]
        self.assertEqual(measured_in({"metrics": metrics}),
                         Measured({"peak_bytes": Figure(5, "m"), "saved_bytes": Figure(None, "r"),
                                   "peak_saved_bytes": Figure(4, "m")}))

    def test_a_certificate_is_told_from_the_error_of_a_lossy_mode(self) -> None:
        def certificate(**mode: Any) -> str:
            metrics = [{"name": name, "value": 5.0, "missing_reason": "", "method": ""}
                       for name in ("peak_bytes", "saved_bytes", "peak_saved_bytes")]
            return measured_in({"metrics": metrics, "memory_mode": mode}).certificate

        self.assertEqual(certificate(measured=False), "")
        for verdict, words in (("pass", "pass"), ("fail", "fail"), ("not_applied", "not applied")):
            self.assertEqual(certificate(measured=True, lossless=True, certificate={"verdict": verdict},
                                         gradient_error={"error_frac": 0.0}), words)
        self.assertEqual(certificate(measured=True, lossless=False, certificate={"verdict": "not_applied"},
                                     gradient_error={"error_frac": 0.01234}),
                         "lossy: gradient error 0.012")


class BudgetTest(unittest.TestCase):
    def test_a_budget_is_a_share_of_a_peak_in_whole_mebibytes(self) -> None:
        self.assertEqual(budget_mode("0.75", 100 * MIB), "budget:75MiB")
        self.assertEqual(budget_mode("0.5,error=0.02", 3 * MIB), "budget:2MiB,error=0.02")

    def test_another_share_is_refused(self) -> None:
        for budget in ("0", "1.1", "-0.5", "half", "", "nan"):
            with self.assertRaisesRegex(BadInput, "a share of the peak", msg=budget):
                budget_mode(budget, MIB)


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
