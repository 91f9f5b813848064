"""torchrun_test.py NOISEMARK: the real torchrun starts the program unchanged, and its run is that of `--ranks 2`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "parity"))
import peers_required
from kills_of_ranks_test import processes_of

try:
    import torch.distributed.run as torchrun
except ImportError as missing:
    peers_required.cannot_import(missing)

RUN = ["run", "gmm16@cpu", "--device", "cpu", "--set", "train.batch=4", "--set", "eval.samples=8", "--set", "eval.every=0",
       "--no-profile", "--no-memory", "--timeout", "30"]


def by_torchrun(steps, out):
    words = [sys.executable, "-m", torchrun.__name__, "--standalone", "--no-python", "--nproc-per-node", "2",
             NOISEMARK, *RUN, "--set", f"train.steps={steps}", "--out", str(out)]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def result_in(out):
    return json.loads((out / "result.json").read_text())


def process_of_rank(out, rank):
    """Returns the process of a rank, or None."""
    return next((pid for pid, number in processes_of(out).items() if number == rank), None)


class Torchrun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "by-torchrun"
        self.own = Path(folder.name) / "by-ranks"

    def end_all(self, process):
        """Leaves nobody behind, whatever was asserted: later tests are timed."""
        process.kill()
        process.communicate()
        for rank in (0, 1):
            if (left := process_of_rank(self.out, rank)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)

    def test_starts_ranks_that_train_with_the_bits_of_our_own(self):
        process = by_torchrun(4, self.out)
        said, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said)
        own = subprocess.run([NOISEMARK, *RUN, "--set", "train.steps=4", "--ranks", "2", "--out", str(self.own)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(own.returncode, 0, own.stdout)
        ours, theirs = result_in(self.own), result_in(self.out)
        self.assertEqual(len(theirs["ranks"]), 2)
        self.assertEqual(theirs["samples"]["loss"], ours["samples"]["loss"])
        for one, other in zip(theirs["ranks"], ours["ranks"]):
            self.assertEqual(one["determinism"]["weights_sha256"], other["determinism"]["weights_sha256"])

    def test_is_told_when_a_rank_is_killed(self):
        process = by_torchrun(100_000, self.out)
        self.addCleanup(self.end_all, process)
        end = time.monotonic() + 60
        events = self.out / "events.mlog"
        while not (events.is_file() and "run_start" in events.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(events.is_file() and "run_start" in events.read_text(), "the training did not begin")
        killed = process_of_rank(self.out, 1)
        self.assertIsNotNone(killed)
        os.kill(killed, signal.SIGKILL)
        said, _ = process.communicate(timeout=120)
        self.assertNotEqual(process.returncode, 0, said)
        self.assertIsNone(process_of_rank(self.out, 0))
        # torchrun may end rank 0 before that has written why.
        if (self.out / "result.json").is_file():
            self.assertNotEqual(result_in(self.out)["exit"]["code"], 0)


if __name__ == "__main__":
    NOISEMARK = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
