"""The table of a GPU, from what stand-ins for its commands leave behind. Needs neither torch nor a GPU."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import tiny
from endings import BadInput
from gpu_table import (
    PARTS,
    Row,
    _run,
    accounting_rows,
    cells_of,
    columns_rows,
    exit_code,
    fit_rows,
    has_gpu,
    markdown,
    measure,
    speed_rows,
    target_rows,
)
from memory_targets import Target, asked_of, targets_table
from pages import read

FIT = """# ho-cifar10 within 8.00 GiB

| mode | baseline | precision | largest batch | its peak | peak of the next |
|---|---|---|---:|---:|---:|
| none | plain | bf16 | 300 | 7.99 GiB | 8.01 GiB |
| budget:8GiB | plain | bf16 | 1,230 | 7.99 GiB | 8.01 GiB |
"""
ACCOUNTING = """# What accounting for memory costs a step, ho-cifar10@gpu, bf16

| accounting | step longer than with `none` [95 %] | asked | verdict |
|---|---:|---:|---|
| followed | +0.4 % [+0.2 %, +0.6 %] | at most +1.0 % | reached |
| logged | +7.0 % [+6.5 %, +7.5 %] |  |  |
"""
COLUMNS = """# Columns of a GPU under known loads

| column | idle | copy | product | source |
|---|---:|---:|---:|---|
| sm_active | 0.0 % | 97.0 % | 99.0 % | a stand-in |

