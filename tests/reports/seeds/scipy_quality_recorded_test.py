"""The statistics of reports/seeds beside what SciPy said of the same samples, to 1e-9: recorded by
scipy_quality_test.py --record, so that machines without SciPy check it too.

The first argument is the path of noisemark_quality_probe, then unittest's own."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compare"))
import probe  # noqa: E402

PROBE = sys.argv.pop(1) if len(sys.argv) > 1 else ""
STATISTICS = {"tost", "power", "detectable", "seeds", "resampled"}


class Recorded(unittest.TestCase):
    def test_every_answer_is_scipys(self):
        recorded = json.loads((Path(__file__).parent / "scipy_quality.json").read_text())["answers"]
        self.assertEqual({each["question"]["statistic"] for each in recorded}, STATISTICS)
        answers = probe.ask(PROBE, [each["question"] for each in recorded])
        for each, answer in zip(recorded, answers):
            for name, theirs in each["answer"].items():
                ours = probe.named(answer)[name]
                self.assertTrue(probe.is_close(ours, theirs), (each["question"], name, ours, theirs))


if __name__ == "__main__":
    unittest.main()
