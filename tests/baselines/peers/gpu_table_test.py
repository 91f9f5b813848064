"""The table of a GPU, from what stand-ins for its commands leave behind. Needs neither torch nor a GPU."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import tiny
from definition import BadInput
from gpu_table import Row, cells_of, fit_rows, has_gpu, markdown, measure, target_rows
from memory_targets import Target, targets_table

FIT = """# ho-cifar10 within 8.00 GiB

| mode | baseline | precision | largest batch | its peak | peak of the next |
|---|---|---|---:|---:|---:|
| none | plain | bf16 | 300 | 7.99 GiB | 8.01 GiB |
| budget:8GiB | plain | bf16 | 1,230 | 7.99 GiB | 8.01 GiB |
"""
TARGETS = targets_table([Target("echo: saved_bytes, times fewer", "4.30", "", "4.41", "reached"),
                         Target("echo@fused: overhead to none", "at most +0.0 %", "", "-1.0 % [-2.0 %, -0.5 %]",
                                "reached")])
CONTESTANTS = {"peer-eager": 0.4, "peer-compiled": 0.2, "plain": 0.4, "fused": 0.1}


def turns() -> str:
    contestants = [{"name": name, "ready": {"batch": 128}, "turns": [{"step_s": [s]}] * 6}
                   for name, s in CONTESTANTS.items()]
    return json.dumps({"warmup_rounds": 0, "contestants": contestants})


def stand_in(command: list[str], stdout: Path) -> int:
    """Leaves what the real command would."""
    name = Path(command[0]).name
    stdout.write_text({"noisemark": FIT, "noisemark_gpu_columns": "all hold\n"}.get(name, ""))
    if "--out" in command:
        out = Path(command[command.index("--out") + 1])
        out.mkdir()
        if out.name == "speed":
            for benchmark in ("ho-cifar10", "lucid-cifar10"):
                (out / f"{benchmark}-bf16.json").write_text(turns())
        else:
            (out / "memory.md").write_text(f"# Memory\n\n| echo | 1 | 2 | 3 | 4 |\n\n{TARGETS}")
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

    def rows(self, run: Callable[[list[str], Path], int] = stand_in) -> list[Row]:
        def kept(command: list[str], stdout: Path) -> int:
            self.commands.append(command)
            return run(command, stdout)

        args = SimpleNamespace(noisemark=self.program, data=self.folder / "data", out=self.folder / "out",
                               memory="8GiB", threads=2, rounds=12, steps=3)
        return measure(args, kept)

    def test_every_row_has_the_command_it_is_from_and_no_path_of_this_machine(self) -> None:
        rows = self.rows()
        text = (self.folder / "out" / "gpu.md").read_text()
        self.assertEqual(text, markdown(rows))
        self.assertNotIn(str(self.folder), text)
        self.assertEqual(len(self.commands), 5)
        *measured, accounting = rows
        self.assertTrue(all(row.command for row in measured))
        self.assertEqual((accounting.verdict, accounting.measured, accounting.command), ("no command", "", ""))
        self.assertNotIn("failed", [row.verdict for row in rows])
        for words in ("python3 baselines/peers/speed_table.py --noisemark noisemark --data DIR --device cuda ",
                      "python3 baselines/peers/memory_table.py ", " --out FOLDER/memory-bf16 ",
                      "`noisemark fit ho-cifar10@gpu --device cuda ", "`noisemark_gpu_columns`"):
            self.assertIn(words, text)

    def test_speed_is_told_beside_each_peer_with_the_batch(self) -> None:
        rows = {row.what: row.measured for row in self.rows()}
        self.assertEqual(rows["ho-cifar10@gpu, bf16, batch 128: fused beside peer-eager, times as fast"],
                         "4.000 [4.000, 4.000], 1280 images/s")
        self.assertEqual(rows["lucid-cifar10@gpu, bf16, batch 128: plain beside peer-compiled, times as fast"],
                         "0.500 [0.500, 0.500], 320 images/s")

    def test_targets_are_those_of_the_memory_table_and_times_of_bf16_alone(self) -> None:
        found = {row.what: (row.asked, row.measured, row.verdict) for row in self.rows()}
        for precision in ("fp32", "bf16"):
            self.assertEqual(found[f"ho-cifar10@gpu, {precision}: echo: saved_bytes, times fewer"],
                             ("4.30", "4.41", "reached"))
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

    def test_a_command_that_fails_has_a_row_and_the_others_go_on(self) -> None:
        def failing(command: list[str], stdout: Path) -> int:
            code = stand_in(command, stdout)
            if "fp32" in command:  # a failed gate, after the table
                return 1
            if "fit" in command:
                return 77
            if "speed_table.py" in " ".join(command):
                (self.folder / "out" / "speed" / "ho-cifar10-bf16.json").unlink()
            return code

        rows = self.rows(failing)
        self.assertEqual(len(self.commands), 5)
        failed = [(row.what, row.measured) for row in rows if row.verdict == "failed"]
        self.assertEqual(len(failed), 2)
        self.assertEqual(failed[0][0], "speed beside the peers")
        self.assertIn("no figures", failed[0][1])
        self.assertEqual(failed[1], ("bytes and times of memory modes, fp32", "exit code 1"))
        self.assertIn("ho-cifar10@gpu, fp32: echo: saved_bytes, times fewer", [row.what for row in rows])
        self.assertIn(("largest batch", "cannot run here"), [(row.what, row.measured) for row in rows])

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
