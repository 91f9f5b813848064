"""The interleaved run: figures from turns, order of turns, and what a broken contestant does."""

import contextlib
import io
import json
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny
from endings import BadInput, CannotRunHere
from pace import Contestant, ContestantFailed, LeftOut, Turns, measure, table_rows

# A contestant whose steps take no time, because its clock is made up: real protocol, known figures.
CLOCKWORK = """
import json, sys
print(json.dumps({{"ready": True, "batch": 8}}), flush=True)
for line in sys.stdin:
    if line.strip() == "quit":
        break
    print(json.dumps({{"step_s": [{step_s}] * int(line.split()[1]), "loss": []}}), flush=True)
"""


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def clockwork(step_s: float) -> str:
    return python(CLOCKWORK.format(step_s=step_s))


def run_pace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, tiny.PACE, *arguments], text=True, capture_output=True)


class RowsTest(unittest.TestCase):
    def test_rates_are_of_median_steps_and_ratios_are_within_a_round(self) -> None:
        # The machine halves its speed in the second half; the ratio does not notice.
        slow = [1.0] * 5 + [2.0] * 5
        turns = {
            "a": [{"step_s": [s, s, 9 * s]} for s in slow],
            "b": [{"step_s": [s / 2, s / 2, s / 2]} for s in slow],
        }
        a, b = table_rows(turns, {"a": 4, "b": 4}, "a")
        self.assertEqual(a.images_per_s, (4 + 2) / 2)
        self.assertEqual((a.ratio, b.ratio), (1.0, 2.0))
        self.assertEqual(b.ratio_ci95, (2.0, 2.0))
        self.assertEqual(b.images_per_s_ci95, (4.0, 8.0))

    def test_too_few_rounds_have_no_interval(self) -> None:
        (row,) = table_rows({"a": [{"step_s": [1.0]}] * 5}, {"a": 1}, "a")
        self.assertIsNone(row.ratio_ci95)


READY = "import sys; print('{\"ready\": true, \"batch\": 1}', flush=True); "


class LeftOutTest(unittest.TestCase):
    def measured(self, commands: dict[str, str], reference: str | None = None) -> tuple[dict, LeftOut]:
        left_out: LeftOut = []
        with contextlib.redirect_stderr(io.StringIO()):
            record = measure(commands, Turns(2, 0, 3), reference, left_out)
        return record, left_out

    def test_who_cannot_train_is_found_before_the_rounds_and_the_others_go_on(self) -> None:
        says = "print('not here', file=sys.stderr); "
        record, left_out = self.measured({
            "absent": python("import sys; " + says + "raise SystemExit(77)"),
            "a": clockwork(1), "broken in its first turn": python(READY + "input(); " + says + "sys.exit(5)"),
            "b": clockwork(0.5)})
        self.assertEqual([c["name"] for c in record["contestants"]], ["a", "b"])
        self.assertEqual([len(c["turns"]) for c in record["contestants"]], [2, 2], "the first turn is no figure")
        self.assertEqual([row["ratio"] for row in record["rows"]], [1.0, 2.0])
        self.assertEqual([str(why) for why in left_out],
                         ["absent: cannot run here (exit code 77): not here",
                          "broken in its first turn: ended with exit code 5: not here"])

    def test_the_reference_must_run_and_somebody(self) -> None:
        with self.assertRaises(CannotRunHere):
            self.measured({"absent": python("raise SystemExit(77)"), "a": clockwork(1)}, "absent")
        with self.assertRaises(ContestantFailed):
            self.measured({"broken": python("raise SystemExit(3)")})
        with self.assertRaises(BadInput):
            self.measured({})

    def test_who_does_not_answer_is_ended(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()):
            with Contestant("silent", python(READY + "import time; time.sleep(600)"), 1.0) as silent:
                silent.await_ready()
                with self.assertRaisesRegex(ContestantFailed, "silent: no answer within 1 s"):
                    silent.run(1)


class ProgramTest(unittest.TestCase):
    def test_turns_go_forth_and_back_and_everything_is_recorded(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "pace.json"
            done = run_pace("--rounds=3", "--warmup-rounds=1", "--steps=2", f"--out={out}",
                            f"slow={clockwork(0.5)}", f"fast={clockwork(0.25)}")
            self.assertEqual(done.returncode, 0, done.stderr)
            record = json.loads(out.read_text())
        self.assertEqual(record["order"], ["slow", "fast", "fast", "slow"] * 2)
        self.assertEqual([len(c["turns"]) for c in record["contestants"]], [4, 4])
        self.assertEqual([row["images_per_s"] for row in record["rows"]], [16.0, 32.0])
        self.assertEqual([row["ratio"] for row in record["rows"]], [1.0, 2.0])
        self.assertIn("| fast | 32.00 [too few rounds] | 2.000", done.stdout)

    def test_the_reference_can_be_named(self) -> None:
        done = run_pace("--rounds=1", "--warmup-rounds=0", "--reference=b",
                        f"a={clockwork(1)}", f"b={clockwork(2)}")
        self.assertIn("| a | 8.00 [too few rounds] | 2.000", done.stdout)

    def test_bad_input_is_refused(self) -> None:
        for arguments in (["nameless"], ["a=true", "a=true"], ["a=/no/such/program"],
                          ["--rounds=0", "a=true"], ["--reference=c", f"a={clockwork(1)}"]):
            self.assertEqual(run_pace(*arguments).returncode, 2, arguments)

    def test_a_contestant_that_breaks_is_named(self) -> None:
        for code, expected in (
            ("raise SystemExit(77)", 77),
            ("raise SystemExit(3)", 1),
            ("print('hello')", 1),
            ("print('{\"ready\": false}')", 1),
            (READY + "sys.exit(5)", 1),
            (READY + "input(); print('{\"step_s\": []}', flush=True); input()", 1),
        ):
            done = run_pace("--rounds=1", f"good={clockwork(1)}", f"broken={python(code)}")
            self.assertEqual(done.returncode, expected, code)
            self.assertIn("broken", done.stderr, code)


if __name__ == "__main__":
    unittest.main()
