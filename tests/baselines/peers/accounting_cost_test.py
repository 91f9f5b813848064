"""The cost of accounting, judged from made-up turns; and, where the program is, one small real run."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import tiny
import accounting_cost
from accounting_cost import CONTESTANTS, commands, exit_code, table
from endings import BadInput
from pace import Row, table_rows

SCRIPT = tiny.PEERS / "accounting_cost.py"
BARE_LOOP = os.environ.get("NOISEMARK_BARE_LOOP")


def rows(followed: list[float]) -> list[Row]:
    """Steps of 1 s without accounting, of so many with, and twice as long with a log."""
    seconds = {"none": [1.0] * len(followed), "followed": followed, "logged": [2.0] * len(followed)}
    turns = {name: [{"step_s": [s]} for s in steps] for name, steps in seconds.items()}
    return table_rows(turns, dict.fromkeys(turns, 128), "none")


def stand_in(step_s: str) -> str:
    """A program that answers as noisemark_bare_loop does: `step_s` tells a step by the accounting."""
    return (f"#!{sys.executable}\nimport json, sys\nkind = sys.argv[-1]\n"
            "print(json.dumps({'ready': True, 'batch': 4}), flush=True)\n"
            f"for line in sys.stdin:\n    if line.startswith('quit'): break\n"
            f"    print(json.dumps({{'step_s': [{step_s}] * int(line.split()[1])}}), flush=True)\n")


class AccountingCostTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_script(self, program: Path | str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-B", SCRIPT, f"--bare-loop={program}", f"--data={self.folder}", "--steps=1", *words],
            text=True, capture_output=True)

    def program(self, step_s: str) -> Path:
        path = self.folder / "noisemark_bare_loop"
        path.write_text(stand_in(step_s))
        path.chmod(0o755)
        return path

    def test_it_is_within_where_the_whole_interval_is_and_above_where_all_of_it_is(self) -> None:
        self.assertEqual(exit_code(rows([1.009] * 8)), 0)
        self.assertEqual(exit_code(rows([0.99] * 8)), 0, "faster is no failure")
        self.assertEqual(exit_code(rows([1.011, 1.2] * 4)), 1)
        self.assertEqual(exit_code(rows([1.0, 1.2] * 4)), 4)
        self.assertEqual(exit_code(rows([1.0] * 5)), 4, "too few rounds for an interval")

    def test_the_log_is_told_and_not_judged(self) -> None:
        text = table(rows([1.005] * 8), "x")
        self.assertIn("| followed | +0.5 % [+0.5 %, +0.5 %] | at most +1.0 % | reached |\n", text)
        self.assertIn("| logged | +100.0 % [+100.0 %, +100.0 %] |  |  |\n", text)

    def test_contestants_differ_in_their_accounting_alone(self) -> None:
        args = SimpleNamespace(bare_loop="BIN", data="DIR", benchmark="ho-cifar10", device="cuda", threads=2,
                               precision="bf16")
        found = commands(args)
        self.assertEqual(tuple(found), CONTESTANTS)
        for name, command in found.items():
            self.assertEqual(command, "BIN ho-cifar10@gpu --data DIR --threads 2 --device cuda --precision bf16 "
                                      f"--accounting {name}")
        args.device = "tpu"
        with self.assertRaises(BadInput):
            commands(args)

    def test_exit_codes_tell_a_verdict_from_what_went_wrong(self) -> None:
        slow = self.run_script(self.program("1.0 if kind == 'none' else 1.1"), "--rounds=6")
        self.assertEqual((slow.returncode, slow.stderr.count("Traceback")), (1, 0), slow.stderr)
        self.assertIn("| followed | +10.0 % [+10.0 %, +10.0 %] | at most +1.0 % | missed |", slow.stdout)
        self.assertEqual(self.run_script(self.program("1.0"), "--rounds=6").returncode, 0)
        self.assertEqual(self.run_script(self.program("1.0"), "--rounds=2").returncode, 4)
        self.assertEqual(self.run_script(self.program("1 / 0"), "--rounds=6").returncode,
                         accounting_cost.EXIT_INTERNAL)
        self.assertEqual(self.run_script("/no/such/program").returncode, 2)
        absent = self.folder / "absent"
        absent.write_text("#!/bin/sh\nexit 77\n")
        absent.chmod(0o755)
        self.assertEqual(self.run_script(absent).returncode, 77)

    def test_turns_are_kept_without_paths_and_a_file_that_is_there_is_left_alone(self) -> None:
        out = self.folder / "turns.json"
        done = self.run_script(self.program("1.0"), "--rounds=6", f"--out={out}")
        self.assertEqual(done.returncode, 0, done.stderr)
        record = json.loads(out.read_text())
        self.assertEqual([contestant["name"] for contestant in record["contestants"]], list(CONTESTANTS))
        self.assertNotIn(str(self.folder), out.read_text())
        self.assertEqual(self.run_script(self.program("1.0"), f"--out={out}").returncode, 2)

    @unittest.skipUnless(BARE_LOOP, "NOISEMARK_BARE_LOOP: not set")
    def test_every_kind_of_accounting_trains_the_same(self) -> None:
        losses = {}
        for kind in CONTESTANTS:
            for precision in ("fp32", "bf16"):
                done = subprocess.run(
                    [BARE_LOOP, "gmm16-ho@cpu", "--data", self.folder, "--threads", "1", "--precision", precision,
                     "--accounting", kind],
                    input="run 3\nquit\n", text=True, capture_output=True, check=True)
                losses.setdefault(precision, []).append(json.loads(done.stdout.splitlines()[1])["loss"])
        for found in losses.values():
            self.assertEqual(len(found[0]), 3)
            self.assertTrue(all(one == found[0] for one in found), found)
        self.assertNotEqual(losses["fp32"], losses["bf16"])

    @unittest.skipUnless(BARE_LOOP, "NOISEMARK_BARE_LOOP: not set")
    def test_a_word_that_the_program_does_not_know_and_a_gpu_that_is_not_here_are_told_apart(self) -> None:
        def code(*words: str) -> int:
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
            return subprocess.run([BARE_LOOP, "gmm16@cpu", "--data", self.folder, "--threads", "1", *words],
                                  input="", text=True, capture_output=True, env=environment).returncode

        self.assertEqual(code("--accounting", "none"), 0)
        self.assertEqual(code("--accounting", "some"), 2)
        self.assertEqual(code("--speed", "high"), 2)
        self.assertEqual(code("--accounting"), 2)
        self.assertEqual(code("--precision", "fp8"), 2)
        self.assertEqual(code("--device", "cuda"), 77)

    @unittest.skipUnless(BARE_LOOP, "NOISEMARK_BARE_LOOP: not set")
    def test_a_small_run_ends_with_a_table_and_a_verdict(self) -> None:
        done = self.run_script(BARE_LOOP, "--benchmark=gmm16", "--threads=1", "--rounds=2", "--warmup-rounds=1")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stdout, r"gmm16@cpu, fp32\n(.*\n)*\| followed \| [-+0-9.]+ % \[too few rounds\] \|")


if __name__ == "__main__":
    unittest.main()
