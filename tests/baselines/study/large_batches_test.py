"""baselines/study/large_batches.py with the real program: large_batches_test.py NOISEMARK. Skipped without SciPy."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests/parity"), str(ROOT / "baselines/study")]

import peers_required  # noqa: E402

try:
    import large_batches
except ImportError as missing:
    peers_required.cannot_import(missing)

PROGRAM = sys.argv.pop(1)
SMALL = ["--noisemark", PROGRAM, "--samples", "64", "--factors", "1", "2", "--rules", "linear", "--seeds", "2"]


def run(*words):
    return subprocess.run([sys.executable, "-B", large_batches.__file__, *words], capture_output=True, text=True)


def trained(losses, batch=16):
    return large_batches.Trained(losses, batch, 6400 // batch, 1e-3, "gmm16 {}")


class Study(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory())) / "study"
        cls.done = run("run", "--out", str(cls.folder), *SMALL)

    def results(self):
        return {path: path.read_bytes() for path in self.folder.glob("*/*/result.json")}

    def test_every_cell_sees_the_same_samples_at_the_rate_of_its_rule(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertIn("gmm16, 64 samples in every training, 2 seeds.", self.done.stdout)
        self.assertIn("| 1 | none | 16 | 4 | 0.001 |", self.done.stdout)
        self.assertIn("| 2 | linear | 32 | 2 | 0.002 |", self.done.stdout)

    def test_goes_on_where_it_was_stopped_and_prints_the_same(self):
        before = self.results()
        self.assertEqual(len(before), 4)
        lost = next(iter(before))
        lost.unlink()
        self.assertEqual(run("run", "--out", str(self.folder), *SMALL).stdout, self.done.stdout)
        after = self.results()
        self.assertEqual(set(after), set(before))
        self.assertEqual({path for path in after if after[path] != before[path]}, {lost})

    def test_a_folder_that_is_no_study_is_refused(self):
        self.assertEqual(run("table", *SMALL[:2], "--out", str(self.folder / "none-1")).returncode, 2)

    def test_quality_judges_every_cell_and_wants_more_seeds(self):
        rows = [line for line in self.done.stdout.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertTrue(row.endswith("| INCONCLUSIVE |"), row)

    def test_every_cell_is_a_sweep_over_the_seeds(self):
        for cell in ("none-1", "linear-2"):
            self.assertIn("2 of 2 cells ended", (self.folder / cell / "sweep.md").read_text())

    def test_samples_that_are_no_whole_number_of_batches_are_refused(self):
        done = run("run", "--out", str(self.folder / "other"), *SMALL, "--factors", "1", "3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--factors: 3: 64 samples", done.stderr)


class Verdict(unittest.TestCase):
    def test_the_interval_is_that_of_a_mean_of_as_many_further_trainings(self):
        # Student's t of 2 degrees of freedom at 97.5 % is 4.3027 in every table of it; the standard deviation is 1.
        self.assertAlmostEqual(large_batches.upper_end([1, 2, 3]), 2 + 4.3027 * (2 / 3) ** 0.5, places=4)

    def test_a_loss_that_is_kept_again_behind_one_that_is_not_does_not_count(self):
        study = {large_batches.Cell("none", 1): trained([1, 2, 3]),
                 large_batches.Cell("linear", 2): trained([5, 5, 5]),
                 large_batches.Cell("linear", 4): trained([9, 9, 9]),
                 large_batches.Cell("linear", 8): trained([2, 2, 2])}
        self.assertTrue(large_batches.table(study, dict.fromkeys(study, "PASS")).endswith(
            "The loss is kept by `linear` up to k = 2, `none` up to k = 1."))


if __name__ == "__main__":
    unittest.main(verbosity=2)
