"""calibration_test.py NOISEMARK: what calibrate.py says of the recorded seeds, and of seeds that it must refuse."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "suite/benchmarks/v1/calibration"))
import calibrate  # noqa: E402

BENCHMARK = "gmm16@cpu"


class Calibration(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "data.json"
        self.summary = json.loads(calibrate.data_file(BENCHMARK).read_text())

    def check(self):
        """Exit code and words for the summary as it stands."""
        self.file.write_text(json.dumps(self.summary))
        words = ["calibrate.py", "check", "--noisemark", NOISEMARK, "--file", str(self.file)]
        with mock.patch("sys.argv", words), contextlib.redirect_stdout(io.StringIO()) as said:
            return calibrate.main(), said.getvalue()

    def test_the_recorded_seeds_give_the_bound_in_force(self):
        self.assertEqual(self.check()[0], 0)

    def test_a_seed_of_another_training_is_refused_and_trained_again(self):
        definition = calibrate.listed_definition(NOISEMARK, BENCHMARK)
        trained = calibrate.trained_sha256(definition)
        definition["optimizer"]["lr"] *= 2
        self.summary["seeds"][3]["trained_sha256"] = calibrate.trained_sha256(definition)
        code, words = self.check()
        self.assertEqual(code, 1)
        self.assertIn("1 of 20 seeds trained something else", words)
        self.assertNotIn(3, [row["seed"] for row in calibrate.known_rows(self.file, trained)])

    def test_a_seed_without_its_hash_is_refused(self):
        del self.summary["seeds"][0]["trained_sha256"]
        self.assertEqual(self.check()[0], 1)

    def test_a_bound_that_does_not_follow_is_refused(self):
        for row in self.summary["seeds"]:
            row["excess_loss"] += 0.1
        self.assertEqual(self.check()[0], 1)

    def test_a_fault_that_the_bound_would_let_pass_is_named(self):
        fault = calibrate.CAUGHT[0]
        row = next(row for row in self.summary["faults"] if row["set"] == fault)
        row["excess_loss"] = self.summary["bound"]
        code, words = self.check()
        self.assertEqual(code, 1)
        self.assertIn(f"{fault} is not above the bound", words)
        self.summary["faults"].remove(row)
        self.assertIn(f"{fault} is not above the bound: not trained", self.check()[1])

    def test_judgements_are_no_part_of_what_is_trained_and_everything_else_is(self):
        definition = calibrate.listed_definition(NOISEMARK, BENCHMARK)
        trained = calibrate.trained_sha256(definition)
        definition["gate"]["excess_loss"]["max"] += 1
        definition["eval"]["target_loss"] += 1
        self.assertEqual(calibrate.trained_sha256(definition), trained)
        for section in ("model", "data", "diffusion", "optimizer", "ema", "train", "eval"):
            for key in definition[section]:
                if (section, key) == ("eval", "target_loss"):
                    continue
                changed = {**definition, section: {**definition[section], key: "other"}}
                self.assertNotEqual(calibrate.trained_sha256(changed), trained, f"{section}.{key}")


if __name__ == "__main__":
    NOISEMARK = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
