"""The gates of speed on recorded turns: green where the figures are there, red where they are not."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import tiny
from endings import BadInput
from speed_gate import Gate, judge, read_record

# Lists what each script asks of whom, and how many times.
SCRIPTS = {
    "frechet_speed.py": {("noisemark", "pytorch-fid"): 10.0, ("noisemark", "torch-fidelity"): 3.0},
    "sampling_speed.py": {("fused+channels-last", "peer-eager"): 2.0},
    "inception_speed.py": {("ours, tf1-bilinear", "torch-fidelity"): 1.0,
                           ("ours, bilinear", "pytorch-fid"): 1.0},
}


def recorded(seconds: dict[str, list[float]], warmup_rounds: int = 0) -> dict[str, Any]:
    """As pace.measure() returns it, and what frechet_speed.py adds."""
    contestants = [{"name": name, "command": name, "ready": {"ready": True, "batch": 4},
                    "turns": [{"step_s": [s, s], "value": 5.0} for s in steps]}
                   for name, steps in seconds.items()]
    return {"steps_per_turn": 2, "warmup_rounds": warmup_rounds, "order": [], "contestants": contestants,
            "traces": 100.0}


def of_script(script: str, share: float) -> dict[str, Any]:
    """Peers that take `share` times the time that is asked of them, in eight rounds."""
    seconds: dict[str, list[float]] = {}
    for (ours, peer), least in SCRIPTS[script].items():
        seconds[ours] = [1.0] * 8
        seconds[peer] = [share * least] * 8
    return recorded(seconds)


class JudgeTest(unittest.TestCase):
    GATE = Gate("ours", "peer", 2.0)

    def judged(self, ours: list[float], peer: list[float], warmup_rounds: int = 0) -> Any:
        (verdict,) = judge(recorded({"ours": ours, "peer": peer}, warmup_rounds), [self.GATE])
        return verdict

    def test_the_median_of_the_ratios_within_rounds_decides(self) -> None:
        # The machine halves its speed in the second half: medians of each side alone would say the same
        # of both cases, the ratios within rounds do not.
        half = [1.0] * 4 + [2.0] * 4
        self.assertTrue(self.judged(half, [2.0 * s for s in half]).passed)
        verdict = self.judged(half, [1.9 * s for s in half])
        self.assertFalse(verdict.passed)
        self.assertEqual(verdict.words, "ours is 1.90 [1.90, 1.90] times as fast as peer (at least 2)")

    def test_one_lucky_round_does_not_make_it_green(self) -> None:
        self.assertFalse(self.judged([1.0] * 8, [90.0] + [1.5] * 7).passed)

    def test_the_lower_end_of_the_interval_is_told(self) -> None:
        words = self.judged([1.0] * 8, [1.2, 1.4, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0]).words
        self.assertIn("2.30 [1.20, 3.00]", words)

    def test_the_warmup_is_left_out(self) -> None:
        self.assertFalse(self.judged([1.0] * 3, [9.0, 9.0, 1.0], warmup_rounds=2).passed)

    def test_who_was_not_measured_fails(self) -> None:
        for record in (recorded({"ours": [1.0]}), recorded({"peer": [1.0]})):
            (verdict,) = judge(record, [self.GATE])
            self.assertFalse(verdict.passed)
            self.assertIn("was not measured", verdict.words)


class FileTest(unittest.TestCase):
    def refused(self, text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "turns.json")
            file.write_text(text)
            with self.assertRaises(BadInput):
                read_record(file)

    def test_turns_that_cannot_be_judged_are_refused(self) -> None:
        self.refused("")
        self.refused("[]")
        self.refused("{}")
        self.refused(json.dumps(recorded({})))
        self.refused(json.dumps(recorded({"a": [1.0, 1.0], "b": [1.0]})))
        self.refused(json.dumps(recorded({"a": [1.0]}, warmup_rounds=1)))
        self.refused(json.dumps(recorded({"a": [0.0]})))
        self.refused(json.dumps(recorded({"a": [float("nan")]})))
        without_batch = recorded({"a": [1.0]})
        del without_batch["contestants"][0]["ready"]["batch"]
        self.refused(json.dumps(without_batch))

    def test_an_absent_file_is_refused(self) -> None:
        with self.assertRaises(BadInput):
            read_record(Path("absent.json"))


class ScriptTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def ran(self, script: str, *words: object, python: tuple[str, ...] = ("-B",),
            **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *python, tiny.PEERS / script, *words]
        return subprocess.run(list(map(str, command)), text=True, capture_output=True, check=False,
                              env={**os.environ, **environment})

    def judged(self, script: str, record: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        file = self.folder / "turns.json"
        file.write_text(json.dumps(record))
        return self.ran(script, "--recorded", file, *words)

    def test_green_where_the_figures_are_there(self) -> None:
        for script in SCRIPTS:
            done = self.judged(script, of_script(script, 1.01), "--gate")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("FAIL", done.stdout)

    def test_red_where_they_are_not(self) -> None:
        for script in SCRIPTS:
            done = self.judged(script, of_script(script, 0.9), "--gate")
            self.assertEqual(done.returncode, 1, script + done.stderr)
            self.assertEqual(done.stdout.count("FAIL"), len(SCRIPTS[script]), done.stdout)
            self.assertEqual(self.judged(script, of_script(script, 0.9)).returncode, 0, "asked for no gate")

    def test_red_where_one_of_two_peers_is_too_near(self) -> None:
        for script in ("frechet_speed.py", "inception_speed.py"):
            record = of_script(script, 1.01)
            for turn in record["contestants"][-1]["turns"]:
                turn["step_s"] = [0.5 * s for s in turn["step_s"]]
            self.assertEqual(self.judged(script, record, "--gate").returncode, 1, script)

    def test_red_where_a_contestant_took_no_turns(self) -> None:
        for script in SCRIPTS:
            record = of_script(script, 1.01)
            del record["contestants"][-1]
            done = self.judged(script, record, "--gate")
            self.assertEqual(done.returncode, 1, script)
            self.assertIn("was not measured", done.stdout)

    def test_red_where_the_distances_differ(self) -> None:
        record = of_script("frechet_speed.py", 1.01)
        record["contestants"][1]["turns"][-1]["value"] += 2e-4  # 2e-6 of traces of 100
        done = self.judged("frechet_speed.py", record, "--gate")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAIL: pytorch-fid finds 5.0002, we 5", done.stdout)

    def test_turns_of_something_else_are_bad_input(self) -> None:
        for script in SCRIPTS:
            self.assertEqual(self.ran(script, "--recorded", self.folder / "absent", "--gate").returncode, 2)
        record = of_script("frechet_speed.py", 1.01)
        del record["traces"]
        self.assertEqual(self.judged("frechet_speed.py", record, "--gate").returncode, 2)

    def test_a_gate_without_the_peers_is_not_green(self) -> None:
        # Without site-packages there is no peer; elsewhere torch cannot be imported.
        done = self.ran("frechet_speed.py", "--program=true", "--gate", f"--out={self.folder / 'out'}",
                        python=("-B", "-S"), PYTHONPATH="")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("pytorch-fid is left out", done.stderr)
        (self.folder / "torch.py").write_text("raise ImportError('not in this test')\n")
        for script, program in (("sampling_speed.py", "--noisemark=true"),
                                ("inception_speed.py", "--program=true")):
            done = self.ran(script, program, "--gate", PYTHONPATH=str(self.folder))
            self.assertEqual(done.returncode, 77, script + done.stderr)


if __name__ == "__main__":
    unittest.main()
