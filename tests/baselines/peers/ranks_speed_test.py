"""ranks_speed.py beside the real DistributedDataParallel, in turns of one step, and its verdicts."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

import tiny
import peers_required
import ranks_speed
from endings import exit_code_of

try:
    import training
except ImportError as error:
    peers_required.cannot_import(error)

NOISEMARK = os.environ.get("NOISEMARK_PROGRAM", "")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(tiny.PEERS / "ranks_speed.py"), *map(str, words)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


class RanksSpeedTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "out"

    def test_times_both_and_compares_what_a_rank_takes(self) -> None:
        done = run("--noisemark", NOISEMARK, "--out", self.out, "--rounds", 1, "--steps", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        record = json.loads((self.out / "ranks.json").read_text())
        self.assertEqual([c["name"] for c in record["contestants"]], ["peer", "ours"])
        # Each rank holds its weights, an average, two moments and its gradients of the same network.
        ours, peer = record["peak_bytes"]["ours"], record["peak_bytes"]["peer"]
        self.assertLess(abs(ours - peer), 0.1 * peer)
        self.assertGreater(record["exposed_part"], 0)
        self.assertNotIn(str(Path(NOISEMARK).parent), (self.out / "ranks.json").read_text())
        self.assertEqual(len([line for line in done.stdout.splitlines() if line.startswith(("pass: ", "FAIL: "))]), 3)

    def test_fails_its_gate_for_each_of_the_three_figures(self) -> None:
        turn = {"step_s": [1.0], "exposed_s": [0.1], "communication_s": [1.0]}
        sides = [{"name": name, "ready": {"batch": 1}, "turns": [turn, turn]} for name in ("peer", "ours")]
        record = {"warmup_rounds": 1, "contestants": sides, "peak_bytes": {"ours": 10, "peer": 10}, "exposed_part": 0.5}
        slow = {**turn, "step_s": [2.0]}
        faults = [
            {"contestants": [sides[0], {**sides[1], "turns": [slow, slow]}]},
            {"peak_bytes": {"ours": 11, "peer": 10}},
            {"exposed_part": 0.51},
        ]
        for changed, failed in [({}, 0), *((fault, 1) for fault in faults)]:
            with redirect_stdout(io.StringIO()):
                verdicts = ranks_speed.verdicts_of({**record, **changed})
            self.assertEqual(sum(not verdict.passed for verdict in verdicts), failed, changed)

    def test_refuses_a_folder_that_is_there_and_a_batch_that_cannot_be_divided(self) -> None:
        self.out.mkdir()
        done = run("--noisemark", NOISEMARK, "--out", self.out)
        self.assertEqual(done.returncode, 2)
        self.assertIn("(a new folder)", done.stderr)

        def trainer() -> int:
            definition = type("Definition", (dict,), {"name": "tiny"})(tiny.HO)
            training.PeerTrainer(definition, None, None, "fp32", training.torch.device("cpu"), ranks=3)
            return 0

        self.assertEqual(exit_code_of(trainer), 2)


if __name__ == "__main__":
    unittest.main()
