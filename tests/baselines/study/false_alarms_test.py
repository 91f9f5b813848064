"""false_alarms_test.py NOISEMARK: the study's script: one real unit, and what it says of recorded ones."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "baselines/study"))
import false_alarms  # noqa: E402

NOISEMARK = sys.argv.pop(1) if len(sys.argv) > 1 else ""


def unit(slow_down: str, number: int, verdict: str = "not worse", **changes: object) -> dict:
    """A line as `run` writes it."""
    ratio = 1 / (1 + float(slow_down)) * (1 + 0.001 * (number % 5 - 2))
    return {"slow_down": slow_down, "unit": number, "took_s": 30.0, "code": 0, "verdict": verdict, "exact_alarms": [],
            "ratio": ratio, "look_pairs": 6, "judged_pairs": 6, "benchmark": "gmm16-ho@cpu", "seconds": 25, "identity": {},
            "binary_sha256": "0", **changes}


def whole_study(alarms: int = 0, caught: int = 40) -> list[dict]:
    regressions = {"0": alarms, "0.05": 20, "0.1": caught}
    return [unit(slow_down, number, "REGRESSION" if number < regressions[slow_down] else "not worse")
            for slow_down, count in false_alarms.UNITS.items() for number in range(count)]


class FalseAlarms(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "units.jsonl"

    def write(self, units: list[dict]) -> None:
        self.file.write_text("".join(json.dumps(one) + "\n" for one in units))

    def main(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = false_alarms.main([*words, "--file", str(self.file)])
        return code, out.getvalue(), err.getvalue()

    def test_a_study_that_reaches_what_is_asked_for_passes(self) -> None:
        self.write(whole_study(alarms=1, caught=38))
        code, out, _ = self.main("table", "--check")
        self.assertIn("| 0 % | 100 of 100 | 1 | 0.0 to 5.4 % | 0 | 0 | 1.0000 |", out)
        self.assertIn("The noise floor of untouched units is 0.2 %.", out)
        # The floor is below 1 %, so that the 5 % would have to be caught too: 20 of 40 are not enough.
        self.assertEqual(code, 1)
        loose = [one | {"ratio": one["ratio"] * (1.02 if one["unit"] % 2 else 1 / 1.02)} for one in whole_study(1, 38)]
        self.write(loose)
        self.assertEqual(self.main("table", "--check")[0], 0)

    def test_too_many_alarms_and_too_few_catches_are_named(self) -> None:
        self.write(whole_study(alarms=2, caught=37))
        code, _, err = self.main("table", "--check")
        self.assertEqual(code, 1)
        self.assertIn("2 false alarms (at most 1); 10 % was caught 37 times (at least 38)", err)

    def test_an_alarm_of_what_has_no_noise_is_one_too_many(self) -> None:
        units = whole_study()
        units[0]["exact_alarms"] = ["parameters"]
        self.write(units)
        self.assertIn("1 alarms of what has no noise", self.main("table", "--check")[2])

    def test_a_study_of_more_than_two_hours_is_named(self) -> None:
        def taking(seconds: float) -> list[dict]:
            return [one | {"took_s": seconds, "ratio": one["ratio"] * (1.02 if one["unit"] % 2 else 1 / 1.02)}
                    for one in whole_study(1, 38)]

        self.write(taking(40))  # 180 units of 40 s are two hours
        self.assertEqual(self.main("table", "--check")[0], 0)
        self.write(taking(41))
        code, _, err = self.main("table", "--check")
        self.assertEqual((code, err), (1, "it took 123 min (at most 120)\n"))

    def test_a_study_that_is_not_whole_has_reached_nothing(self) -> None:
        self.write(whole_study()[:-1])
        self.assertEqual(self.main("table")[0], 0)
        code, _, err = self.main("table", "--check")
        self.assertEqual((code, err), (1, "1 units are missing\n"))

    def test_a_file_without_units_or_with_another_text_is_bad_input(self) -> None:
        self.assertEqual(self.main("table")[0], 2)
        self.file.write_text("nonsense\n")
        self.assertEqual(self.main("table")[0], 2)

    def test_a_line_that_was_cut_off_is_made_again(self) -> None:
        self.write(whole_study()[:2])
        self.file.write_text(self.file.read_text()[:-5])
        self.assertEqual(len(false_alarms.read_units(self.file)), 1)

    def test_the_order_is_fixed_and_mixes_the_kinds(self) -> None:
        self.assertEqual(false_alarms.order(), false_alarms.order())
        self.assertEqual(len(set(false_alarms.order())), 180)
        self.assertEqual({slow_down for slow_down, _ in false_alarms.order()[:12]}, set(false_alarms.UNITS))

    def test_intervals_are_clopper_and_pearsons(self) -> None:
        # At the ends they have a closed form.
        low, high = false_alarms.clopper_pearson(0, 100)
        self.assertEqual(low, 0)
        self.assertAlmostEqual(high, 1 - 0.025 ** (1 / 100), places=12)
        low, high = false_alarms.clopper_pearson(40, 40)
        self.assertAlmostEqual(low, 0.025 ** (1 / 40), places=12)
        self.assertEqual(high, 1)

    def test_real_units_are_made_kept_and_gone_on_with(self) -> None:
        words = ("run", "--noisemark", NOISEMARK, "--seconds", "6", "--most", "1", "--option=--threads=1",
                 "--option=--set=train.batch=1")
        records = self.file.parent / "records"
        self.assertEqual(self.main(*words)[0], 0)
        self.assertEqual(self.main(*words, "--records", str(records))[0], 0)
        units = false_alarms.read_units(self.file)
        [kept] = records.rglob("ab.json")
        self.assertEqual(str(kept.relative_to(records)), f"{units[1]['slow_down']}/{units[1]['unit']:03}/ab.json")
        self.assertEqual(json.loads(kept.read_text())["created_utc"], units[1]["made_utc"])
        self.assertEqual([(one["slow_down"], one["unit"]) for one in units], false_alarms.order()[:2])
        for one in units:
            self.assertEqual(one["exact_alarms"], [])
            self.assertGreaterEqual(len(one["pairs"]), 6)
        code, _, err = self.main(*words[:4], "7", *words[5:])
        self.assertEqual(code, 2)
        self.assertIn("seconds: 6.0 (7.0: another file)", err)
        self.assertEqual(len(false_alarms.read_units(self.file)), 2)

    def test_a_comparison_that_fails_is_no_unit(self) -> None:
        code, _, err = self.main("run", "--noisemark", NOISEMARK, "--most", "1", "--option=--set=nonsense=1")
        self.assertEqual(code, 1)
        self.assertIn("exit code 2", err)
        self.assertEqual(self.file.read_text(), "")


if __name__ == "__main__":
    unittest.main()
