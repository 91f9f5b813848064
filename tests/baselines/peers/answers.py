"""Answers the questions of peers_test.cpp: JSON lines in, JSON lines out.

{"step_s": [...]}                       -> {"steps": N, "stable": B, "interval": [low, high] or null}
{"listing": FILE, "ids": [ID@SCALE ...]} -> {"ID@SCALE": sha256 ...}
{"cifar10": FOLDER}                     -> {"standing": S, "files": [...], "locked": {name: sha256}}
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tiny
from definition import Definition, load_definition
from steady import detect_warmup, median_interval


def cifar10(folder: Path) -> dict[str, Any]:
    """Returns what the peers' results say of CIFAR-10 in this folder."""
    from pictures import CIFAR10_FILES, load_pictures

    sections = {**tiny.LUCID, "data": {"name": "cifar10", "flip": True}}
    pictures = load_pictures(Definition("", sections), folder)
    return {"standing": pictures.standing, "files": pictures.files, "locked": CIFAR10_FILES}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """One question's answer."""
    if "listing" in question:
        path = Path(question["listing"])
        return {name: load_definition(path, name).sha256 for name in question["ids"]}
    if "cifar10" in question:
        return cifar10(Path(question["cifar10"]))
    warmup = asdict(detect_warmup(question["step_s"]))
    return {**warmup, "interval": median_interval(question["step_s"])}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))
