"""The memory table and its plot, from made-up bytes and turns: real formulas, known figures."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tiny
from endings import BadInput
from memory_plot import Point, draw, pareto_front, points_of, sources
from memory_rows import Entry, Measured, against_checkpoints, entries_of, measured_in, table
from memory_table import Commands, budget_mode
from memory_targets import (
    MISSED,
    NOT_MEASURED,
    NOT_PROVEN,
    REACHED,
    Target,
    byte_targets,
    checkpoint_target,
    missed,
    overhead_target,
    targets_table,
    time_targets,
)
from pages import finished
from peer_result import Figure

MIB = 1 << 20
CHECKPOINT = "peer-checkpoint"
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


class PagesTest(unittest.TestCase):
    def test_no_number_is_broken_from_its_unit_and_code_stays(self) -> None:
        for words in ("12.5_MiB", "[0.1, 0.2]_%, 95_%", "**1,024_images/s**", "3_min", "5 seeds", "in 2026 steps",
                      "| 3 | s |", "`--budget 12.5 MiB` of 2_GiB", "```\nsleep 5 s\n```\n5_s\n", "2_GFLOP/s", "12 of"):
            page = words.replace("_", "\u00a0")
            self.assertEqual(finished(words.replace("_", " ")), page)
            self.assertEqual(finished(page), page)

    def test_no_recorded_page_breaks_a_number_from_its_unit(self) -> None:
        results = Path(__file__).parents[3] / "baselines" / "results"
        pages = [page for page in results.rglob("*.md") if page.name != "README.md"]
        self.assertGreater(len(pages), 10)
        for page in pages:
            self.assertEqual(finished(page.read_text()), page.read_text(), str(page))


class RowsTest(unittest.TestCase):
    def test_factors_are_to_none_and_ratios_to_every_reference_there_is(self) -> None:
        lines = table(entries()).splitlines()
        self.assertEqual(
            lines[0],
            "| contestant | certificate | peak_bytes (MiB) | factor | saved_bytes (MiB) | factor | "
            "peak_saved_bytes (MiB) | factor |")
        self.assertEqual(lines[3], "| echo | pass | 60.0 | 1.67 | 20.0 | 3.00 | 24.0 | 2.50 |")
        self.assertEqual(lines[2 + len(STEP_S)], "")
        times = lines[3 + len(STEP_S):]
        self.assertEqual(
            times[0],
            "| contestant | images/s | ratio to none [95 %] | ratio to peer-eager [95 %] | "
            "ratio to peer-checkpoint [95 %] |")
        self.assertEqual(
            times[3], "| echo | 6.00 | 1.000 [1.000, 1.000] | 0.800 [0.800, 0.800] | 2.000 [2.000, 2.000] |")
        self.assertEqual(times[2 + len(STEP_S)], "")

    def test_a_footnote_says_what_the_saved_bytes_of_peers_contain(self) -> None:
        self.assertIn("casts of weights", table(entries()))
        self.assertNotIn("casts of weights", table(entries()[:2]))

    def test_a_figure_that_is_missing_is_named_with_its_reason_and_not_drawn(self) -> None:
        some = entries_of({**MEASURED, "peer-eager": measured(None, 62)}, record(STEP_S))
        self.assertIn("| peer-eager |  | none |  | 62.0 | 0.97 |", table(some))
        self.assertIn("- No peak_bytes of peer-eager: it was not there.", table(some))
        self.assertIn("- No peak_saved_bytes of peer-eager, peer-checkpoint: nobody knows.", table(some))
        self.assertEqual([p.name for p in points_of(some)], ["none", "echo", "peer-checkpoint"])

    def test_only_modes_with_a_peak_no_higher_stand_against_checkpoints(self) -> None:
        text = against_checkpoints(entries())
        self.assertIn("- echo: 2.000 [2.000, 2.000] times as fast.", text)
        self.assertNotIn("- none:", text)
        self.assertNotIn("- peer-", text)
        low = entries_of({**MEASURED, "peer-checkpoint": measured(10, 9)}, record(STEP_S))
        self.assertIn("No mode has a peak as low.", against_checkpoints(low))
        del low[-1]
        self.assertEqual(against_checkpoints(low), "")

    def test_who_was_not_timed_has_bytes_alone_and_is_not_judged(self) -> None:
        step_s = {name: s for name, s in STEP_S.items() if name != "echo"}
        some = entries_of(MEASURED, record(step_s))
        self.assertIn("| echo | pass | 60.0 | 1.67 | 20.0 | 3.00 | 24.0 | 2.50 |", table(some))
        self.assertIn("| echo | not timed |  |  |  |", table(some))
        self.assertIn("- echo: not timed.", against_checkpoints(some))
        self.assertNotIn("echo", [point.name for point in points_of(some)])
        self.assertEqual(overhead_target(some).verdict, NOT_MEASURED)
        self.assertEqual(checkpoint_target(some, CHECKPOINT).verdict, MISSED)

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


def timed(step_s: dict[str, list[float]], peaks: dict[str, float]) -> list[Entry]:
    """Contestants whose rounds took so long, with these peaks."""
    contestants = [{"name": name, "ready": {"batch": 4}, "turns": [{"step_s": [s]} for s in rounds]}
                   for name, rounds in step_s.items()]
    bytes_of = {name: measured(peaks[name], 20, 24, "" if name == "none" else "pass") for name in step_s}
    return entries_of(bytes_of, {"warmup_rounds": 0, "contestants": contestants})


NONE_S = [1.0] * ROUNDS


class TimeTargetsTest(unittest.TestCase):
    def overhead(self, step_s: list[float]) -> Target:
        return overhead_target(timed({"none": NONE_S[:len(step_s)], "echo": step_s}, {"none": 100, "echo": 60}))

    def test_an_overhead_is_missed_only_where_its_whole_interval_is_above_what_is_asked(self) -> None:
        self.assertEqual(self.overhead([1.029] * ROUNDS).verdict, REACHED)
        self.assertEqual(self.overhead([1.02, 1.04] * (ROUNDS // 2)).verdict, NOT_PROVEN)
        self.assertEqual(self.overhead([1.031, 1.5] * (ROUNDS // 2)).verdict, MISSED)
        self.assertEqual(self.overhead([1.04] * (ROUNDS - 1)).verdict, NOT_PROVEN, "too few for an interval")

    def test_an_overhead_is_told_with_the_near_end_first(self) -> None:
        row = self.overhead([1.02, 1.04] * (ROUNDS // 2))
        self.assertIn("[+2.0 %, +4.0 %]", row.reached)
        self.assertEqual(row.asked, "at most +3.0 %")

    def test_without_echo_or_checkpoint_a_check_is_red(self) -> None:
        alone = timed({"none": NONE_S}, {"none": 100})
        rows = [overhead_target(alone), checkpoint_target(alone, CHECKPOINT)]
        self.assertEqual([row.verdict for row in rows], [NOT_MEASURED] * 2)
        self.assertEqual(len(missed(rows)), 2)

    def against(self, echo_s: list[float], mirror_s: list[float], mirror_peak: float = 50,
                echo_peak: float = 60) -> Target:
        return checkpoint_target(timed(
            {"none": NONE_S, "echo": echo_s, "mirror": mirror_s, "peer-checkpoint": [2.0] * ROUNDS},
            {"none": 100, "echo": echo_peak, "mirror": mirror_peak, "peer-checkpoint": 80}), CHECKPOINT)

    def test_checkpoint_is_outrun_by_a_mode_whose_whole_interval_is_faster(self) -> None:
        row = self.against([1.0] * ROUNDS, [2.5] * ROUNDS)
        self.assertEqual((row.verdict, row.reached), (REACHED, "echo: +100.0 % [+100.0 % +100.0 %]"))
        self.assertEqual(missed([row]), [])

    def test_the_mode_with_the_highest_peak_that_is_not_above_is_judged_however_fast_another_is(self) -> None:
        row = self.against([2.5] * ROUNDS, [1.0] * ROUNDS)
        self.assertEqual((row.verdict, row.reached), (MISSED, "echo: -20.0 % [-20.0 % -20.0 %]"))
        row = self.against([2.5] * ROUNDS, [1.0] * ROUNDS, mirror_peak=80)
        self.assertEqual((row.verdict, row.reached), (REACHED, "mirror: +100.0 % [+100.0 % +100.0 %]"))

    def test_where_the_peer_has_a_fused_optimizer_too_that_is_a_target_of_its_own(self) -> None:
        fused = "peer-checkpoint-fused-adam"
        step_s = {"none": NONE_S, "echo": [1.8] * ROUNDS, CHECKPOINT: [2.0] * ROUNDS, fused: [1.7] * ROUNDS}
        rows = time_targets(timed(step_s, {"none": 100, "echo": 60, CHECKPOINT: 80, fused: 80}))
        self.assertEqual([row.verdict for row in rows[1:]], [REACHED, MISSED])
        self.assertEqual(rows[2].what, f"a lossless mode at the peak of {fused}")
        del step_s[fused]
        self.assertEqual(len(time_targets(timed(step_s, {"none": 100, "echo": 60, CHECKPOINT: 80}))), 2)

    def test_checkpoint_is_not_outrun_by_what_is_slower_or_has_a_higher_peak(self) -> None:
        self.assertEqual(self.against([2.1] * ROUNDS, [2.0] * ROUNDS).verdict, MISSED)
        higher = self.against([2.1] * ROUNDS, [1.0] * ROUNDS, mirror_peak=81)
        self.assertEqual(higher.verdict, MISSED)
        self.assertEqual(missed([higher]), ["a lossless mode at the peak of peer-checkpoint: missed, "
                                            "echo: -4.8 % [-4.8 % -4.8 %] (asked: faster)"])
        self.assertEqual(self.against([1.9, 2.1] * (ROUNDS // 2), [2.5] * ROUNDS).verdict, NOT_PROVEN)
        self.assertEqual(self.against([1.9, 2.3] * (ROUNDS // 2), [2.5] * ROUNDS).verdict, MISSED,
                         "the interval has faster ends, the median is slower")
        alone = checkpoint_target(timed({"none": NONE_S, "peer-checkpoint": NONE_S},
                                        {"none": 100, "peer-checkpoint": 80}), CHECKPOINT)
        self.assertEqual((alone.verdict, alone.reached), (MISSED, "none has a peak as low"))

    def test_a_mode_whose_certificate_does_not_pass_outruns_nobody(self) -> None:
        for certificate in ("lossy: gradient error 0.1", "fail", "unavailable", "not applied"):
            bytes_of = {"none": measured(100, 60), "fast": measured(10, 5, 5, certificate),
                        "peer-checkpoint": measured(80, 15)}
            some = entries_of(bytes_of, record({"none": 0.5, "fast": 0.1, "peer-checkpoint": 1.0}))
            self.assertEqual(checkpoint_target(some, CHECKPOINT).verdict, MISSED, certificate)


class ByteTargetsTest(unittest.TestCase):
    def rows(self, benchmark: str, saved: float, precision: str = "fp32") -> list[tuple[str, str]]:
        some = entries_of({**MEASURED, "none": measured(100, 58, 60), "echo": measured(60, saved, 24, "pass")},
                          record(STEP_S))
        return [(row.reached, row.verdict) for row in byte_targets(benchmark, precision, some)]

    def test_a_factor_is_reached_or_missed_to_the_byte(self) -> None:
        self.assertEqual(self.rows("ho-cifar10", 20)[0], ("2.90", REACHED))
        self.assertEqual(self.rows("ho-cifar10@cpu", 20 + 2 ** -20)[0], ("2.90", MISSED))
        self.assertEqual(self.rows("lucid-cifar10", 20), [("2.90", REACHED)])

    def test_modes_that_were_left_out_are_named(self) -> None:
        self.assertEqual(self.rows("ho-cifar10", 20)[1:], [("", NOT_MEASURED)] * 3)

    def test_in_bf16_and_of_other_benchmarks_less_is_asked(self) -> None:
        self.assertEqual(self.rows("ho-cifar10", 20, "bf16"), [("2.90", REACHED)])
        self.assertEqual(self.rows("gmm16-ho", 20), [])

    def test_the_table_has_what_was_asked_aimed_for_and_reached(self) -> None:
        some = entries_of({**MEASURED, "none": measured(100, 58, 60)}, record(STEP_S))
        text = targets_table(byte_targets("ho-cifar10", "fp32", some))
        self.assertIn("| echo: saved_bytes, times fewer | 2.90 | 3.10 | 2.90 | reached |", text)


class GpuTest(unittest.TestCase):
    def factors(self, precision: str) -> list[tuple[str, str, str]]:
        bytes_of = {"none": measured(100, 60, 60), "echo": measured(60, 20, 24), "mirror+echo": measured(50, 12, 12),
                    "echo+attn": measured(50, 10, 12), "echo+dpr8": measured(50, 8, 12)}
        some = entries_of(bytes_of, record({"none": 0.5}))
        return [(row.what, row.asked, row.verdict) for row in byte_targets("ho-cifar10", precision, some, "gpu")]

    def test_other_factors_are_asked_of_a_gpu_than_of_a_cpu(self) -> None:
        same = [("mirror+echo: peak_saved_bytes, times fewer", "4.80", REACHED),
                ("echo+dpr8: saved_bytes, times fewer", "8.00", MISSED)]
        self.assertEqual(self.factors("fp32"), [("echo: saved_bytes, times fewer", "2.70", REACHED), *same])
        self.assertEqual(self.factors("bf16"), [("echo: saved_bytes, times fewer", "4.30", MISSED),
                                                ("echo+attn: saved_bytes, times fewer", "6.00", REACHED), *same])
        self.assertEqual(byte_targets("lucid-cifar10", "bf16", entries(), "gpu"), [])

    def test_echo_over_the_fused_baseline_costs_nothing_beside_plain_none_and_little_beside_fused(self) -> None:
        step_s = {"none": NONE_S, "none@fused": [0.9] * ROUNDS, "echo@fused": [0.95] * ROUNDS,
                  CHECKPOINT: [2.0] * ROUNDS}
        some = timed(step_s, dict.fromkeys(step_s, 100.0))
        rows = time_targets(some, "gpu")
        self.assertEqual([(row.what, row.asked, row.verdict) for row in rows],
                         [("echo@fused: overhead to none", "at most +0.0 %", REACHED),
                          ("echo@fused: overhead to none@fused", "at most +3.0 %", MISSED)])
        self.assertIn("| ratio to none@fused [95 %] |", table(some))
        alone = time_targets(entries(), "gpu")
        self.assertEqual([row.verdict for row in alone], [NOT_MEASURED] * 2)

    def command(self, name: str, device: str, benchmark: str = "ho-cifar10") -> str:
        args = SimpleNamespace(out=Path("out"), data="DIR", threads=2, precision="bf16", device=device,
                               batch=None, benchmark=benchmark, noisemark="noisemark")
        return Commands(args).pace(name)

    def test_a_mode_may_name_its_baseline_and_a_gpu_trains_the_benchmark_at_its_scale(self) -> None:
        end = " --data DIR --threads 2 --precision bf16 --device"
        self.assertEqual(self.command("echo", "cpu"), f"noisemark pace ho-cifar10 --mode echo{end} cpu")
        self.assertEqual(self.command("echo@fused", "cuda"),
                         f"noisemark pace ho-cifar10@gpu --mode echo --baseline fused{end} cuda")
        self.assertIn(" ho-cifar10@cpu ", self.command("echo", "cuda", "ho-cifar10@cpu"))
        self.assertTrue(self.command("peer-eager", "cuda:1").endswith(" --device cuda:1 --pace"))


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
