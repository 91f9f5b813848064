"""noisemark_statistics_probe, asked from Python: no other package is needed."""

import json
import subprocess

RELATIVE = 1e-9  # every statistic promises this
FLOOR = 1e-3  # values below it are compared absolutely, to RELATIVE * FLOOR


def ask(probe, questions):
    """Its answers, one for each question."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([probe], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def named(answer):
    """Every number of an answer, by name."""
    if isinstance(answer, dict):
        return answer
    if isinstance(answer, list):
        return {str(i): value for i, value in enumerate(answer)}
    return {"": answer}


def is_close(ours, theirs):
    return abs(ours - theirs) <= RELATIVE * max(FLOOR, abs(theirs))
