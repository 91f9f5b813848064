#!/usr/bin/env python3
"""Times sampling by Noisemark and by the Python peer in one interleaved run (pace.py).

    sampling_speed.py --noisemark build/release/bin/noisemark --out sampling.json

Both draw with the same weights, sampler (DDIM), batch and number of threads; the peer by
GaussianDiffusion's own sample(). Noisemark is a process of its own every turn and is asked for the
time that it notes in sampling.json, so its first batch is always a cold one; the peer stays alive.

With --gate the exit code is 1 unless fused+channels-last draws at least twice the images/s of the peer as
users run it, peer-eager, by the median of the ratios within a round. --recorded FILE judges the turns of
an earlier run and measures nothing.

Exit codes: 0 measured, 1 a gate or a contestant failed, 2 bad input, 77 the peers are not installed.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pace
from definition import load_definition
from endings import CannotRunHere, exit_code_of
from speed_gate import Gate, judge, outcome, read_record

GATES = (Gate("fused+channels-last", "peer-eager", 2.0),)
_PROGRAM = Path(__file__).resolve()
_TRAINED = ("--set", "train.steps=2", "--set", "eval.samples=8", "--set", "eval.every=0", "--no-memory",
            "--no-profile")


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = pace.argument_parser(__doc__, threads=2, rounds=9, warmup_rounds=1)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--noisemark", type=Path, metavar="BIN")
    side.add_argument("--recorded", type=Path, metavar="FILE", help="the file that an earlier run wrote to --out")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file of all results, as JSON")
    parser.add_argument("--benchmark", default="gmm16@cpu", metavar="ID",
                        help="a benchmark of generated data (default: gmm16@cpu)")
    parser.add_argument("--ddim-steps", type=int, default=10, metavar="S", help="steps of the sampler (default: 10)")
    parser.add_argument("--batch", type=int, default=16, metavar="B", help="images of a batch (default: 16)")
    parser.add_argument("--baselines", nargs="+", default=("fused+channels-last", "plain"),
                        metavar="NAME", help="baselines of Noisemark (default: fused+channels-last plain)")
    parser.add_argument("--variants", nargs="+", default=("eager", "channels-last"), metavar="V",
                        choices=("eager", "channels-last", "compiled"),
                        help="variants of the peer; the first is the reference (default: eager channels-last)")
    parser.add_argument("--batches", type=int, default=16, help="batches of a turn (default: 16)")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when too slow")
    parser.add_argument("--serve", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


class Ours:
    """Draws in a process of its own."""

    def __init__(self, args: argparse.Namespace, baseline: str) -> None:
        self._args = args
        self._command = [
            args.noisemark, "sample", args.benchmark, "--device", "cpu", "--weights",
            args.folder / "run", "--use", "model", "--sampler", "ddim", "--steps", args.ddim_steps,
            "--batch", args.batch, "--threads", args.threads, "--baseline", baseline, "--force",
            "--out", args.folder / baseline,
        ]
        self._record = args.folder / baseline / "sampling.json"

    def draw(self, batches: int) -> list[float]:
        command = [*self._command, "--samples", self._args.batch * batches]
        subprocess.run(list(map(str, command)), stdout=sys.stderr, check=True)
        seconds = json.loads(self._record.read_text())["execution"]["sampling_s"]
        return [seconds / batches] * batches


class Peer:
    """GaussianDiffusion, kept alive."""

    def __init__(self, args: argparse.Namespace, variant: str) -> None:
        try:
            import torch
            from safetensors.torch import load_file

            from networks import build_loss, build_network
        except ImportError as error:
            raise CannotRunHere(f"the peers cannot be imported: {error}") from error
        torch.set_num_threads(args.threads)
        definition = load_definition(args.folder / "list.json", args.benchmark)
        network = build_network(definition).eval()
        weights = load_file(args.folder / "run" / "weights.safetensors")
        getattr(network, "unet", network).load_state_dict(weights)
        if variant == "channels-last":
            network.to(memory_format=torch.channels_last)
        self._batch = args.batch
        self._process = build_loss(definition, network, sampling_timesteps=args.ddim_steps,
                                   ddim_sampling_eta=0.0).eval()
        if variant == "compiled":
            self._process.model = torch.compile(self._process.model)

    def draw(self, batches: int) -> list[float]:
        times = []
        for _ in range(batches):
            start = time.perf_counter()
            self._process.sample(batch_size=self._batch)
            times.append(time.perf_counter() - start)
        return times


def _serve(args: argparse.Namespace) -> None:
    """Turns of a contestant: one step is one batch."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # only the protocol may reach the driver

    def answer(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    side, _, way = args.serve.partition(":")
    contestant = Peer(args, way) if side == "peer" else Ours(args, way)
    answer({"ready": True, "batch": args.batch, "threads": args.threads})
    for line in sys.stdin:
        words = line.split()
        if words[:1] != ["run"]:
            break
        answer({"step_s": contestant.draw(int(words[1]))})


def _prepare(args: argparse.Namespace, folder: Path) -> None:
    """The definitions and weights that both sides use."""
    listing = subprocess.run([args.noisemark, "list", "--json"], capture_output=True, check=True)
    (folder / "list.json").write_bytes(listing.stdout)
    run = [args.noisemark, "run", args.benchmark, "--device", "cpu", *_TRAINED, "--out", folder / "run"]
    subprocess.run(list(map(str, run)), stdout=sys.stderr, check=True)


def _commands(args: argparse.Namespace, argv: list[str], folder: Path) -> dict[str, str]:
    serving = [sys.executable, "-B", str(_PROGRAM), *argv, "--folder", str(folder), "--serve"]
    names = {f"peer-{variant}": f"peer:{variant}" for variant in args.variants}
    names |= {baseline: f"ours:{baseline}" for baseline in args.baselines}
    return {name: shlex.join([*serving, served]) for name, served in names.items()}


def _measure(args: argparse.Namespace, argv: list[str]) -> dict[str, Any]:
    turns = pace.Turns(args.rounds, args.warmup_rounds, args.batches)
    os.environ["TQDM_DISABLE"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _prepare(args, folder)
        reference = f"peer-{args.variants[0]}"
        record = pace.measure(_commands(args, argv, folder), turns, reference)
        record = pace.without_paths(record, {
            Path(sys.executable): "python3", _PROGRAM.parent: "baselines/peers", folder: "FOLDER",
            args.noisemark: "noisemark", **({args.out: "OUT"} if args.out else {}),
        })
    record |= {"benchmark": args.benchmark, "sampler": "ddim", "ddim_steps": args.ddim_steps,
               "threads": args.threads}
    print(pace.markdown(pace.rows_of(record, reference), reference), end="")
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")
    return record


def _run(args: argparse.Namespace, argv: list[str]) -> int:
    if args.serve:
        _serve(args)
        return 0
    record = read_record(args.recorded) if args.recorded else _measure(args, argv)
    return outcome(judge(record, GATES), args.gate)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _run(_arguments(argv), argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
