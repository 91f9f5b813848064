"""Writes what a peer's run measured as Noisemark's result.json. Needs no torch."""

import hashlib
import json
import os
import platform
import secrets
import shlex
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from definition import Definition
from source_state import source_state
from steady import Warmup, detect_warmup, median_interval

_SCHEMA = {"name": "noisemark.result", "version": "1.0.0"}
_ZEROS = "0" * 64
_CHECKOUT = Path(__file__).resolve().parents[2]
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
    """What a pass of its own found, by the metric's name, and how many steps it took."""

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
    """What to type in the checkout to run the peer again, with this Python, into another folder."""
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


def _provenance(run: PeerRun) -> dict[str, Any]:
    source = source_state(_CHECKOUT, "baselines/peers")
    return {
        "git_commit": source.commit,
        "git_dirty": source.dirty,
        "git_diff_sha256": source.diff_sha256,
        "binary_sha256": "",
        "build": {},
        "container": {},
        "data": run.data_files,
        "init_weights_sha256": "",
    }


def _protocol(run: PeerRun, warmup: Warmup) -> dict[str, Any]:
    train = run.definition["train"]
    return {
        "steps": train["steps"],
        "batch": train["batch"],
        "accumulation": train["accumulation"],
        "warmup_steps": warmup.steps,
        "warmup_reason": warmup.reason,
        "warmup_stable": warmup.stable,
        "memory_steps": run.memory.steps,
        "profile_steps": 0,
        "deterministic": False,
        "resumed_at_step": 0,
        "loader_threads": 0,
    }


def _metric(name: str, unit: str, direction: str) -> dict[str, Any]:
    return {
        "name": name,
        "unit": unit,
        "direction": direction,
        "value": None,
        "missing_reason": "no step after the warm-up",
        "statistic": "",
        "ci95": None,
        "n": 0,
        "method": "",
    }


def _median_metric(name: str, direction: str, steady: list[float]) -> dict[str, Any]:
    metric = _metric(name, "s", direction)
    if not steady:
        return metric
    metric.update(value=median(steady), missing_reason="", statistic="median", n=len(steady))
    metric["method"] = "order statistics of the steps after the warm-up"
    if interval := median_interval(steady):
        metric["ci95"] = {"low": interval[0], "high": interval[1]}
    return metric


def _throughput(batch: int, step: dict[str, Any]) -> dict[str, Any]:
    metric = _metric("images_per_s", "images/s", "higher")
    if step["value"] is None:
        return metric
    metric.update(value=batch / step["value"], missing_reason="", statistic="median", n=step["n"])
    metric["method"] = "batch / median step, data, optimizer and EMA included"
    if step["ci95"]:
        metric["ci95"] = {"low": batch / step["ci95"]["high"], "high": batch / step["ci95"]["low"]}
    return metric


def _bytes_metric(name: str, figure: Figure) -> dict[str, Any]:
    metric = _metric(name, "bytes", "lower")
    if figure.value is None:
        return {**metric, "missing_reason": figure.words}
    exact = {"value": figure.value, "missing_reason": "", "statistic": "exact", "n": 1}
    return {**metric, **exact, "method": figure.words}


def memory_metrics(figures: dict[str, Figure]) -> list[dict[str, Any]]:
    """Those of Noisemark's own runs that a peer can have, in the same order."""
    absent = {"peak_saved_bytes": Figure(None, _NO_OWNERS)}
    missing = Figure(None, _NOT_MADE)
    names = ("peak_bytes", "saved_bytes", "peak_saved_bytes")
    return [_bytes_metric(name, {**absent, **figures}.get(name, missing)) for name in names]


def derive_metrics(samples: dict[str, list[float]], batch: int, warmup: int) -> list[dict[str, Any]]:
    """The same figures of time as of Noisemark's own runs, in the same order."""
    step = _median_metric("step_s", "lower", samples["step_s"][warmup:])
    phases = ("data_wait_s", "forward_s", "backward_s", "optimizer_s", "ema_s")
    parts = [_median_metric(name, "neutral", samples[name][warmup:]) for name in phases]
    return [_throughput(batch, step), step, *parts]


def _nulls(*names: str) -> dict[str, None]:
    return dict.fromkeys(names)


