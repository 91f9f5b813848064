"""The memory table with the real peers in it."""

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
from pages import read

NOISEMARK = os.environ["NOISEMARK_PROGRAM"]


class MemoryTableWithPeersTest(unittest.TestCase):
    def test_peers_stand_beside_the_modes_with_what_is_not_alike(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "memory"
            done = subprocess.run(
                [sys.executable, "-B", tiny.PEERS / "memory_table.py", f"--noisemark={NOISEMARK}",
                 f"--data={folder}", f"--out={out}", "--threads=1", "--rounds=1", "--warmup-rounds=0",
                 "--benchmark=gmm16-ho", "--batch=4", "--modes=echo", "--budgets",
                 "--variants", "checkpoint", "save-on-cpu"],
                text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = read(out / "memory.md")
            results = {file.parent.name: json.loads(file.read_text())
                       for file in out.glob("results/*/result.json")}
            data = (out / "plots" / "pareto.dat").read_text()
        self.assertNotIn("Cannot run here", text)
        peers = ["peer-eager", "peer-checkpoint", "peer-save-on-cpu"]
        self.assertEqual(set(results), {"none", "echo", *peers})
        for peer in peers:
            self.assertEqual(results[peer]["definition"], results["none"]["definition"])
            self.assertTrue(results[peer]["identity"]["custom"])
            self.assertIn(f"\n| {peer} | ", text)
        self.assertIn("- No peak_saved_bytes of peer-eager, peer-checkpoint, ", text)
        self.assertIn("casts of weights", text)
        self.assertIn("## Against peer-checkpoint", text)
        self.assertIn('"peer-checkpoint"', data)


if __name__ == "__main__":
    for module in ("torch", "ema_pytorch", "diffusers", "denoising_diffusion_pytorch"):
        try:
            importlib.import_module(module)
        except ImportError as error:
            peers_required.cannot_import(error)
    unittest.main()
