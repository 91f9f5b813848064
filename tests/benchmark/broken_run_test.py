"""broken_run_test.py NOISEMARK: the quality gate of gmm16 turns red when a locked run has not learned.

Training the whole benchmark takes minutes, so the run is one whose training got lost: its checkpoint holds the weights of
the first steps and says that all steps but one are done. It makes that step, is evaluated and judged like any other.
"""

import json
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

LOCKED = ["gmm16@cpu", "--device", "cpu", "--no-memory", "--no-profile"]
FIRST_STEPS = 10


def command(out, *more):
    return [NOISEMARK, "run", *LOCKED, "--out", out, *more]


def begin(out):
    """A locked run that is interrupted once it has written a checkpoint; its exit code."""
    with subprocess.Popen(command(out, "--checkpoint-every", "1"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (out / "checkpoint.safetensors").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        return process.wait()


def change_step(checkpoint, step):
    """Makes the file claim `step`; its tensors and their checksum stay. Returns what it said before."""
    content = checkpoint.read_bytes()
    begin_of_tensors = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:begin_of_tensors])
    before = int(header["__metadata__"]["step"])
    header["__metadata__"]["step"] = str(step)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    checkpoint.write_bytes(struct.pack("<Q", len(text)) + text + content[begin_of_tensors:])
    return before


def train_steps():
    """Returns the steps of the locked definition."""
    listed = json.loads(subprocess.run([NOISEMARK, "list", "--json"], check=True, capture_output=True).stdout)
    benchmark = next(benchmark for benchmark in listed["benchmarks"] if benchmark["id"] == "gmm16")
    return benchmark["scales"]["cpu"]["definition"]["train"]["steps"]


class BrokenRun(unittest.TestCase):
    def test_a_run_that_has_not_learned_fails_the_gate(self):
        steps = train_steps()
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out")
            self.assertEqual(begin(out), 130)
            learned = change_step(out / "checkpoint.safetensors", steps - 1)
            self.assertLessEqual(learned, FIRST_STEPS)
            done = subprocess.run(command(out, "--resume"), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertTrue(done.stdout.startswith("FAIL"), done.stdout)
            result = json.loads((out / "result.json").read_text())
            self.assertFalse(result["identity"]["custom"])
            self.assertEqual(result["quality"]["evaluations"][-1]["step"], steps)
            failed = [gate["name"] for gate in result["gates"] if gate["verdict"] == "fail"]
            self.assertEqual(failed, ["excess_loss"])
            self.assertIn("excess_loss", result["exit"]["reasons"][0])


if __name__ == "__main__":
    NOISEMARK = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
