"""gpu_program_test.py NOISEMARK: the program itself on a GPU, in runs under memory modes and with a recorded step.

Exit code 77: no GPU here. With NOISEMARK_REQUIRE=cuda the program fails there, and so does this.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CANNOT_RUN_HERE = 77
BYTES_OF_FLOAT = 4


def noisemark(*words):
    return subprocess.run([NOISEMARK, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


class GpuProgram(unittest.TestCase):
    def result_of(self, mode, baseline):
        """Of a run that ended well, and whose result is whole and consistent."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = Path(folder.name) / "run"
        done = noisemark("run", "gmm16-ho", "--device", "cuda", "--mode", mode, "--baseline", baseline,
                         "--out", str(out))
        if done.returncode == CANNOT_RUN_HERE:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)
        checked = noisemark("check", str(out))
        self.assertEqual(checked.returncode, 0, checked.stdout)
        return json.loads((out / "result.json").read_text())

    def expect_followed(self, result):
        """Every byte was heard of: no fewer than the weights must have."""
        memory = result["memory"]
        parameters = result["utilization"]["parameters"]
        self.assertTrue(memory["measured"], memory["missing_reason"])
        self.assertGreater(parameters, 0)
        self.assertGreater(memory["peak_bytes"], 0)
        self.assertTrue(memory["boundaries"])
        for boundary in memory["boundaries"]:
            self.assertGreaterEqual(boundary["by_category"]["weights"], BYTES_OF_FLOAT * parameters, boundary["at"])

    def test_a_run_without_a_mode_follows_every_byte(self):
        self.expect_followed(self.result_of("none", "plain"))

    def test_a_run_under_echo_follows_every_byte_and_saves_fewer(self):
        result = self.result_of("echo", "plain")
        self.expect_followed(result)
        plain = result["memory_mode"]["plain"]["peak_saved_bytes"]
        self.assertLess(result["memory"]["peak_saved_bytes"], plain, "no hook of the mode was called")

    def test_a_run_under_gist_follows_every_byte(self):
        self.expect_followed(self.result_of("gist", "plain"))

    def test_a_run_with_a_recorded_step_follows_every_byte(self):
        result = self.result_of("none", "cuda-graph")
        self.expect_followed(result)
        training = result["memory"]["training"]
        self.assertGreater(training["repeated_steps"], 0)
        self.assertGreater(training["recording_bytes"], 0, training["missing_reason"])
        self.assertGreaterEqual(training["peak_reserved_bytes"], training["recording_bytes"])


if __name__ == "__main__":
    NOISEMARK = sys.argv[1]
    done = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    if not done.wasSuccessful():
        sys.exit(1)
    sys.exit(CANNOT_RUN_HERE if done.skipped else 0)
