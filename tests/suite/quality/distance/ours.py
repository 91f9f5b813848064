"""Our side of the distances, for the scripts that compare it with the peers: `noisemark fid --json` and
noisemark_score_probe, whose paths are a script's first two arguments."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

BINARY = ""
PROBE = ""


def features(seed, n, d, decades=3.0, shift=0.0):
    """Correlated features with eigenvalues over 2 * `decades` decades, float32."""
    rng = np.random.default_rng(seed)
    mix = np.linalg.qr(np.random.default_rng(99).standard_normal((d, d)))[0]
    scale = 10.0 ** -np.linspace(0, decades, d)
    return ((rng.standard_normal((n, d)) * scale) @ mix + shift).astype(np.float32)


class OursTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def save(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name

    def fid(self, *words):
        done = subprocess.run([BINARY, "fid", *map(str, words), "--device", "cpu", "--threads", "1"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout) if "--json" in words else done.stdout

    def score(self, logits, splits):
        done = subprocess.run([PROBE, logits, str(splits)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


def main():
    global BINARY, PROBE
    BINARY, PROBE = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
