"""baselines/study/proposals.py with the real program: proposals_test.py NOISEMARK."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "baselines/study"))

import proposals  # noqa: E402

PROGRAM = sys.argv.pop(1)
PAGE = """| try | operators | of a step | at their roof | beyond their roof |
| --- | --- | ---: | ---: | ---: |
| `--baseline fused` | normalizations and activation functions | 30.0 % | 10.0 % | 20.0 % |
"""


def run(*words):
    return subprocess.run([sys.executable, "-B", proposals.__file__, *words], capture_output=True, text=True)


class Study(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def note(self, baseline, turn, step_s, page=""):
        folder = self.folder / "a@cpu" / baseline / turn
        folder.mkdir(parents=True)
        (folder / "profile.md").write_text(page)
        (folder / "profile.json").write_text(json.dumps({"cost": {"plain_s": step_s}}))

    def test_a_gain_is_that_beside_the_baseline_of_the_same_round(self):
        for turn, plain, fused in (("0", 1.0, 0.9), ("1", 2.0, 1.7), ("2", 1.0, 1.05)):
            self.note("plain", turn, plain, PAGE)
            self.note("fused", turn, fused)
        for turn in ("0", "1", "2"):
            self.note("channels-last", turn, 1.0)
            self.note("fused+channels-last", turn, 1.0)
        self.note("plain", "3", 1.0)
        done = run("table", "--out", str(self.folder))
        self.assertIn("| yes | 1000 | 20.0\u00a0% | **10.0\u00a0%** | -5.0 to 15.0\u00a0% | 2 of 3 | yes |", done.stdout, done.stderr)
        self.assertIn('Of 1 lines "What limits it" 1 were right', done.stdout)

    def test_a_proposal_is_wrong_that_loses_or_wins_more_than_its_bound(self):
        for won, bound, is_right in ((-1.0, True, False), (10.0, True, True), (30.0, True, False), (30.0, False, True)):
            tried = proposals.Proposal("channels-last" if bound else "fused", "operators", 20.0)
            trial = proposals.Trial("a@cpu", "plain", tried, True, 1000, 20.0, [won])
            self.assertEqual(trial.is_bound, bound)
            self.assertEqual(trial.is_right(), is_right, trial)

    def test_profiles_what_is_missing_and_reads_the_programs_own_pages(self):
        words = ["run", "--noisemark", PROGRAM, "--ids", "gmm16-ho@cpu", "--rounds", "1", "--out", str(self.folder)]
        done = run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| gmm16-ho@cpu | `plain` | `channels-last` | convolutions |", done.stdout)
        self.assertEqual(len(list(self.folder.glob("*/*/0/profile.json"))), len(proposals.BASELINES))
        self.assertEqual(run(*words).stdout, done.stdout)

    def test_a_folder_that_is_not_there_and_a_program_that_fails_are_told_apart(self):
        self.assertEqual(run("table", "--out", str(self.folder / "none")).returncode, 2)
        self.assertEqual(run("run", "--out", str(self.folder)).returncode, 2)
        self.note("plain", "0", 1.0, PAGE)
        self.assertEqual(run("table", "--out", str(self.folder)).returncode, 2)
        self.assertEqual(run("run", "--noisemark", PROGRAM, "--ids", "no-such", "--out", str(self.folder)).returncode, 1)


if __name__ == "__main__":
    unittest.main()
