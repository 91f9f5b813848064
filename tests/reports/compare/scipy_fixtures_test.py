"""Every statistic of reports/compare beside what SciPy said of the same samples, to 1e-9: recorded by
scipy_test.py --record, so that machines without SciPy check it too.

The first argument is the path of noisemark_statistics_probe, then unittest's own."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import probe  # noqa: E402

PROBE = sys.argv.pop(1) if len(sys.argv) > 1 else ""
STATISTICS = {"signed_rank", "estimate", "proportion", "benjamini_hochberg", "holm", "paired", "welch",
              "detectable"}


class Fixtures(unittest.TestCase):
    def test_every_answer_is_scipys(self):
        recorded = json.loads((Path(__file__).parent / "scipy_fixtures.json").read_text())["answers"]
        self.assertEqual({each["question"]["statistic"] for each in recorded}, STATISTICS)
        answers = probe.ask(PROBE, [each["question"] for each in recorded])
        for each, answer in zip(recorded, answers):
            for name, theirs in each["answer"].items():
                ours = probe.named(answer)[name]
                self.assertTrue(probe.is_close(ours, theirs), (each["question"], name, ours, theirs))


if __name__ == "__main__":
    unittest.main()
