"""The memory table, made with the real program. With the real peers: memory_table_peers_test.py."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny
from memory_table import BUDGETS, MODES
from pages import read

NOISEMARK = os.environ["NOISEMARK_PROGRAM"]


def memory_table(out: Path, *more: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """`path`: where Python looks first."""
    return subprocess.run(
        [sys.executable, "-B", tiny.PEERS / "memory_table.py", f"--noisemark={NOISEMARK}",
         f"--data={out.parent}", f"--out={out}", "--threads=1", "--rounds=1", "--warmup-rounds=0",
         "--benchmark=gmm16-ho", "--batch=4", *more],
        env={**os.environ, "PYTHONPATH": path}, text=True, capture_output=True)


# The program, whose runs under echo end with a failed gate.
BROKEN = f"""#!{sys.executable}
import json, os, subprocess, sys
from pathlib import Path
words = sys.argv[1:]
if words[0] != "run" or "echo" not in words:
    os.execv({NOISEMARK!r}, [{NOISEMARK!r}, *words])
subprocess.run([{NOISEMARK!r}, *words], check=True)
file = Path(words[words.index("--out") + 1]) / "result.json"
result = json.loads(file.read_text())
result["exit"] = {{"code": 1, "status": "failed", "reasons": ["certificate: as the test has it."]}}
file.write_text(json.dumps(result))
sys.exit(1)
"""


def row_of(text: str, contestant: str) -> list[str]:
    """The cells of a contestant's row of bytes."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return next(row for row in rows if row[0] == contestant)


