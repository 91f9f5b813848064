"""selftest_test.py NOISEMARK: on this machine `noisemark selftest` is green, and red where a fault would pass.

The results go to $NOISEMARK_OUT/selftest, where that is set.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FAULTS = ["every step 5.0 % longer", "every step 10.0 % longer", "16.00 MiB leaked in every forward pass",
          "loss times 1.01", "1 B of a weight not counted"]


def selftest(*words, **variables):
    return subprocess.run([NOISEMARK, "selftest", *words], env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)


def rows(table):
    """Cells of the table's rows, by fault and what it was put into. A no-break space keeps units beside numbers."""
    lines = [[cell.strip() for cell in line.strip("|").replace("\u00a0", " ").split("|")]
             for line in table.splitlines() if line[:1] == "|"]
    return {(cells[0], cells[1]): cells[2:] for cells in lines[2:]}


class SelfTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(os.environ.get("NOISEMARK_OUT") or folder.name)

    def test_every_fault_is_caught_and_every_twin_passes(self):
        out = self.folder / "selftest"
        done = selftest("--out", out, "--force")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = rows(done.stdout)
        for (fault, _), (_, verdict, caught, as_it_must_be) in found.items():
            self.assertEqual(caught, "no" if fault == "none" else "yes", fault)
            self.assertEqual(verdict == "REGRESSION", fault != "none", fault)
            self.assertEqual(as_it_must_be, "yes", fault)
        self.assertEqual(sorted(fault for fault, _ in found), sorted([*FAULTS, "none", "none"]))
        self.assertEqual((out / "selftest.md").read_text(), done.stdout)
        base, leak, twin = (out / name for name in ("base", "leak", "real-twin"))
        for path in (base, leak, twin):
            self.assertTrue((path / "result.json").exists(), path)
        compared = subprocess.run([NOISEMARK, "compare", base, leak], capture_output=True, text=True, check=False)
        self.assertEqual(compared.returncode, 1, compared.stdout)
        again = selftest("--out", out)
        self.assertEqual(again.returncode, 2, "without --force it must leave what is there: " + again.stdout)

    def test_it_is_red_when_the_margin_is_so_wide_that_a_slow_down_passes(self):
        temporary = self.enterContext(tempfile.TemporaryDirectory())
        done = selftest("--noise-floor", "0.05", TMPDIR=temporary)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("# FAIL"), done.stdout)
        self.assertEqual(rows(done.stdout)[FAULTS[0], "recorded rounds"][2:], ["no", "no"], done.stdout)
        self.assertEqual(os.listdir(temporary), [], "without --out nothing must stay")

    def test_a_noise_floor_that_is_no_fraction_is_refused(self):
        for floor in ("5%", "-0.1", "1", "nan", ""):
            done = selftest("--noise-floor", floor)
            self.assertEqual(done.returncode, 2, floor + done.stdout)
            self.assertIn("--noise-floor", done.stderr)


if __name__ == "__main__":
    NOISEMARK = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
