"""Sampling timed beside the real peer, as short as it can be."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny
import peers_required

NOISEMARK = os.environ["NOISEMARK_PROGRAM"]


def timed(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", tiny.PEERS / "sampling_speed.py", *arguments]
    return subprocess.run(list(map(str, command)), text=True, capture_output=True)


class SamplingSpeedTest(unittest.TestCase):
    def test_both_sides_draw_in_turns(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "sampling.json"
            done = timed(f"--noisemark={NOISEMARK}", f"--out={out}", "--ddim-steps=2", "--batch=2",
                         "--batches=2", "--rounds=1", "--warmup-rounds=1", "--threads=1",
                         "--variants", "eager", "--baselines", "fused+channels-last")
            self.assertEqual(done.returncode, 0, done.stderr)
            record = json.loads(out.read_text())
        self.assertEqual(record["order"], ["peer-eager", "fused+channels-last",
                                           "fused+channels-last", "peer-eager"])
        self.assertEqual((record["benchmark"], record["ddim_steps"], record["threads"]), ("gmm16@cpu", 2, 1))
        for contestant in record["contestants"]:
            self.assertEqual(contestant["ready"]["batch"], 2)
            self.assertGreater(min(contestant["turns"][1]["step_s"]), 0)
        self.assertIn("ratio to peer-eager", done.stdout)

    def test_a_program_that_is_not_there_is_bad_input(self) -> None:
        self.assertEqual(timed("--noisemark=absent").returncode, 2)


if __name__ == "__main__":
    for module in ("torch", "diffusers", "denoising_diffusion_pytorch", "safetensors"):
        try:
            importlib.import_module(module)
        except ImportError as error:
            peers_required.cannot_import(error)
    unittest.main()
