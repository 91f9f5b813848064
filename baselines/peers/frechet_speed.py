#!/usr/bin/env python3
"""Times the Fréchet distance of moments by Noisemark and both peers in one interleaved run (pace.py).

    frechet_speed.py --program build/release/bin/noisemark_frechet_turns --out FOLDER [--gate]

All three get the same means and covariances, in float64, the same number of threads and a process that
stays alive; each has read its files before its first turn. The peers are called by their own functions.
FOLDER gets frechet_speed.md and every turn (frechet_speed.json). A peer that cannot be imported is left
out, and the table says so.

With --gate the exit code is 1 unless the median ratio is at least 10 to pytorch-fid and 3 to
torch-fidelity, and the values agree to 1e-6 of the traces; then both have to be here. --recorded FILE
judges the turns of an earlier run and measures nothing.

Exit codes: 0 measured, 1 a gate or a contestant failed, 2 bad input, 77 NumPy or, with --gate, a peer is
not installed.
"""

import argparse
import importlib.util
import json
import os
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pace
import pages
from endings import BadInput, CannotRunHere, exit_code_of
from speed_gate import Gate, Verdict, judge, outcome, read_record

OURS = "noisemark"
_MODULES = {"pytorch-fid": "pytorch_fid", "torch-fidelity": "torch_fidelity"}
GATES = (Gate(OURS, "pytorch-fid", 10.0), Gate(OURS, "torch-fidelity", 3.0))
_AGREEMENT = 1e-6  # relative difference of the traces: pytorch-fid goes through a general matrix square root
_PROGRAM = Path(__file__).resolve()


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = pace.argument_parser(__doc__, threads=os.cpu_count() or 1, rounds=6, warmup_rounds=1)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--program", type=Path, metavar="BIN", help="the program noisemark_frechet_turns")
    side.add_argument("--recorded", type=Path, metavar="FILE", help="a frechet_speed.json")
    side.add_argument("--serve", choices=_MODULES, help=argparse.SUPPRESS)
    parser.add_argument("--moments", type=Path, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--dimension", type=int, default=2048, help="dimension of the features (default: 2048)")
    parser.add_argument("--samples", type=int, default=0,
                        help="samples of each set (default: 3 times the dimension)")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when too slow")
    args = parser.parse_args(argv)
    if min(args.dimension, args.threads) < 1 or args.samples < 0:
        raise BadInput("--dimension, --threads: (an integer of at least 1)")
    return args


def _limit_threads(threads: int) -> None:
    """Before NumPy and SciPy load their BLAS; contestants inherit it."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)


def _moments(seed: int, samples: int, dimension: int) -> dict[str, Any]:
    """Returns moments of features whose eigenvalues span four decades, as those of networks do."""
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


_LOADERS = {"pytorch-fid": _pytorch_fid, "torch-fidelity": _torch_fidelity}


def _take_turn(distance: Callable[[dict, dict], float], a: dict, b: dict, steps: int) -> dict[str, Any]:
    step_s, value = [], 0.0
    for _ in range(steps):
        begin = time.perf_counter()
        value = distance(a, b)
        step_s.append(time.perf_counter() - begin)
    return {"step_s": step_s, "value": float(value)}


def _serve(args: argparse.Namespace) -> None:
    """Turns of a peer: one step is one distance."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # only the protocol may reach the driver
    warnings.simplefilter("ignore")  # SciPy's about its own sqrtm
    try:
        import numpy as np

        distance = _LOADERS[args.serve]()
    except ImportError as missing:
        raise CannotRunHere(f"{args.serve}: {missing}") from missing
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(args.threads)
    a, b = ({key: np.load(path)[key] for key in ("mu", "sigma")} for path in args.moments)
    print(json.dumps({"ready": True, "batch": 1, "threads": args.threads}), file=replies, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] != ["run"]:
            break
        print(json.dumps(_take_turn(distance, a, b, int(words[1]))), file=replies, flush=True)


def _peers_here(gate: bool) -> tuple[list[str], list[str]]:
    """Those that are installed, and in words those that are not."""
    here = [name for name, module in _MODULES.items() if importlib.util.find_spec(module)]
    absent = [f"{name} is left out: it is not installed" for name in _MODULES if name not in here]
    if gate and absent:
        raise CannotRunHere(f"--gate: {'; '.join(absent)}")
    return here, absent


def _commands(args: argparse.Namespace, peers: list[str], files: list[Path]) -> dict[str, str]:
    moments = list(map(str, files))
    commands = {OURS: shlex.join([str(args.program), *moments, str(args.threads)])}
    for peer in peers:
        commands[peer] = shlex.join([sys.executable, "-B", str(_PROGRAM), "--serve", peer, "--threads",
                                     str(args.threads), "--moments", *moments])
    return commands


def _values(record: dict[str, Any]) -> dict[str, float]:
    return {c["name"]: c["turns"][-1]["value"] for c in record["contestants"]}


def _agreement(record: dict[str, Any]) -> list[Verdict]:
    values = _values(record)
    bound = _AGREEMENT * record["traces"]
    return [Verdict(f"{name} finds {value:.9g}, we {values[OURS]:.9g} (within {bound:.2g})",
                    abs(value - values[OURS]) <= bound)
            for name, value in values.items() if name != OURS]


def verdicts_of(record: dict[str, Any]) -> list[Verdict]:
    """Returns the verdicts of every gate and of every peer's value. Raises BadInput where the turns are not of a distance."""
    try:
        return [*judge(record, GATES), *_agreement(record)]
    except KeyError as error:
        raise BadInput(f"turns without {error} (turns of frechet_speed.py)") from error


def _table(record: dict[str, Any], notes: list[str]) -> str:
    values = _values(record)
    lines = [f"# Fréchet distance of moments, d = {record['dimension']}", "",
             f"{record['threads']} threads each. Seconds are the median, the smallest and the largest of all rounds; the "
             "ratio is the median over rounds, with its 95 % interval.", "",
             "| contestant | s | smallest | largest | times as long as ours | value |",
             "|---|---:|---:|---:|---:|---:|"]
    for contestant in record["contestants"]:
        name = contestant["name"]
        seconds = [median(turn["step_s"]) for turn in contestant["turns"][record["warmup_rounds"]:]]
        ours = next(row for row in pace.rows_of(record, name) if row.name == OURS)
        ratio = pace.with_interval(ours.ratio, ours.ratio_ci95, 2)
        lines.append(f"| {name} | {median(seconds):.3f} | {min(seconds):.3f} | {max(seconds):.3f} | {ratio} | "
                     f"{values[name]:.9g} |")
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _measured(args: argparse.Namespace, peers: list[str]) -> dict[str, Any]:
    import numpy as np

    samples = args.samples or 3 * args.dimension
    with tempfile.TemporaryDirectory() as folder:
        files, traces = [], 0.0
        for seed in (1, 2):
            moments = _moments(seed, samples, args.dimension)
            traces += float(np.trace(moments["sigma"]))
            files.append(Path(folder, f"{'ab'[seed - 1]}.npz"))
            np.savez(files[-1], **moments)
        record = pace.measure(_commands(args, peers, files),
                              pace.Turns(args.rounds, args.warmup_rounds, 1), OURS)
        record = pace.without_paths(record, {folder: "FOLDER", sys.executable: "python3",
                                             _PROGRAM: _PROGRAM.name, args.program: args.program.name})
    return {**record, "dimension": args.dimension, "samples": samples, "threads": args.threads,
            "traces": traces}


def _measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measures, writes FOLDER and prints the table."""
    if args.out is None:
        raise BadInput("--out: missing (a folder)")
    peers, absent = _peers_here(args.gate)
    args.program = args.program.resolve()
    _limit_threads(args.threads)
    record = _measured(args, peers)
    text = _table(record, absent)
    args.out.mkdir(parents=True, exist_ok=True)
    pages.write(args.out / "frechet_speed.md", text)
    (args.out / "frechet_speed.json").write_text(json.dumps(record, indent=1) + "\n")
    print(text)
    return record


def _run(argv: list[str]) -> int:
    args = _arguments(argv)
    if args.serve:
        _limit_threads(args.threads)
        _serve(args)
        return 0
    record = read_record(args.recorded) if args.recorded else _measure(args)
    return outcome(verdicts_of(record), args.gate)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _run(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
