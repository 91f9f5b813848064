"""The real peers, trained for a few steps on tiny definitions."""

import contextlib
import io
import json
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import tiny
import peers_required
from definition import Definition, canonical_text
from endings import CannotRunHere
from peer_result import repeat_command
from run_peer import main

try:
    from networks import build_network
except ImportError as error:
    peers_required.cannot_import(error)

PHASES = ("data_wait_s", "forward_s", "backward_s", "optimizer_s", "ema_s")


class RunPeerTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def definition(self, sections: dict[str, Any]) -> Path:
        path = self.folder / "definition.json"
        path.write_text(canonical_text(sections))
        return path

    def run_peer(self, sections: dict[str, Any], *arguments: str) -> tuple[int, str]:
        """Exit code and standard error."""
        complaints = io.StringIO()
        with contextlib.redirect_stderr(complaints), contextlib.redirect_stdout(io.StringIO()):
            code = main([f"--definition={self.definition(sections)}", "--threads=1", *arguments])
        return code, complaints.getvalue()

    def result(self, sections: dict[str, Any], *arguments: str) -> dict[str, Any]:
        out = self.folder / "out"
        code, complaints = self.run_peer(sections, f"--out={out}", *arguments)
        self.assertEqual(code, 0, complaints)
        return json.loads((out / "result.json").read_text())

    def test_measures_every_step_of_a_lucid_run(self) -> None:
        result = self.result(tiny.LUCID)
        samples = result["samples"]
        self.assertEqual(len(samples["step_s"]), 3)
        for i, step_s in enumerate(samples["step_s"]):
            parts = sum(samples[phase][i] for phase in PHASES)
            self.assertAlmostEqual(parts, step_s, delta=0.05 * step_s)
        self.assertEqual(result["identity"]["framework"], "peer:eager")
        self.assertEqual(result["gates"][0]["verdict"], "not_applied")
        self.assertEqual(result["exit"], {"code": 0, "status": "custom", "reasons": []})
        self.assertGreater(result["metrics"][0]["value"], 0)

    def test_the_command_in_a_result_repeats_it_into_another_folder(self) -> None:
        result = self.result(tiny.LUCID, "--steps=1")
        self.assertEqual(result["metrics"][0]["unit"], "images/s")
        words = shlex.split(result["repeat_command"])
        self.assertEqual(words[-2:], ["--out", "NEW-FOLDER"])
        again = self.folder / "again"
        done = subprocess.run([*words[:-1], again], cwd=tiny.PEERS.parents[1], text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        repeated = json.loads((again / "result.json").read_text())
        self.assertEqual(repeated["samples"]["loss"], result["samples"]["loss"])

    def test_the_command_that_repeats_a_run_leaves_out_where_it_went(self) -> None:
        for out in (["--out", "there"], ["--out=there"]):
            command = repeat_command(["--id", "x", *out, "--threads", "1"])
            self.assertTrue(command.endswith("run_peer.py --id x --threads 1 --out NEW-FOLDER"), command)

    def test_runs_ho_in_bf16_and_channels_last_with_other_steps_as_custom(self) -> None:
        result = self.result(tiny.HO, "--variant=channels-last", "--precision=bf16", "--steps=2")
        identity = result["identity"]
        self.assertEqual(identity["framework"], "peer:channels-last")
        self.assertEqual(identity["precision"], "bf16")
        self.assertEqual(identity["overrides"], ["train.steps=2"])
        self.assertTrue(identity["custom"])
        self.assertEqual(len(result["samples"]["loss"]), 2)

    def test_memory_is_in_the_metrics_where_the_definition_asks_for_it(self) -> None:
        sections = {**tiny.HO, "measure": {"memory_steps": 3, "profile_steps": 0}}
        result = self.result(sections, "--variant=checkpoint")
        metrics = {metric["name"]: metric for metric in result["metrics"]}
        peak, saved = metrics["peak_bytes"], metrics["saved_bytes"]
        self.assertEqual((peak["unit"], peak["statistic"]), ("bytes", "exact"))
        self.assertGreater(peak["value"], saved["value"])
        self.assertGreater(saved["value"], 0)
        self.assertIsNone(metrics["peak_saved_bytes"]["value"])
        self.assertIn("not known", metrics["peak_saved_bytes"]["missing_reason"])
        self.assertEqual(result["protocol"]["memory_steps"], 2)
        self.assertEqual(len(result["samples"]["step_s"]), 3)

    def test_memory_that_was_not_asked_for_is_missing_with_a_reason(self) -> None:
        metrics = self.result(tiny.LUCID)["metrics"]
        missing = {metric["name"]: metric["missing_reason"] for metric in metrics
                   if metric["value"] is None}
        self.assertEqual(set(missing), {"peak_bytes", "saved_bytes", "peak_saved_bytes"})
        self.assertTrue(all(missing.values()))

    def test_serves_turns_and_says_nothing_else_on_standard_output(self) -> None:
        command = [sys.executable, str(tiny.RUN_PEER), "--pace", "--threads=1",
                   f"--definition={self.definition(tiny.LUCID)}"]
        done = subprocess.run(command, input="run 2\nrun 1\nwalk\n", text=True, capture_output=True)
        ready, first, second = map(json.loads, done.stdout.splitlines())
        self.assertEqual((ready["ready"], ready["batch"], ready["threads"]), (True, 4, 1))
        self.assertEqual((len(first["step_s"]), len(second["step_s"])), (2, 1))
        self.assertEqual(len(first["loss"]), 2)
        self.assertEqual(done.returncode, 2)  # the last line decides
        self.assertIn("walk", done.stderr)

    def test_refuses_bad_input(self) -> None:
        out = f"--out={self.folder}"
        cifar = {**tiny.LUCID, "data": {"name": "cifar10", "flip": True}}
        for expected, code_and_words in (
            ("--steps", self.run_peer(tiny.LUCID, out, "--steps=0")),
            ("--variant", self.run_peer(tiny.LUCID, out, "--variant=faster")),
            ("--precision: tf32", self.run_peer(tiny.LUCID, out, "--precision=tf32")),
            ("--data", self.run_peer(cifar, out)),
            ("data_batch_1.bin", self.run_peer(cifar, out, f"--data={self.folder}")),
        ):
            self.assertEqual(code_and_words[0], 2)
            self.assertIn(expected, code_and_words[1])
        (self.folder / "data_batch_1.bin").write_bytes(bytes(3074))
        self.assertIn("3074 bytes", self.run_peer(cifar, out, f"--data={self.folder}")[1])

    def test_never_overwrites_a_result(self) -> None:
        (self.folder / "result.json").write_text("{}")
        self.assertEqual(self.run_peer(tiny.LUCID, f"--out={self.folder}")[0], 2)
        self.assertEqual((self.folder / "result.json").read_text(), "{}")

    def test_what_no_peer_has_cannot_run_here(self) -> None:
        pooled = {**tiny.HO, "model": {**tiny.HO["model"], "downsample": "max_pool"}}
        with self.assertRaisesRegex(CannotRunHere, "max_pool"):
            build_network(Definition("", pooled))
        self.assertEqual(self.run_peer(pooled, f"--out={self.folder}")[0], 77)

    def test_live_peers_are_paced_against_each_other(self) -> None:
        peer = (f"{sys.executable} {tiny.RUN_PEER} --definition {self.definition(tiny.LUCID)} "
                "--threads 1 --pace")
        done = subprocess.run(
            [sys.executable, str(tiny.PACE), "--rounds=2", "--warmup-rounds=1", "--steps=1",
             f"eager={peer}", f"channels-last={peer} --variant channels-last"],
            text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("\n"), 4)


if __name__ == "__main__":
    unittest.main()