def _memory() -> dict[str, Any]:
    counts = ("peak", "saved", "peak_saved", "naive_saved", "leaked")
    empty = {"at": "", "by_category": {}, "allocator_bytes": 0, "unattributed_bytes": 0}
    return {
        "measured": False,
        "missing_reason": _NO_OWNERS,
        "source": "",
        "categories": [],
        "boundaries": [],
        "peak": empty,
        "peak_phase": "",
        "peak_operator": "",
        **{f"{name}_bytes": 0 for name in counts},
        "saved_tensors": 0,
        "outside_allocator_bytes": None,
        "allocations": 0,
        "timeline": [],
        "device_memory": {
            **_nulls(
                "allocated_bytes", "rounding_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
                "fragmentation_bytes", "unusable_bytes", "process_bytes",
            ),
            "retries": 0,
            "failures": 0,
            "missing_reason": _NOT_MADE,
        },
        "convolution_workspace": {
            **_nulls("largest_bytes", "peak_bytes", "limit_bytes"),
            "missing_reason": _NOT_MADE,
        },
        "training": {
            "repeated_steps": 0,
            **_nulls("peak_allocated_bytes", "peak_reserved_bytes", "recording_bytes"),
            "missing_reason": _NOT_MADE,
        },
    }


def _memory_mode() -> dict[str, Any]:
    counts = ("recorded_bytes", "held_bytes", "encoded_from_bytes", "dropped_bytes")
    more_counts = ("encoded_bytes", "recipes", "kept_after_mismatch", "unrepeatable", "codec_fallbacks", "departures",
                   "recipes_run_again")
    peaks = ("peak_bytes", "saved_bytes", "peak_saved_bytes")
    return {
        "measured": False,
        "missing_reason": "a peer has no memory mode",
        "lossless": False,
        "budget": {"figure": "", **_nulls("bytes", "error_frac", "measured_error_frac")},
        "reference": "",
        "plain": _nulls(*peaks),
        "predicted": _nulls(*peaks),
        "predicted_added_s": None,
        "plan_missing_reason": "",
        **{name: 0 for name in counts},
        "irreplaceable_bytes": None,
        **{name: 0 for name in more_counts},
        "host_memory": {"capacity_bytes": None, "refused_tensors": 0, "refused_bytes": 0},
        "held": [],
        "fallbacks": [],
        "overhead": {
            **_nulls("frac", "ci95", "noise_frac"),
            "missing_reason": _NOT_MADE,
            "step_s": [],
            "reference_step_s": [],
        },
        "certificate": {"verdict": "not_applied", "words": "", "steps": [], "sha256": [], "reference_sha256": []},
        "gradient_error": {"error_frac": None, "missing_reason": _NOT_MADE, "tensors": []},
    }


def _batch_fit() -> dict[str, Any]:
    return {
        "memory_bytes": None,
        "missing_reason": "",
        "batch": 0,
        **_nulls("peak_bytes", "next_peak_bytes"),
        "next_words": "",
    }


def _utilization(parameters: int) -> dict[str, Any]:
    return {
        "measured": False,
        "missing_reason": _NOT_MADE,
        "parameters": parameters,
        "forward_flop_per_image": 0,
        "backward_flop_per_image": 0,
        "achieved_flop_per_s": 0.0,
        "gemm_peak_flop_per_s": 0.0,
        "gemm_peak_method": "",
        "mfu_frac": 0.0,
        "profiler_overhead_frac": 0.0,
        "operators": [],
        "device_use": {
            "measured": False,
            "missing_reason": _NOT_MADE,
            "steps": 0,
            "images": 0,
            "window_s": 0.0,
            "clock_reasons": "",
            "columns": [],
            "trace": [],
        },
        "convolutions": {"measured": False, "missing_reason": _NOT_MADE, "kernels": []},
    }


def _mixed_precision() -> dict[str, Any]:
    return {
        "measured": False,
        "missing_reason": "",
        "type": "",
        "loss_scale": None,
        "operators": 0,
        "wide": [],
    }


def _quality() -> dict[str, Any]:
    return {
        "weights": "model",
        "samples": 0,
        "evaluations": [],
        "target_loss": None,
        "time_to_quality_s": None,
        "samples_to_quality": None,
        "missing_reason": _NOT_MADE,
    }


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
    """The result as JSON values, keys in the order of reports/result/result.h, checksum still zero."""
    warmup = detect_warmup(run.samples["step_s"])
    batch = run.definition["train"]["batch"]
    seed = run.definition["benchmark"]["seed"]
    return {
        "schema": _SCHEMA,
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
        "metrics": [
            *derive_metrics(run.samples, batch, warmup.steps),
            *memory_metrics(run.memory.figures),
        ],
        "memory": _memory(),
        "memory_mode": _memory_mode(),
        "batch_fit": _batch_fit(),
        "utilization": _utilization(run.parameters),
        "quality": _quality(),
        "determinism": {"loss_trace_sha256": "", "weights_sha256": "", "ema_sha256": ""},
        "mixed_precision": _mixed_precision(),
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
