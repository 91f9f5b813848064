"""Writes what a peer's run measured as Noisemark's result.json. Needs no torch."""

import hashlib
import json
import os
import platform
import secrets
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from definition import Definition
from steady import Warmup, detect_warmup, median_interval

_ZEROS = "0" * 64
_CHECKOUT = Path(__file__).resolve().parents[2]
_BUNDLED = Path(__file__).resolve().parent / "result"  # containers/gpu-bundle.sh carries both files so
_RESULT = _BUNDLED if _BUNDLED.exists() else _CHECKOUT / "reports/result"
_SCHEMA = json.loads((_RESULT / "result.schema.json").read_text())
_METRICS = _RESULT / "metrics.md"
_PACKAGES = ("torch", "denoising-diffusion-pytorch", "diffusers", "ema-pytorch", "numpy")
_NOT_MADE = "not measured on a peer"
_NO_OWNERS = "whose the bytes at the peak are is not known of a peer"


@dataclass(frozen=True)
class Figure:
    """A number of bytes and how it was found, or why there is none."""

    value: int | None
    words: str


@dataclass(frozen=True)
class MemoryPass:
    """Holds what a pass of its own found, by the metric's name, and how many steps it took."""

    steps: int = 0
    figures: dict[str, Figure] = field(default_factory=dict)


@dataclass
class PeerRun:
    """Everything about one run that the result needs."""

    definition: Definition
    argv: list[str]
    variant: str
    precision: str
    device: str
    threads: int
    data_standing: str
    data_files: list[dict[str, Any]]
    parameters: int
    samples: dict[str, list[float]] = field(default_factory=dict)
    memory: MemoryPass = field(default_factory=MemoryPass)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def repeat_command(options: list[str]) -> str:
    """Returns what to type in the checkout to run the peer again, with this Python, into another folder."""
    python = Path(sys.executable)
    if python.is_relative_to(_CHECKOUT):
        python = python.relative_to(_CHECKOUT)
    words = [str(python), "baselines/peers/run_peer.py"]
    rest = iter(options)
    for word in rest:
        if word == "--out":
            next(rest)
        elif not word.startswith("--out="):
            words.append(word)
    return shlex.join([*words, "--out", "NEW-FOLDER"])


def _software() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _identity(run: PeerRun) -> dict[str, Any]:
    benchmark = run.definition["benchmark"]
    return {
        "benchmark": benchmark["id"],
        "scale": benchmark["scale"],
        "version": benchmark["version"],
        "custom": run.definition.custom,
        "overrides": list(run.definition.overrides),
        "definition_sha256": run.definition.sha256,
        "mode": "none",
        "baseline": "plain",
        "precision": run.precision,
        "device": run.device,
        "framework": f"peer:{run.variant}",
        "threads": run.threads,
        "data": run.data_standing,
        "hardware": {"cpu_model": _cpu_model(), "cpus": str(len(os.sched_getaffinity(0)))},
        "software": _software(),
    }


def _empty(field: dict[str, Any]) -> Any:
    """The value of a field of which nothing is known."""
    for part in field.get("allOf", [field]):
        if "$ref" in part:
            return _section(part["$ref"].rpartition("/")[2])
    if "enum" in field:
        return "not_applied" if "not_applied" in field["enum"] else field["enum"][0]
    empty = {"array": [], "object": {}, "string": "", "integer": 0, "number": 0.0, "boolean": False}
    return empty.get(str(field.get("type")))


def _section(name: str, missing_reason: str = _NOT_MADE, /, **known: Any) -> dict[str, Any]:
    """A section as the schema has it, of which only this much is known."""
    fields = _SCHEMA["definitions"][name]["properties"]
    section = {key: missing_reason if key == "missing_reason" else _empty(field) for key, field in fields.items()}
    assert known.keys() <= fields.keys(), f"{name} has no such field: {known.keys() - fields.keys()}"
    return {**section, **known}


@dataclass(frozen=True)
class SourceState:
    """`commit` is empty outside a checkout; the rest is of a folder's changes against it."""

    commit: str = ""
    dirty: bool = False
    diff_sha256: str = ""


def _git(folder: Path, *words: str) -> bytes | None:
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _untracked(folder: Path) -> bytes:
    names = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", ".") or b""
    files = [name for name in names.split(b"\0") if name]
    return b"".join(name + b"\0" + (folder / name.decode()).read_bytes() for name in files)


def source_state(checkout: Path, part: str) -> SourceState:
    """Returns the state of the repository whose top `checkout` is; changes count where they are below `part`."""
    top = _git(checkout, "rev-parse", "--show-toplevel")
    commit = _git(checkout, "rev-parse", "HEAD")
    if top is None or commit is None or Path(top.decode().strip()) != checkout.resolve():
        return SourceState()
    folder = checkout / part
    changes = (_git(folder, "diff", "--binary", "HEAD", "--", ".") or b"") + _untracked(folder)
    if not changes:
        return SourceState(commit.decode().strip())
    return SourceState(commit.decode().strip(), True, hashlib.sha256(changes).hexdigest())


def _provenance(run: PeerRun) -> dict[str, Any]:
    source = source_state(_CHECKOUT, "baselines/peers")
    return _section("Provenance", git_commit=source.commit, git_dirty=source.dirty,
                    git_diff_sha256=source.diff_sha256, data=run.data_files)