| must hold | found | verdict |
|---|---|---|
| copy: dram_active is at least 80.0 % | 91.0 % | holds |
| copy: device_busy is within 2.0 % of graphics_active | 99.0 % and 99.5 % | holds |
| product: device_busy is within 2.0 % of graphics_active | 98.5 % and 100.0 % | holds |
"""
CONTESTANTS = {"peer-eager": 0.4, "peer-compiled": 0.2, "plain": 0.4, "fused": 0.1}

# The first two cells of every row that the table must have.
ASKED = {
    **{f"{benchmark}@gpu, bf16, batch 128: fastest baseline beside {peer}, times as fast": least
       for benchmark in ("ho-cifar10", "lucid-cifar10")
       for peer, least in (("peer-eager", "at least 1.50"), ("peer-compiled", "at least 1.00"))},
    "ho-cifar10@gpu, fp32: echo: saved_bytes, times fewer": "2.70",
    "ho-cifar10@gpu, bf16: echo: saved_bytes, times fewer": "4.30",
    "ho-cifar10@gpu, bf16: echo+attn: saved_bytes, times fewer": "6.00",
    "ho-cifar10@gpu, bf16: mirror+echo: peak_saved_bytes, times fewer": "4.80",
    "ho-cifar10@gpu, bf16: echo+dpr8: saved_bytes, times fewer": "8.00",
    "ho-cifar10@gpu, fp32: mirror+echo: peak_saved_bytes, times fewer": "4.80",
    "ho-cifar10@gpu, fp32: echo+dpr8: saved_bytes, times fewer": "8.00",
    "ho-cifar10@gpu, bf16: echo@fused: overhead to none": "at most +0.0 %",
    "ho-cifar10@gpu, bf16: echo@fused: overhead to none@fused": "at most +3.0 %",
    "ho-cifar10@gpu, bf16, within 8GiB: largest batch of budget:8GiB, times that of none": "4.00",
    "ho-cifar10@gpu, bf16: accounting for memory, followed: overhead of a step": "at most +1.0 %",
    "utilization, copy: device_busy beside graphics_active": "within 2 points",
    "utilization, product: device_busy beside graphics_active": "within 2 points",
}


def targets(precision: str) -> str:
    """A target of each that is asked for, reached; times also where the real table would leave them out."""
    return targets_table([Target(what, asked, "", "9", "reached")
                          for what, asked in asked_of("ho-cifar10", precision, "gpu", True)])


def turns(contestants: dict[str, float], batch: int = 128, left_out: list[str] | None = None) -> str:
    return json.dumps({"warmup_rounds": 0, "left_out": left_out or [], "contestants": [
        {"name": name, "ready": {"batch": batch}, "turns": [{"step_s": [s]}] * 6}
        for name, s in contestants.items()]})


def leave(out: Path) -> None:
    """Writes what the real commands leave in a folder."""
    out.mkdir()
    if out.name.startswith("speed-"):
        (out / f"{out.name.removeprefix('speed-')}-bf16.json").write_text(turns(CONTESTANTS))
    else:
        (out / "memory.md").write_text(f"# Memory\n\n| echo | 1 | 2 | 3 | 4 |\n\n{targets(out.name[-4:])}")


def stand_in(command: list[str], stdout: Path) -> int:
    """Leaves what the real command would."""
    name = Path(command[1] if command[0] == sys.executable else command[0]).name
    stdout.write_text({"noisemark": FIT, "noisemark_gpu_columns": COLUMNS,
                       "accounting_cost.py": ACCOUNTING}.get(name, ""))
    out = Path(command[command.index("--out") + 1]) if "--out" in command else None
    if out and not out.suffix and not out.exists():
        leave(out)
    return 0


class GpuTableTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "bin" / "noisemark"
        self.program.parent.mkdir()
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)
        self.commands: list[list[str]] = []

    def rows(self, run: Callable[[list[str], Path], int] = stand_in, **more: object) -> list[Row]:
        def kept(command: list[str], stdout: Path) -> int:
            self.commands.append(command)
            return run(command, stdout)

        args = SimpleNamespace(noisemark=self.program, data=self.folder / "data", out=self.folder / "out",
                               memory="8GiB", threads=2, rounds=12, steps=3, **{"parts": PARTS, "resume": False, **more})
        return measure(args, kept)

    def test_every_row_has_the_command_it_is_from_and_no_path_of_this_machine(self) -> None:
        rows = self.rows()
        text = read(self.folder / "out" / "gpu.md")
        self.assertEqual(text, markdown(rows))
        self.assertNotIn(str(self.folder), text)
        self.assertEqual(len(self.commands), len(PARTS))
        self.assertTrue(all(row.command and row.measured for row in rows))
        self.assertEqual(exit_code(rows), 0)
        for words in ("python3 baselines/peers/speed_table.py --data DIR --device cuda ",
                      " --noisemark noisemark --out FOLDER/speed-ho-cifar10 ",
                      "python3 baselines/peers/memory_table.py ", " --out FOLDER/memory-bf16 ",
                      "`noisemark fit ho-cifar10@gpu --device cuda ", "`noisemark_gpu_columns`",
                      " --bare-loop noisemark_bare_loop --benchmark ho-cifar10 "):
            self.assertIn(words, text)

    def test_every_row_that_is_asked_for_is_there_with_a_figure_and_a_verdict(self) -> None:
        rows = {row.what: row for row in self.rows()}
        for what, asked in ASKED.items():
            self.assertEqual(rows[what].asked, asked)
            self.assertEqual(rows[what].verdict, "reached", what)
            self.assertTrue(rows[what].measured)
        judged = {what for what, row in rows.items() if row.asked}
        self.assertEqual(judged - set(ASKED), {"utilization, copy"})

    def test_every_row_that_is_asked_for_is_there_when_nothing_could_be_measured(self) -> None:
        for code in (1, 70, 77):
            with self.subTest(code=code):
                self.setUp()
                rows = self.rows(lambda command, stdout: code)
                found = {row.what: (row.asked, row.verdict) for row in rows}
                for what, asked in ASKED.items():
                    self.assertEqual(found[what], (asked, "not measured"))
                self.assertEqual(exit_code(rows), 1)

    def test_speed_is_told_beside_each_peer_with_the_batch(self) -> None:
        rows = {row.what: row.measured for row in self.rows()}
        self.assertEqual(rows["ho-cifar10@gpu, bf16, batch 128: fused beside peer-eager, times as fast"],
                         "4.000 [4.000, 4.000], 1280 images/s")
        self.assertEqual(rows["lucid-cifar10@gpu, bf16, batch 128: plain beside peer-compiled, times as fast"],
                         "0.500 [0.500, 0.500], 320 images/s")

    def test_the_fastest_baseline_is_judged_by_its_interval(self) -> None:
        def verdict(ours: list[float]) -> str:
            contestants = {"peer-eager": [1.5] * len(ours), "plain": [9.0] * len(ours), "fused": ours}
            record = {"warmup_rounds": 0, "left_out": [], "contestants": [
                {"name": name, "ready": {"batch": 128}, "turns": [{"step_s": [s]} for s in seconds]}
                for name, seconds in contestants.items()]}
            best = speed_rows(record, "x", "c")[0]
            self.assertTrue(best.measured.startswith("fused: "))
            return best.verdict

        self.assertEqual(verdict([1.0] * 8), "reached")
        self.assertEqual(verdict([0.9, 1.1] * 4), "not proven")
        self.assertEqual(verdict([1.01, 1.2] * 4), "missed")
        self.assertEqual(verdict([0.5] * 5), "not proven", "too few rounds for an interval")

    def test_recorded_steps_and_other_memory_orders_are_among_those_that_are_timed(self) -> None:
        self.rows()
        speed = self.commands[-1]
        named = speed[speed.index("--contestants") + 1:]
        for baseline in ("fused", "channels-last", "cuda-graph", "fused+channels-last+cuda-graph"):
            self.assertIn(baseline, named)

    def speed_left(self, text: str) -> list[Row]:
        """Rows where the speed of ho-cifar10 is `text`."""
        def run(command: list[str], stdout: Path) -> int:
            code = stand_in(command, stdout)
            if stdout.stem == "speed-ho-cifar10":
                (self.folder / "out" / stdout.stem / "ho-cifar10-bf16.json").write_text(text)
            return code

        self.setUp()
        return [row for row in self.rows(run) if row.what.startswith("ho-cifar10@gpu, bf16, batch")]

    def test_a_peer_that_cannot_run_has_a_row_that_says_why_and_ours_are_told_without_it(self) -> None:
        why = "peer-compiled: cannot run here (exit code 77): No module named 'diffusers'"
        title = "ho-cifar10@gpu, bf16, batch 128: "
        rows = {row.what: row for row in self.speed_left(turns({"peer-eager": 1.0, "plain": 0.5}, 128, [why]))}
        self.assertEqual(rows[title + "left out"].measured, why)
        self.assertEqual(rows[title + "fastest baseline beside peer-compiled, times as fast"].verdict, "not measured")
        self.assertEqual(rows[title + "fastest baseline beside peer-eager, times as fast"].verdict, "reached")
        alone = {row.what: row for row in self.speed_left(turns({"plain": 0.5}, 128, [why]))}
        self.assertEqual(alone[title + "plain"].measured, "256 images/s")

    def test_another_batch_than_the_definitions_is_not_measured(self) -> None:
        rows = self.speed_left(turns(CONTESTANTS, 64))
        self.assertEqual({row.verdict for row in rows}, {"not measured"})

    def test_what_accounting_costs_is_told_with_the_verdict_of_the_command(self) -> None:
        rows = accounting_rows(ACCOUNTING, "x", "c")
        self.assertEqual([(row.asked, row.measured, row.verdict) for row in rows],
                         [("at most +1.0 %", "+0.4 % [+0.2 %, +0.6 %]", "reached"),
                          ("", "+7.0 % [+6.5 %, +7.5 %]", "")])

    def test_exit_codes_that_are_verdicts_are_no_failures(self) -> None:
        def judging(command: list[str], stdout: Path) -> int:
            stand_in(command, stdout)
            text = stdout.read_text()
            stdout.write_text(text.replace("| reached |", "| missed |").replace("| holds |", "| **does not hold** |"))
            return 1 if "gpu_columns" in command[0] else 4 if "accounting_cost" in command[1] else 0

        rows = self.rows(judging)
        self.assertNotIn("failed", [row.verdict for row in rows])
        missed = [row.what for row in rows if row.verdict == "missed"]
        self.assertIn("utilization, product: device_busy beside graphics_active", missed)
        self.assertIn("ho-cifar10@gpu, bf16: accounting for memory, followed: overhead of a step", missed)

    def test_a_column_of_which_nothing_is_known_was_not_measured(self) -> None:
        rows = columns_rows(COLUMNS.replace("98.5 % and 100.0 % | holds", "98.5 % and none | not known"), "c")
        self.assertEqual([row.verdict for row in rows], ["reached", "reached", "not measured"])
        with self.assertRaises(ValueError):
            columns_rows("no GPU here\n", "c")

    def test_scripts_take_the_words_that_they_are_given(self) -> None:
        self.rows()
        scripts = [command[1:] for command in self.commands if command[0] == sys.executable]
        self.assertEqual(len(scripts), 5)
        for script, *words in scripts:
            with self.subTest(script=script):
                importlib.import_module(Path(script).stem)._arguments(words)

    def test_targets_are_those_of_the_memory_table_and_times_of_bf16_alone(self) -> None:
        found = {row.what: (row.asked, row.measured, row.verdict) for row in self.rows()}
        for precision, least in (("fp32", "2.70"), ("bf16", "4.30")):
            self.assertEqual(found[f"ho-cifar10@gpu, {precision}: echo: saved_bytes, times fewer"],
                             (least, "9", "reached"))
        self.assertIn("ho-cifar10@gpu, bf16: echo@fused: overhead to none", found)
        self.assertNotIn("ho-cifar10@gpu, fp32: echo@fused: overhead to none", found)
        self.assertEqual(target_rows("# Memory\n", "bf16", "", True), [])

    def test_modes_with_targets_of_a_gpu_are_those_that_are_measured(self) -> None:
        self.rows()
        by_folder = {Path(c[c.index("--out") + 1]).name: c for c in self.commands if "--out" in c}
        bf16 = by_folder["memory-bf16"]
        for mode in ("echo", "echo+attn", "mirror+echo", "echo+dpr8", "none@fused", "echo@fused"):
            self.assertIn(mode, bf16[bf16.index("--modes"):bf16.index("--budgets")])
        self.assertEqual(bf16[bf16.index("--timed") + 1:bf16.index("--rounds")], ["none", "none@fused", "echo@fused"])

    def test_the_largest_batch_within_a_budget_is_told_in_those_of_none(self) -> None:
        row = fit_rows(FIT, "x", "c")[0]
        self.assertEqual((row.measured, row.verdict), ("4.10 (1230 and 300)", "reached"))
        self.assertEqual(fit_rows(FIT.replace("1,230", "1,199"), "x", "c")[0].verdict, "missed")
        self.assertEqual(fit_rows(FIT.replace(" 300 ", " 0 "), "x", "c")[0].verdict, "not measured")
        more = FIT.replace("1,230 | 7.99 GiB | 8.01 GiB", "1,230 | 7.99 GiB | no larger batch: all data are in it")
        self.assertEqual(fit_rows(more, "x", "c")[0].verdict, "not measured", "there may be room for more")

    def test_a_command_that_fails_has_a_row_and_the_others_go_on(self) -> None:
        def failing(command: list[str], stdout: Path) -> int:
            code = stand_in(command, stdout)
            if "fp32" in command:  # a failed gate, after the table
                return 1
            if "fit" in command:
                return 77
            if stdout.stem == "speed-ho-cifar10":
                (self.folder / "out" / "speed-ho-cifar10" / "ho-cifar10-bf16.json").unlink()
            if stdout.stem == "columns":
                return 124
            return code

        rows = self.rows(failing)
        self.assertEqual(len(self.commands), len(PARTS))
        failed = [(row.what, row.measured) for row in rows if row.verdict == "failed"]
        self.assertEqual(len(failed), 3)
        self.assertEqual(failed[0], ("columns of utilization", "took longer than --longest"))
        self.assertEqual(failed[1], ("bytes and times of memory modes, fp32", "exit code 1"))
        self.assertEqual(failed[2][0], "speed beside the peers, ho-cifar10")
        self.assertIn("no figures", failed[2][1])
        self.assertIn("ho-cifar10@gpu, fp32: echo: saved_bytes, times fewer", [row.what for row in rows])
        self.assertIn(("largest batch", "cannot run here"), [(row.what, row.measured) for row in rows])

    def test_the_table_can_be_made_in_several_sittings(self) -> None:
        def cut_off(command: list[str], stdout: Path) -> int:
            if stdout.stem == "memory-bf16":
                (self.folder / "out" / stdout.stem / "results").mkdir(parents=True)
                return 124
            return stand_in(command, stdout)

        first = self.rows(cut_off, parts=("columns", "memory-bf16"))
        self.assertEqual({row.command.split()[0] for row in first}, {"noisemark_gpu_columns", "python3"})
        self.assertEqual(exit_code(first), 1)
        with self.assertRaisesRegex(BadInput, "with --resume one of a table that was begun"):
            self.rows()
        self.commands.clear()
        rows = self.rows(resume=True)
        keys = [Path(c[c.index("--out") + 1]).stem for c in self.commands if "--out" in c]
        self.assertEqual(len(self.commands), len(PARTS) - 1, "the columns are there")
        again = next(c for c in self.commands if "memory-bf16" in " ".join(c))
        self.assertEqual(again[-1], "--resume", "of what was measured nothing is measured again")
        self.assertIn("speed-lucid-cifar10", keys)
        self.assertIn(("bytes and times of memory modes, bf16", "failed"), [(r.what, r.verdict) for r in first])
        self.commands.clear()
        self.assertEqual({row.what for row in self.rows(parts=("fit",), resume=True)}, {row.what for row in rows})
        self.assertEqual([c[1] for c in self.commands], [], "and the rows of other parts stay")

    def test_a_command_that_takes_too_long_is_ended_with_what_it_started(self) -> None:
        marker = self.folder / "alive"
        started = f"(sleep 2; touch {marker}) & sleep 60"
        begin = time.monotonic()
        self.assertEqual(_run(["sh", "-c", started], self.folder / "said", 0.5), 124)
        self.assertLess(time.monotonic() - begin, 10)
        time.sleep(2.5)
        self.assertFalse(marker.exists())

    def test_a_program_that_is_not_there_is_refused_and_a_folder_that_holds_something_left_alone(self) -> None:
        (self.folder / "out").mkdir()
        (self.folder / "out" / "mine").write_text("kept")
        with self.assertRaisesRegex(BadInput, "is not empty"):
            self.rows()
        self.program.unlink()
        with self.assertRaisesRegex(BadInput, "--noisemark"):
            self.rows()
        self.assertEqual(self.commands, [])

    def test_a_gpu_is_there_where_the_driver_shows_one_that_is_not_hidden(self) -> None:
        self.assertFalse(has_gpu(self.folder, {}))
        (self.folder / "nvidiactl").write_text("")
        self.assertFalse(has_gpu(self.folder, {}))
        (self.folder / "nvidia0").write_text("")
        self.assertTrue(has_gpu(self.folder, {}))
        self.assertTrue(has_gpu(self.folder, {"CUDA_VISIBLE_DEVICES": "0"}))
        self.assertFalse(has_gpu(self.folder, {"CUDA_VISIBLE_DEVICES": ""}))

    def test_without_a_gpu_it_says_so_in_one_line(self) -> None:
        for required, code in (("", 77), ("peers,cuda", 1)):
            done = subprocess.run(
                [sys.executable, "-B", tiny.PEERS / "gpu_table.py", f"--noisemark={self.program}",
                 f"--data={self.folder}", f"--out={self.folder / 'out'}"],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "NOISEMARK_REQUIRE": required}, text=True,
                capture_output=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "", "gpu_table: no GPU here\n"))
            self.assertFalse((self.folder / "out").exists())

    def test_a_bar_in_a_command_ends_no_cell(self) -> None:
        self.assertIn("`a \\| b`", markdown([Row("w", "", "", "", "a | b")]))
        self.assertEqual(cells_of("text\n| a | b |\n"), [["a", "b"]])


if __name__ == "__main__":
    unittest.main()
