"""The gate of rank_samples.py, on values made up: green where the distances rank as they should, red where not."""

import contextlib
import io
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "suite" / "quality" / "cifarnet"))

import rank_samples  # noqa: E402

TRAINED = [9.0, 6.0, 3.0, 1.0]
SAMPLED = [8.0, 5.0, 3.0, 2.0, 1.0]


def judged(trained, sampled):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return rank_samples.outcome(trained, sampled), said.getvalue()


class Rank(unittest.TestCase):
    def test_distances_that_fall_with_training_and_with_steps_pass(self):
        code, said = judged(TRAINED, SAMPLED)
        self.assertEqual(code, 0)
        self.assertEqual(said.count("rank correlation -1.00 | pass |"), 2, said)

    def test_one_pair_of_neighbours_may_be_the_other_way_round(self):
        code, said = judged([9.0, 6.0, 1.0, 3.0], [5.0, 8.0, 3.0, 1.0, 2.0])
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("rank correlation -0.80 | pass |"), 2, said)

    def test_either_alone_that_does_not_rank_is_red(self):
        for trained, sampled in ((TRAINED[::-1], SAMPLED), (TRAINED, SAMPLED[::-1]),
                                 ([6.0, 9.0, 1.0, 3.0], SAMPLED), (TRAINED, [5.0, 3.0, 8.0, 2.0, 1.0])):
            code, said = judged(trained, sampled)
            self.assertEqual(code, 1, said)
            self.assertEqual((said.count("| pass |"), said.count("| FAIL |")), (1, 1), said)

    def test_ranks_are_spearmans(self):
        # By hand the ranks are 0 1 2 3 and 2 1 3 0, squared differences 4 + 0 + 1 + 9, so 1 - 6 * 14 / 60.
        self.assertAlmostEqual(rank_samples.rank_correlation([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 5.0, 0.5]), -0.4)
        self.assertAlmostEqual(rank_samples.rank_correlation([1.0, 2.0, 4.0], [0.1, 0.2, 0.9]), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
