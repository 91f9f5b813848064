"""listed_test.py NOISEMARK CTEST: `ctest -L benchmark` has a test for every mode of every run of the smoke suite."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ADD_BENCHMARKS = Path(__file__).resolve().parent / "add_benchmarks.cmake"


def listing():
    """Returns what the program lists."""
    return json.loads(subprocess.run([NOISEMARK, "list", "--json"], check=True, capture_output=True).stdout)


def expected_tests(listed):
    """Their names, in order."""
    modes = {f"{benchmark['id']}@{scale}": at["modes"]
             for benchmark in listed["benchmarks"] for scale, at in benchmark["scales"].items()}
    smoke = next(suite for suite in listed["suites"] if suite["name"] == "smoke")
    return [f"benchmark.{run}.{mode}" for run in smoke["runs"] for mode in modes[run]]


def ctest_names(program, folder):
    """Returns what ctest finds for this program."""
    (folder / "CTestTestfile.cmake").write_text(
        f'include("{ADD_BENCHMARKS}")\nnoisemark_add_benchmarks("{program}" "{folder}")\n')
    done = subprocess.run([CTEST, "-N", "-L", "^benchmark$"], cwd=folder, check=True, capture_output=True, text=True)
    return re.findall(r"Test +#[0-9]+: (\S+)", done.stdout)


class Listed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_every_mode_of_every_run_is_a_test(self):
        expected = expected_tests(listing())
        self.assertIn("benchmark.gmm16@cpu.none", expected)
        self.assertEqual(ctest_names(NOISEMARK, self.folder), expected)

    def test_a_mode_that_a_definition_gains_becomes_a_test(self):
        listed = listing()
        listed["benchmarks"][0]["scales"]["cpu"]["modes"].append("echo+attn")
        (self.folder / "list.json").write_text(json.dumps(listed))
        program = self.folder / "noisemark"
        program.write_text(f"#!/bin/sh\ncat '{self.folder}/list.json'\n")
        program.chmod(0o755)
        expected = expected_tests(listed)
        self.assertIn("benchmark.gmm16@cpu.echo+attn", expected)
        self.assertEqual(ctest_names(program, self.folder), expected)


if __name__ == "__main__":
    NOISEMARK, CTEST = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