def _protocol(run: PeerRun, warmup: Warmup) -> dict[str, Any]:
    train = {key: run.definition["train"][key] for key in ("steps", "batch", "accumulation")}
    return _section("Protocol", **train, warmup_steps=warmup.steps, warmup_reason=warmup.reason,
                    warmup_stable=warmup.stable, memory_steps=run.memory.steps)


@cache
def _known_metrics() -> dict[str, tuple[str, str]]:
    """Units and directions by name, in the order in which results list them."""
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in _METRICS.read_text().splitlines()
            if line.startswith("| `")]
    return {name: (unit, better or "neutral") for _, name, unit, better, *_ in rows}


def _metric(name: str, missing_reason: str = "no step after the warm-up") -> dict[str, Any]:
    unit, direction = _known_metrics()[name]
    return _section("Metric", missing_reason, name=name, unit=unit, direction=direction)


def _median_metric(name: str, steady: list[float]) -> dict[str, Any]:
    metric = _metric(name)
    if not steady:
        return metric
    metric.update(value=median(steady), missing_reason="", statistic="median", n=len(steady))
    metric["method"] = "order statistics of the steps after the warm-up"
    if interval := median_interval(steady):
        metric["ci95"] = {"low": interval[0], "high": interval[1]}
    return metric


def _throughput(batch: int, step: dict[str, Any]) -> dict[str, Any]:
    metric = _metric("images_per_s")
    if step["value"] is None:
        return metric
    metric.update(value=batch / step["value"], missing_reason="", statistic="median", n=step["n"])
    metric["method"] = "batch / median step, data, optimizer and EMA included"
    if step["ci95"]:
        metric["ci95"] = {"low": batch / step["ci95"]["high"], "high": batch / step["ci95"]["low"]}
    return metric


def _bytes_metric(name: str, figure: Figure) -> dict[str, Any]:
    if figure.value is None:
        return _metric(name, figure.words)
    exact = {"value": figure.value, "missing_reason": "", "statistic": "exact", "n": 1}
    return {**_metric(name), **exact, "method": figure.words}


def _memory_figures(found: dict[str, Figure]) -> dict[str, Figure]:
    """Bytes of a step by the name of their metric: those of `found`, and why a peer lacks the others."""
    return {"peak_bytes": Figure(None, _NOT_MADE), "saved_bytes": Figure(None, _NOT_MADE),
            "peak_saved_bytes": Figure(None, _NO_OWNERS), **found}


def derive_metrics(run: PeerRun, warmup: int) -> list[dict[str, Any]]:
    """Those of Noisemark's own runs that a peer can have."""
    medians = {name: _median_metric(name, samples[warmup:])
               for name, samples in run.samples.items() if name in _known_metrics()}
    throughput = _throughput(run.definition["train"]["batch"], medians["step_s"])
    figures = _memory_figures(run.memory.figures).items()
    found = {"images_per_s": throughput, **medians, **{name: _bytes_metric(name, figure) for name, figure in figures}}
    return [found[name] for name in _known_metrics() if name in found]


def _gates(definition: Definition) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "metric": gate["metric"],
            "relation": "at most" if "max" in gate else "at least",
            "value": None,
            "bound": float(gate["max"] if "max" in gate else gate["min"]),
            "unit": "",
            "verdict": "not_applied",
            "words": f"{gate['metric']} is {_NOT_MADE}.",
        }
        for name, gate in definition.sections.get("gate", {}).items()
    ]


def result_of(run: PeerRun) -> dict[str, Any]:
    """The result as JSON values, checksum still zero."""
    warmup = detect_warmup(run.samples["step_s"])
    seed = run.definition["benchmark"]["seed"]
    return {
        "schema": {key: field["const"] for key, field in _SCHEMA["properties"]["schema"]["properties"].items()},
        "checksum": _ZEROS,
        "run_id": secrets.token_hex(8),
        "created_utc": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "title": f"{run.definition.name}, peer {run.variant}",
        "argv": run.argv,
        "repeat_command": repeat_command(run.argv[1:]),
        "exit": {"code": 0, "status": "custom", "reasons": []},  # no gate judged it
        "identity": _identity(run),
        "definition": run.definition.text,
        "provenance": _provenance(run),
        "environment": {"kernel": platform.release(), "machine": platform.machine()},
        "seeds": {"base": seed, "streams": {"torch": seed}},
        "protocol": _protocol(run, warmup),
        "samples": run.samples,
        "metrics": derive_metrics(run, warmup.steps),
        "memory": _section("MemorySection", _NO_OWNERS),
        "memory_mode": _section("MemoryMode", "a peer has no memory mode"),
        "batch_fit": _section("BatchFit", ""),
        "utilization": _section("Utilization", parameters=run.parameters),
        "quality": _section("Quality", weights="model"),
        "determinism": _section("Determinism"),
        "mixed_precision": _section("MixedPrecision", ""),
        "gates": _gates(run.definition),
        "artifacts": [],
    }


def sealed(result: dict[str, Any]) -> str:
    """The file's text: `checksum` is the SHA-256 of the text in which it is 64 zeros."""
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    return text.replace(_ZEROS, hashlib.sha256(text.encode()).hexdigest(), 1)


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Whole or not at all."""
    draft = path.with_suffix(".json.part")
    draft.write_text(sealed(result))
    draft.replace(path)
