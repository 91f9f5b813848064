"""containers/two-machines.py over a real link of 0.1 Gbit/s, which takes a step's communication ten times as long as what
this machine adds to it. Usage: two_machines_test.py ROOT NOISEMARK. Skipped where there are no namespaces."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, PROGRAM = sys.argv.pop(1), sys.argv.pop(1)
SCRIPT = Path(ROOT) / "containers/two-machines.py"
SHORT = ["--rates", "0.1", "--steps", "12", "--set", "model.dim=32", "train.batch=4"]

# Sets half of the bandwidth that it was asked for.
HALF = """#!/bin/sh
for word do
  shift
  [ "$word" = 100mbit ] && word=50mbit
  set -- "$@" "$word"
done
exec {tc} "$@"
"""


def run(path=None):
    environment = os.environ | ({"PATH": path} if path else {})
    return subprocess.run([sys.executable, "-B", SCRIPT, PROGRAM, *SHORT], env=environment, capture_output=True,
                          text=True)


class TwoMachines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done = run()
        if cls.done.returncode == 77:
            print(cls.done.stdout)
            sys.exit(cls.done.returncode)

    def test_exposed_communication_is_as_predicted(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertIn("\n| 0.1 | ", self.done.stdout)

    def test_a_link_of_half_the_bandwidth_is_red(self):
        with tempfile.TemporaryDirectory() as folder:
            wrong = Path(folder) / "tc"
            wrong.write_text(HALF.format(tc=shutil.which("tc")))
            wrong.chmod(0o755)
            done = run(f"{folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("Not every rate", done.stdout)

    def test_without_the_tools_it_is_skipped_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(folder)
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("there is no `ip`", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
