#!/usr/bin/env python3
"""Prints how fast the Fréchet distance of two sets of moments is beside pytorch-fid and torch-fidelity.

    frechet_speed.py --noisemark build/release/bin/noisemark --out FOLDER

All contestants get the same mean and covariance, in turns, in one run: ours as a process of its own for
each turn (`noisemark fid`), which states the time of the distance alone; the peers as calls in this
process. The ratio is of those times; the whole process, with its start and the reading of the files, is a
row of its own. FOLDER gets frechet_speed.md and every turn (frechet_speed.json). A peer that cannot be
imported is left out, and the table says so.

With --gate the exit code is 1 unless pytorch-fid takes at least 10 times and torch-fidelity at least 3
times as long (where they are here), and the values agree to 1e-6 of the traces.

Exit codes: 0 measured, 1 gate, 2 bad input, 77 NumPy is not installed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

GATES = {"pytorch-fid": 10.0, "torch-fidelity": 3.0}
OURS = "noisemark"
PROCESS = "noisemark, whole process"
_AGREEMENT = 1e-6


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--noisemark", type=Path, required=True, metavar="BIN")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new one")
    parser.add_argument("--dimension", type=int, default=2048, help="of the features (default: 2048)")
    parser.add_argument("--samples", type=int, default=0,
                        help="of each set (default: 3 times the dimension)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default: 5)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1,
                        help="of each contestant (default: all processors)")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when too slow")
    return parser.parse_args(argv)


def _limit_threads(threads: int) -> None:
    """Before NumPy and SciPy load their BLAS."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)


def _moments(seed: int, samples: int, dimension: int) -> dict:
    """Of features whose eigenvalues span four decades, as those of networks do."""
    import numpy as np

    rng = np.random.default_rng(seed)
    scale = 10.0 ** -np.linspace(0, 2, dimension)
    mix = np.linalg.qr(np.random.default_rng(7).standard_normal((dimension, dimension)))[0]
    features = (rng.standard_normal((samples, dimension)) * scale) @ mix
    return {"mu": features.mean(axis=0), "sigma": np.cov(features, rowvar=False)}


def _pytorch_fid() -> Callable[[dict, dict], float]:
    from pytorch_fid.fid_score import calculate_frechet_distance

    return lambda a, b: calculate_frechet_distance(a["mu"], a["sigma"], b["mu"], b["sigma"])


def _torch_fidelity() -> Callable[[dict, dict], float]:
    from torch_fidelity.metric_fid import fid_statistics_to_metric

    return lambda a, b: fid_statistics_to_metric(a, b, False)["frechet_inception_distance"]


def _peers() -> tuple[dict[str, Callable[[dict, dict], float]], list[str]]:
    """What can be called here, and in words what cannot."""
    found, absent = {}, []
    for name, load in (("pytorch-fid", _pytorch_fid), ("torch-fidelity", _torch_fidelity)):
        try:
            found[name] = load()
        except ImportError as missing:
            absent.append(f"{name} is left out: {missing}")
    return found, absent


def _run_ours(args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """(seconds, value) by row."""
    begin = time.perf_counter()
    done = subprocess.run([args.noisemark, "fid", args.out / "a.npz", args.out / "b.npz", "--json",
                           "--device", "cpu", "--threads", str(args.threads)],
                          check=True, capture_output=True, text=True)
    whole_s = time.perf_counter() - begin
    reply = json.loads(done.stdout)
    return {OURS: (reply["frechet_s"], reply["value"]), PROCESS: (whole_s, reply["value"])}


def _run_peer(call: Callable[[dict, dict], float], a: dict, b: dict) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's about its own sqrtm
        begin = time.perf_counter()
        value = call(a, b)
        return time.perf_counter() - begin, float(value)


def _measure(args: argparse.Namespace, peers: dict, a: dict, b: dict) -> dict[str, list]:
    """Turns by row; every other round the other way round."""
    turns: dict[str, list] = {}
    for turn in range(args.rounds):
        names = [OURS, *peers]
        for name in names if turn % 2 == 0 else reversed(names):
            results = _run_ours(args) if name == OURS else {name: _run_peer(peers[name], a, b)}
            for row, result in results.items():
                turns.setdefault(row, []).append(result)
    return turns


def _table(turns: dict[str, list], notes: list[str], args: argparse.Namespace) -> str:
    ours_s = median(seconds for seconds, _ in turns[OURS])
    lines = [f"# Fréchet distance of moments, d = {args.dimension}", "",
             f"{args.rounds} turns of each, {args.threads} threads; medians, smallest and largest.", "",
             "| contestant | s | smallest | largest | times ours | value |",
             "|---|---:|---:|---:|---:|---:|"]
    for name, results in turns.items():
        seconds = [s for s, _ in results]
        lines.append(f"| {name} | {median(seconds):.3f} | {min(seconds):.3f} | {max(seconds):.3f} | "
                     f"{median(seconds) / ours_s:.1f} | {results[0][1]:.9g} |")
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _failures(turns: dict[str, list], traces: float) -> list[str]:
    ours_s = median(seconds for seconds, _ in turns[OURS])
    ours = turns[OURS][0][1]
    failures = []
    for name, least in GATES.items():
        if name not in turns:
            continue
        ratio = median(seconds for seconds, _ in turns[name]) / ours_s
        if ratio < least:
            failures.append(f"{name} takes {ratio:.1f} times as long, not {least:g} times")
        if abs(turns[name][0][1] - ours) > _AGREEMENT * traces:
            failures.append(f"{name} finds {turns[name][0][1]:.9g}, we {ours:.9g}")
    return failures


def main(argv: list[str]) -> int:
    args = _arguments(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    args.noisemark = args.noisemark.resolve()
    if not args.noisemark.is_file():
        print(f"frechet_speed.py: --noisemark: {args.noisemark}: no such file", file=sys.stderr)
        return 2
    _limit_threads(args.threads)
    try:
        import numpy as np
    except ImportError as missing:
        print(f"frechet_speed.py: {missing}", file=sys.stderr)
        return 77

    samples = args.samples or 3 * args.dimension
    a, b = (_moments(seed, samples, args.dimension) for seed in (1, 2))
    for name, moments in (("a", a), ("b", b)):
        np.savez(args.out / f"{name}.npz", **moments)
    peers, notes = _peers()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(args.threads)
    turns = _measure(args, peers, a, b)
    for name in ("a", "b"):
        (args.out / f"{name}.npz").unlink()
    failures = _failures(turns, float(np.trace(a["sigma"]) + np.trace(b["sigma"])))
    text = _table(turns, notes, args)
    (args.out / "frechet_speed.md").write_text(text)
    (args.out / "frechet_speed.json").write_text(json.dumps(turns, indent=1) + "\n")
    print(text)
    for failure in failures:
        print(f"frechet_speed.py: {failure}", file=sys.stderr)
    return 1 if args.gate and failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
