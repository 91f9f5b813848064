"""Answers the questions of peers_test.cpp: JSON lines in, JSON lines out.

{"step_s": [...]}                       -> {"steps": N, "stable": B, "interval": [low, high] or null}
{"listing": FILE, "ids": [ID@SCALE ...]} -> {"ID@SCALE": sha256 ...}
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tiny  # noqa: F401
from definition import load_definition
from steady import detect_warmup, median_interval


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """One question's answer."""
    if "listing" in question:
        path = Path(question["listing"])
        return {name: load_definition(path, name).sha256 for name in question["ids"]}
    warmup = asdict(detect_warmup(question["step_s"]))
    return {**warmup, "interval": median_interval(question["step_s"])}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))