class MemoryTableTest(unittest.TestCase):
    def test_modes_and_budgets_stand_in_one_page_and_one_plot_where_there_are_no_peers(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "ema_pytorch.py").write_text("raise ImportError('left out')\n")
            out = Path(folder) / "memory"
            done = memory_table(out, "--modes", "echo", "echo+dpr8", "--budgets", "0.9", "0.01",
                                "--variants", "checkpoint", path=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = read(out / "memory.md")
            self.assertEqual(done.stdout, text)
            record = json.loads((out / "pace.json").read_text())
            results = {file.parent.name: json.loads(file.read_text())
                       for file in out.glob("results/*/result.json")}
            data = (out / "plots" / "pareto.dat").read_text()
            self.assertEqual(list(out.rglob("*.safetensors")), [])
            checked = subprocess.run([NOISEMARK, "check", out / "results"], text=True,
                                     capture_output=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        met, not_met = sorted((name for name in results if name.startswith("budget:")), key=len)[::-1]
        self.assertEqual(set(results), {"none", "echo", "echo+dpr8", met, not_met})
        self.assertIn("fp32, batch 4, 1 threads", text)
        self.assertEqual(row_of(text, "none")[3:8:2], ["1.00"] * 3)
        self.assertEqual(row_of(text, "none")[1], "")
        for mode in ("echo", met):
            self.assertEqual(row_of(text, mode)[1], "pass")
        self.assertRegex(row_of(text, "echo+dpr8")[1], r"lossy: gradient error 0\.\d+")
        peak = {name: result["metrics"] for name, result in results.items()}[met]
        peak_bytes = next(metric["value"] for metric in peak if metric["name"] == "peak_bytes")
        self.assertEqual(row_of(text, met)[2], f"{peak_bytes / (1 << 20):.1f}")
        self.assertIn(f"\n{not_met} cannot be met: the smallest budget that can is ", text)
        self.assertIn('"echo"', data)
        self.assertNotIn(folder, json.dumps(record))
        self.assertIn("\nCannot run here: peer-eager, peer-checkpoint.\n", text)
        self.assertNotIn("casts of weights", text)

    def test_every_lossless_mode_that_the_program_lists_is_there_unless_told_otherwise(self) -> None:
        listed = json.loads(subprocess.run([NOISEMARK, "list", "--json"], check=True,
                                           capture_output=True).stdout)["modes"]
        exact = {mode["name"] for mode in listed  # those with a SIZE are examples of a kind
                 if mode["lossless"] and not mode["name"].startswith("budget:")
                 and ",host=" not in mode["name"]}
        self.assertLessEqual(exact, set(MODES))
        self.assertEqual({"error" in budget for budget in BUDGETS}, {False, True})

    def test_a_mode_or_variant_that_nobody_knows_is_refused(self) -> None:
        for option, name in (("--modes", "echoes"), ("--variants", "faster"), ("--timed", "nobody")):
            with tempfile.TemporaryDirectory() as folder:
                done = memory_table(Path(folder) / "memory", option, name)
                self.assertEqual(done.returncode, 2)
                self.assertIn(name, done.stderr)

    def test_a_check_of_rounds_without_an_interval_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = memory_table(Path(folder) / "memory", "--check")  # the table has one round
            self.assertEqual(done.returncode, 2)
            self.assertIn("--rounds: 1 (with --check at least 6", done.stderr)

    def test_a_check_is_red_where_nothing_stands_beside_checkpoint(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "ema_pytorch.py").write_text("raise ImportError('left out')\n")
            out = Path(folder) / "memory"
            done = memory_table(out, "--check", "--rounds=6", "--modes=none", "--budgets",
                                "--variants=eager", path=folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("--check: echo: overhead to none: not measured", done.stderr)
            self.assertIn("## Targets", read(out / "memory.md"))

    def test_a_mode_that_fails_a_gate_stays_in_the_table_and_makes_it_red(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "ema_pytorch.py").write_text("raise ImportError('left out')\n")
            broken = Path(folder) / "broken"
            broken.write_text(BROKEN)
            broken.chmod(0o755)
            out = Path(folder) / "memory"
            done = memory_table(out, f"--noisemark={broken}", "--modes", "echo", "--budgets",
                                "--variants=eager", path=folder)
            text = read(out / "memory.md")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("echo failed: certificate: as the test has it.", done.stderr)
        self.assertIn("\necho failed: certificate: as the test has it.\n", text)
        self.assertEqual(row_of(text, "echo")[1], "pass", "what was measured is told all the same")

    def test_other_bad_input_is_refused_before_anything_runs(self) -> None:
        for option in ("--rounds=0", "--batch=0", "--noisemark=/no/such/program", "--budgets=2",
                       "--device=tpu"):
            with tempfile.TemporaryDirectory() as folder:
                done = memory_table(Path(folder) / "memory", option)
                self.assertEqual(done.returncode, 2)
                self.assertIn(option.split("=")[0], done.stderr)
                self.assertEqual(list(Path(folder).iterdir()), [])

    def test_a_folder_that_holds_something_is_left_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "memory"
            out.mkdir()
            (out / "mine").write_text("kept")
            done = memory_table(out)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is not empty", done.stderr)
            self.assertEqual([file.name for file in out.iterdir()], ["mine"])

    def test_a_table_that_was_cut_off_is_resumed_with_what_the_same_program_measured(self) -> None:
        def result_of(mode: str) -> str:
            return json.loads((out / "results" / mode / "result.json").read_text())["run_id"]

        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "ema_pytorch.py").write_text("raise ImportError('left out')\n")
            out = Path(folder) / "memory"
            words = ("--modes", "echo", "--budgets", "--variants=eager")
            self.assertEqual(memory_table(out, *words, path=folder).returncode, 0)
            self.assertIn("has a table", memory_table(out, *words, "--resume", path=folder).stderr)
            text = read(out / "memory.md")
            (out / "memory.md").unlink()
            before = result_of("none")
            echo = out / "results" / "echo" / "result.json"
            echo.write_text(echo.read_text()[:100])  # a crash leaves it so
            done = memory_table(out, *words, "--resume", path=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(result_of("none"), before)
            self.assertIn("memory of echo", done.stderr)
            self.assertEqual(row_of(read(out / "memory.md"), "none")[1:8], row_of(text, "none")[1:8])

            (out / "memory.md").unlink()
            other = Path(folder) / "other"
            other.write_text(f"#!/bin/sh\nexec {NOISEMARK} \"$@\"\n")
            other.chmod(0o755)
            done = memory_table(out, f"--noisemark={other}", *words, "--resume", path=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotEqual(result_of("none"), before, "another program is measured itself")


if __name__ == "__main__":
    unittest.main()
