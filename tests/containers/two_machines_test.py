"""containers/two-machines.py over a real link of 0.1 Gbit/s, which takes a step's communication ten times as long as what
this machine adds to it. Usage: two_machines_test.py ROOT NOISEMARK. Skipped where there are no namespaces."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, PROGRAM = sys.argv.pop(1), sys.argv.pop(1)
SCRIPT = Path(ROOT) / "containers/two-machines.py"
SHORT = ["--rates", "0.1", "--steps", "12", "--rounds", "1", "--set", "model.dim=32", "train.batch=4"]

# Sets half of the bandwidth that it was asked for.
HALF = """#!/bin/sh
for word do
  shift
  [ "$word" = 100mbit ] && word=50mbit
  set -- "$@" "$word"
done
exec {tc} "$@"
"""


# A kernel without netem.
NO_NETEM = """#!/bin/sh
case "$*" in *netem*) exit 2;; esac
exec {tc} "$@"
"""

# Delays nothing, and says that it does.
NO_DELAY = """#!/bin/sh
case "$*" in *netem*) exit 0;; esac
exec {tc} $(echo "$*" | sed "s/parent 1:1/root/")
"""


def run(path=None, more=()):
    environment = os.environ | ({"PATH": path} if path else {})
    return subprocess.run([sys.executable, "-B", SCRIPT, PROGRAM, *SHORT, *more], env=environment, capture_output=True,
                          text=True)


def run_with(tc, more=()):
    """With another `tc`."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "tc"
        other.write_text(tc.format(tc=shutil.which("tc")))
        other.chmod(0o755)
        return run(f"{folder}:{os.environ['PATH']}", more)


class Model(unittest.TestCase):
    def test_a_piece_of_each_half_of_a_bucket_is_hidden_by_nothing(self):
        script = runpy.run_path(str(SCRIPT))
        mib = 1 << 20
        self.assertEqual(list(script["bucket_bytes"](30 * mib)), [mib, 25 * mib, 4 * mib])
        # A bucket of one piece has two for each rank; 10 MiB have five of 1 MiB for each rank.
        self.assertAlmostEqual(script["unhidden_part"](mib // 4), 1 / 2)
        self.assertAlmostEqual(script["unhidden_part"](11 * mib), (1 / 2 + 10 / 5) / 11)


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
        done = run_with(HALF)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("Not every rate", done.stdout)

    def test_four_delays_of_every_exchange_are_part_of_the_prediction(self):
        done = run_with(NO_DELAY, ["--delay-ms", "50"])
        row = re.search(r"^\| 0\.1 \| (.*) \|$", done.stdout, re.MULTILINE)
        self.assertIsNotNone(row, done.stdout + done.stderr)
        term, first, delay, hidden, predicted = map(float, row.group(1).split(" | ")[:5])
        host = float(re.search(r"([0-9.]+) ms without a limit", done.stdout).group(1))
        # Two buckets of gradients, or one, and the loss.
        self.assertIn(delay, (2 * 4 * 50, 3 * 4 * 50))
        self.assertAlmostEqual(predicted, max(term, host) + first + delay - hidden, delta=0.3)  # six roundings to 0.1

    def test_a_kernel_that_cannot_delay_is_named_and_links_have_no_delay(self):
        done = run_with(NO_NETEM, ["--delay-ms", "50"])
        self.assertIn("This kernel has no netem", done.stdout, done.stderr)
        self.assertRegex(done.stdout, r"\n\| 0\.1 \| [0-9.]+ \| [0-9.]+ \| 0\.0 \| ")

    def test_without_the_tools_it_is_skipped_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(folder)
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("there is no `ip`", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
