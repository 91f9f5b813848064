"""broken_run_test.py NOISEMARK: the quality gate of gmm16 turns red when a locked run does not learn."""

import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LOCKED = ["gmm16@cpu", "--device", "cpu", "--no-memory", "--no-profile"]


def run(out, *more):
    """The finished process; its result is in `out`."""
    return subprocess.run([NOISEMARK, "run", *LOCKED, "--out", out, *more], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)


def zeroed(safetensors):
    """The same tensors, every bit of them 0: a network whose output no weight can change but the last bias."""
    header = 8 + struct.unpack("<Q", safetensors[:8])[0]
    return safetensors[:header] + bytes(len(safetensors) - header)


class BrokenRun(unittest.TestCase):
    def test_a_network_that_cannot_learn_fails_the_gate(self):
        with tempfile.TemporaryDirectory() as folder:
            first, weights, out = Path(folder, "first"), Path(folder, "zero.safetensors"), Path(folder, "out")
            self.assertEqual(run(first, "--set", "train.steps=1").returncode, 0)
            weights.write_bytes(zeroed((first / "weights.safetensors").read_bytes()))
            done = run(out, "--init-weights", weights)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertTrue(done.stdout.startswith("FAIL"), done.stdout)
            result = json.loads((out / "result.json").read_text())
            self.assertFalse(result["identity"]["custom"])
            failed = [gate["name"] for gate in result["gates"] if gate["verdict"] == "fail"]
            self.assertEqual(failed, ["excess_loss"])
            self.assertIn("excess_loss", result["exit"]["reasons"][0])


if __name__ == "__main__":
    NOISEMARK = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
