"""baselines/study/patches.py with the real program: patches_test.py NOISEMARK. Skipped without NumPy."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests/parity"), str(ROOT / "baselines/study")]

import peers_required  # noqa: E402

try:
    import numpy
    import patches
except ImportError as missing:
    peers_required.cannot_import(missing)

PROGRAM = sys.argv.pop(1)


def run(*words):
    return subprocess.run([sys.executable, "-B", patches.__file__, *words], capture_output=True, text=True)


class Study(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        # The training is too short to pass a gate, and its weights are as good as any.
        subprocess.run([PROGRAM, "run", "gmm16@cpu", "--device", "cpu", "--threads", "1", "--no-memory", "--no-profile",
                        "--set", "train.steps=20", "--set", "eval.samples=8", "--out", str(cls.folder / "weights")],
                       capture_output=True)
        cls.words = ["run", "--noisemark", PROGRAM, "--weights", str(cls.folder / "weights"), "--samples", "8", "--batch", "4",
                     "--steps", "7", "--out", str(cls.folder / "study")]
        cls.done = run(*cls.words)

    def row(self, mode):
        row = next(line for line in self.done.stdout.splitlines() if line.startswith(f"| 7 | {mode} |"))
        return [cell.strip() for cell in row.split("|")[1:-1]]

    def test_all_sets_lie_side_by_side_with_their_bytes_and_times(self):
        self.assertIn(self.done.returncode, (0, 1), self.done.stderr)
        self.assertIn("gmm16, weights after 20 steps of training, 8 samples in batches of 4.", self.done.stdout)
        self.assertEqual(self.row("serial")[2], "")
        for mode in ("displaced", "no_sync"):
            counted, formula, step_ms, predicted_ms = self.row(mode)[5:9]
            self.assertEqual(counted, formula)
            self.assertGreater(float(step_ms), 0)
            self.assertGreater(float(predicted_ms), 0)
        self.assertIn("pass: 7 steps, displaced: a rank gives the bytes of the formula", self.done.stdout)

    def test_goes_on_where_it_was_stopped(self):
        serial = self.folder / "study/7-serial/samples.npy"
        before = serial.stat().st_mtime_ns
        (self.folder / "study/7-no_sync/sampling.json").unlink()
        again = run(*self.words)
        self.assertIn("| 7 | no_sync |", again.stdout, again.stderr)
        self.assertEqual(serial.stat().st_mtime_ns, before)

    def test_a_folder_that_is_no_study_is_refused(self):
        done = run("table", "--noisemark", PROGRAM, "--out", str(self.folder / "weights"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("lacks samples of one process", done.stderr)


def drawn(off, distance, counted=8):
    steps = [{"steps": 1, "bytes": counted, "bytes_by_formula": 8}]
    return patches.Drawn({"patches": {"steps": steps}}, numpy.full((2, 2), off), distance)


def failed(**sets):
    return [words for good, words in patches.findings({10: {"serial": drawn(0, 100)} | sets}) if not good]


class Findings(unittest.TestCase):
    def test_are_good_where_everything_is_as_it_must_be(self):
        self.assertEqual(failed(displaced=drawn(0.05, 100.9), no_sync=drawn(0.1, 120)), [])

    def test_are_bad_where_one_thing_is_not(self):
        for sets, words in (({"displaced": drawn(0.05, 101.1)}, "its distance is +1.10% beside serial"),
                            ({"displaced": drawn(0.05, 98.9)}, "its distance is -1.10% beside serial"),
                            ({"displaced": drawn(0.07, 100)}, "displaced is 29.1 dB"),
                            ({"displaced": drawn(0.05, 100, counted=9)}, "the bytes of the formula"),
                            ({"displaced": drawn(0.05, 100), "no_sync": drawn(0.05, 100)}, "is farther")):
            found = failed(**sets)
            self.assertEqual(len(found), 1)
            self.assertIn(words, found[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
