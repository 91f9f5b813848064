"""The memory table, made with the real program and, where they are installed, the real peers."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny

NOISEMARK = os.environ["NOISEMARK_PROGRAM"]


def memory_table(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", tiny.PEERS / "memory_table.py", f"--noisemark={NOISEMARK}",
         f"--data={out.parent}", f"--out={out}", "--threads=1", "--rounds=1", "--warmup-rounds=0",
         "--benchmark=gmm16-ho", "--batch=4", *more],
        text=True, capture_output=True)


class MemoryTableTest(unittest.TestCase):
    def test_modes_and_variants_stand_in_one_table_and_one_plot(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "memory"
            done = memory_table(out, "--modes", "echo", "--variants", "checkpoint")
            self.assertEqual(done.returncode, 0, done.stderr)
            text = (out / "memory.md").read_text()
            self.assertEqual(done.stdout, text)
            record = json.loads((out / "pace.json").read_text())
            results = {file.parent.name: json.loads(file.read_text())
                       for file in out.glob("results/*/result.json")}
            data = (out / "plots" / "pareto.dat").read_text()
            self.assertEqual(list(out.rglob("*.safetensors")), [])
            checked = subprocess.run([NOISEMARK, "check", out / "results"], text=True,
                                     capture_output=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertRegex(text, r"\| none \| [0-9.]+ \| 1\.00 \| [0-9.]+ \| 1\.00 \| [0-9.]+ \| 1\.000 ")
        self.assertIn("fp32, batch 4, 1 threads", text)
        self.assertIn('"echo"', data)
        self.assertNotIn(folder, json.dumps(record))
        if "Cannot run here: peer-eager, peer-checkpoint" in text:
            return  # no peers; everything else is as it is with them
        self.assertEqual(set(results), {"none", "echo", "peer-eager", "peer-checkpoint"})
        self.assertEqual(results["peer-checkpoint"]["definition"], results["none"]["definition"])
        self.assertTrue(results["peer-checkpoint"]["identity"]["custom"])
        self.assertIn("## Against peer-checkpoint", text)
        self.assertIn('"peer-checkpoint"', data)

    def test_a_mode_or_variant_that_nobody_knows_is_refused(self) -> None:
        for option, name in (("--modes", "echoes"), ("--variants", "faster")):
            with tempfile.TemporaryDirectory() as folder:
                done = memory_table(Path(folder) / "memory", option, name)
                self.assertEqual(done.returncode, 2)
                self.assertIn(name, done.stderr)

    def test_other_bad_input_is_refused_before_anything_runs(self) -> None:
        for option in ("--rounds=0", "--batch=0", "--noisemark=/no/such/program"):
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


if __name__ == "__main__":
    unittest.main()
