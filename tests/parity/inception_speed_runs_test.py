"""inception_speed.py measures one round of one image, ours beside both peers. No gate: the first turns of a
network say nothing of its speed."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import peers_required

PEERS = Path(__file__).resolve().parents[2] / "baselines" / "peers"
sys.path.insert(0, str(PEERS))

try:
    import inception_peers  # noqa: F401
    import inception_speed
except ImportError as missing:
    peers_required.cannot_import(missing)

PROBE = sys.argv.pop(1)


class InceptionSpeed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.done = cls.run_script("--program", PROBE, "--batch", "1", "--threads", "1", "--rounds", "1",
                                  "--warmup-rounds", "0", "--steps", "2", "--out", str(cls.folder / "turns.json"))

    @staticmethod
    def run_script(*words):
        return subprocess.run([sys.executable, "-B", str(PEERS / "inception_speed.py"), *words],
                              capture_output=True, text=True)

    def test_every_side_takes_its_turn(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        record = json.loads((self.folder / "turns.json").read_text())
        names = [name for gate in inception_speed.GATES for name in (gate.ours, gate.peer)]
        self.assertEqual([one["name"] for one in record["contestants"]], names)
        for one in record["contestants"]:
            self.assertEqual(one["ready"]["batch"], 1, one["name"])
            (turn,) = one["turns"]
            self.assertEqual(len(turn["step_s"]), 2, one["name"])
            self.assertTrue(all(second > 0 for second in turn["step_s"]), one["name"])

    def test_what_was_measured_can_be_judged_again(self):
        judged = self.run_script("--recorded", str(self.folder / "turns.json"))
        self.assertEqual(judged.returncode, 0, judged.stderr)
        for gate in inception_speed.GATES:
            self.assertIn(f"{gate.ours} is ", judged.stdout)
        self.assertEqual(judged.stdout.splitlines(),
                         [line for line in self.done.stdout.splitlines() if line.startswith(("pass: ", "FAIL: "))])

    def test_no_path_of_this_machine_is_kept(self):
        kept = (self.folder / "turns.json").read_text()
        for path in (PROBE, sys.executable, tempfile.gettempdir() + "/tmp"):
            self.assertNotIn(path, kept)

    def test_a_program_that_ends_is_a_failure_and_no_figure(self):
        self.assertEqual(self.run_script("--program", "false", "--rounds", "1").returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
