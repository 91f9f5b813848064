"""The speed table, made with the real program and, where they are installed, the real peers."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import tiny
import peers_required
from pages import read
from speed_table import Commands, phase_table

NOISEMARK = os.environ["NOISEMARK_PROGRAM"]
BARE_LOOP = os.environ["NOISEMARK_BARE_LOOP"]


def speed_table(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", tiny.PEERS / "speed_table.py", f"--noisemark={NOISEMARK}",
         f"--data={out.parent}", f"--out={out}", "--threads=1", "--rounds=1", "--warmup-rounds=0",
         "--benchmarks=gmm16", "--precisions=fp32", *more],
        text=True, capture_output=True)


class PhaseTableTest(unittest.TestCase):
    def test_medians_are_over_the_steps_after_the_warm_up(self) -> None:
        turns = [{"step_s": [9.0, 9.0], "forward_s": [9.0, 9.0]},
                 {"step_s": [0.1, 0.2], "forward_s": [0.01, 0.02]},
                 {"step_s": [0.4, 0.3], "forward_s": [0.05, 0.04]}]
        record = {"warmup_rounds": 1, "contestants": [{"name": "a", "turns": turns}]}
        head, _, row = phase_table(record).splitlines()
        self.assertEqual(head, "| contestant, ms | step | data wait | forward | backward | optimizer | EMA |")
        self.assertEqual(row, "| a | 250.0 | - | 30.0 | - | - | - |")


class CommandsTest(unittest.TestCase):
    def commands(self, device: str) -> list[str]:
        args = SimpleNamespace(data="DIR", threads=2, device=device, noisemark="noisemark")
        commands = Commands(args, Path("list.json"))
        return [commands.contestant(name, "ho-cifar10", "bf16") for name in ("plain", "peer-eager")]

    def test_all_contestants_are_told_the_device_and_on_a_gpu_the_scale(self) -> None:
        for device, name in (("cpu", "ho-cifar10"), ("cuda", "ho-cifar10@gpu"), ("cuda:1", "ho-cifar10@gpu")):
            ours, peer = self.commands(device)
            self.assertIn(f"noisemark pace {name} --baseline plain ", ours)
            self.assertIn(f" --id {name} --variant eager ", peer)
            for command in (ours, peer):
                self.assertTrue(command.endswith(f" --device {device}"), command)

    def test_the_bare_loop_is_told_the_device_too(self) -> None:
        for device, name in (("cpu", "ho-cifar10"), ("cuda", "ho-cifar10@gpu")):
            args = SimpleNamespace(data="DIR", threads=2, device=device, bare_loop="noisemark_bare_loop")
            self.assertEqual(Commands(args, Path("list.json")).bare_loop("ho-cifar10"),
                             f"noisemark_bare_loop {name} --data DIR --threads 2 --device {device}")


class SpeedTableTest(unittest.TestCase):
    def test_every_contestant_has_a_row_or_is_said_to_be_unable_to_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "speed"
            done = speed_table(out, f"--bare-loop={BARE_LOOP}",
                               "--contestants", "plain", "fused", "peer-eager",
                               "peer-eager+pooled")
            self.assertEqual(done.returncode, 0, done.stderr)
            text = read(out / "speed.md")
            records = {file.name: json.loads(file.read_text()) for file in out.glob("*.json")}
        self.assertIn("## gmm16@cpu, fp32", text)
        self.assertRegex(text, r"\| plain \| [0-9.]+ \[too few rounds\] \| 1\.000")
        self.assertRegex(text, r"\| fused \| [0-9.]+ ")
        self.assertRegex(text, r"\| peer-eager \| [0-9.]+ |Left out: peer-eager: cannot run here .*: No module named ")
        if peers_required.are_required():
            self.assertNotIn("Left out", text)
        self.assertRegex(text, r"\| bare loop \| .*\n\| noisemark \| ")
        self.assertRegex(text, r"\| plain (\| [0-9]+\.[0-9] ){6}\|\n")
        self.assertRegex(text, r"\| bare loop \| [0-9]+\.[0-9] (\| - ){5}\|\n")
        self.assertEqual(set(records), {"gmm16-fp32.json", "gmm16-harness.json"})
        self.assertEqual(records["gmm16-fp32.json"]["contestants"][0]["command"],
                         "noisemark pace gmm16 --baseline plain --data DIR --threads 1 --precision fp32 "
                         "--device cpu")
        self.assertNotIn(folder, json.dumps(records))
        self.assertIn(done.stdout.splitlines()[1], text)

    def test_a_contestant_that_cannot_run_here_is_the_reference_of_nothing(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "speed"
            # The last of two --benchmarks counts; no peer has this one's pooling.
            done = speed_table(out, "--benchmarks=gmm16-ho-relu", "--contestants", "peer-eager", "plain")
            self.assertEqual(done.returncode, 0, done.stderr)
            text = read(out / "speed.md")
        self.assertEqual(text.count("peer-eager"), 1)
        self.assertIn("Left out: peer-eager: cannot run here (exit code 77): ", text)
        self.assertIn("ratio to plain [95 %]", text)

    def test_a_contestant_that_fails_is_left_out_named_and_ends_it_with_1(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "speed"
            done = speed_table(out, "--contestants", "nobody", "plain")
            self.assertEqual(done.returncode, 1, done.stderr)
            text = read(out / "speed.md")
            record = json.loads((out / "gmm16-fp32.json").read_text())
        self.assertRegex(text, r"Left out: nobody: ended with exit code 2: noisemark: .*nobody")
        self.assertRegex(text, r"\| plain \| [0-9.]+ ")
        self.assertEqual([c["name"] for c in record["contestants"]], ["plain"])
        self.assertEqual(len(record["left_out"]), 1)

    def test_a_folder_that_holds_something_is_left_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "speed"
            out.mkdir()
            (out / "mine").write_text("kept")
            done = speed_table(out)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is not empty", done.stderr)
            self.assertEqual([file.name for file in out.iterdir()], ["mine"])

    def test_a_contestant_that_nobody_knows_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = speed_table(Path(folder) / "speed", "--contestants", "peer-eager+fused")
            self.assertEqual(done.returncode, 2)
            self.assertIn("peer-eager+fused", done.stderr)

    def test_a_device_that_nobody_knows_is_refused_before_anything_runs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = speed_table(Path(folder) / "speed", "--device=tpu")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--device", done.stderr)
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_a_program_that_does_not_exist_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = speed_table(Path(folder) / "speed", "--noisemark=/no/such/program")
            self.assertEqual(done.returncode, 2)
            self.assertIn("/no/such/program", done.stderr)


if __name__ == "__main__":
    unittest.main()
