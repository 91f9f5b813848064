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
    def result_of(self, mode, baseline, *more):
        """Returns the result of a run that ended well, and whose result is whole and consistent."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = Path(folder.name) / "run"
        done = noisemark("run", "gmm16-ho", "--device", "cuda", "--mode", mode, "--baseline", baseline,
                         "--out", str(out), *more)
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

    def expect_convolutions(self, result):
        """By which kernels they were computed, and what scratch memory they took."""
        run = result["utilization"]["convolutions"]
        self.assertTrue(run["measured"], run["missing_reason"])
        self.assertIn("forward", {kernel["direction"] for kernel in run["kernels"]})
        for kernel in run["kernels"]:
            self.assertEqual([len(kernel[sizes]) for sizes in ("input", "weight", "stride")], [4, 4, 2], kernel)
        scratch = result["memory"]["convolution_workspace"]
        self.assertIsNotNone(scratch["largest_bytes"], scratch["missing_reason"])

    def test_a_run_without_a_mode_follows_every_byte(self):
        result = self.result_of("none", "plain")
        self.expect_followed(result)
        self.expect_convolutions(result)

    def test_a_sweep_over_limits_and_benchmark_mode_records_both(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "sweep"
            done = noisemark("sweep", "gmm16-ho", "--device", "cuda", "--axis", "cudnn.workspace_mib=1,256",
                             "--axis", "baseline=plain,autotuned", "--out", str(out))
            if done.returncode == CANNOT_RUN_HERE:
                self.skipTest(done.stdout)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("4 of 4 cells ended, 4 custom (no gate failed", (out / "sweep.md").read_text())
            for mib in (1, 256):
                for baseline, timed in (("plain", "off"), ("autotuned", "on")):
                    cell = out / f"cudnn.workspace_mib={mib},baseline={baseline}" / "result.json"
                    result = json.loads(cell.read_text())
                    self.expect_convolutions(result)
                    self.assertEqual(result["memory"]["convolution_workspace"]["limit_bytes"], mib << 20)
                    self.assertEqual(result["environment"]["torch_cudnn_benchmark"], timed)
            table = noisemark("table", str(out)).stdout
            self.assertIn("| limit was", table)

    def test_a_run_under_echo_follows_every_byte_and_saves_fewer(self):
        result = self.result_of("echo", "plain")
        self.expect_followed(result)
        plain = result["memory_mode"]["plain"]["peak_saved_bytes"]
        self.assertLess(result["memory"]["peak_saved_bytes"], plain, "no hook of the mode was called")

    def test_a_run_under_gist_follows_every_byte(self):
        self.expect_followed(self.result_of("gist", "plain"))

    def test_every_kind_of_mode_keeps_the_bits_or_rounds_in_every_precision(self):
        for mode, baseline, precision in (
                ("echo", "fused+channels-last", "fp32"), ("echo+attn", "plain", "bf16"), ("echo", "fused", "bf16"),
                ("mirror+echo", "channels-last", "bf16"), ("offload", "plain", "bf16"), ("gist", "plain", "fp16"),
                ("echo", "plain", "tf32"), ("mirror", "plain", "fp16")):
            with self.subTest(mode=mode, baseline=baseline, precision=precision):
                result = self.result_of(mode, baseline, "--precision", precision)
                self.expect_followed(result)
                certificate = result["memory_mode"]["certificate"]
                self.assertEqual(certificate["verdict"], "pass", certificate)
                mixed = result["mixed_precision"]
                self.assertEqual(mixed["measured"], precision in ("bf16", "fp16"), mixed)
                if mixed["measured"]:
                    self.assertTrue(mixed["wide"], "norms stay in float32")
                skipped = [one for one in result["metrics"] if one["name"] == "skipped_steps"]
                self.assertTrue(precision != "fp16" or skipped[0]["value"] is not None, skipped)

    def test_modes_that_round_are_told_the_error_of_their_gradient(self):
        for mode in ("echo+dpr8", "q4"):
            with self.subTest(mode=mode):
                result = self.result_of(mode, "plain")
                self.expect_followed(result)
                self.assertIsNotNone(result["memory_mode"]["gradient_error"]["error_frac"], mode)

    def test_a_watched_step_is_kept_and_a_deterministic_run_ends(self):
        self.result_of("none", "plain", "--memory-snapshot", "--deterministic")

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
