#!/usr/bin/env python3
"""Times the Inception features of Noisemark and of both peers in one interleaved run (pace.py).

    inception_speed.py --program build/release/bin/noisemark_inception_probe --out FILE.json

Weights are random, pictures are random bytes of --resolution; a step is one batch through resize and
network, features on the CPU. Every side has the same weights, batch and threads.

With --gate the exit code is 1 unless ours are at least as fast as each peer's with the same resize, by the
median of the ratios within a round. --recorded FILE judges the turns of an earlier run and measures
nothing.

Exit codes: 0 measured, 1 a gate or a contestant failed, 2 bad input, 77 the peers are not installed.
"""

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pace
from convert_inception import convert
from endings import BadInput, exit_code_of
from speed_gate import Gate, judge, outcome, read_record

_PEER_NAMES = ("torch-fidelity", "pytorch-fid")
# Names the peer whose resize each of them has.
_RESIZES = {"torch-fidelity": "tf1-bilinear", "pytorch-fid": "bilinear"}


def _ours(peer: str) -> str:
    return f"ours, {_RESIZES[peer]}"


GATES = tuple(Gate(_ours(peer), peer, 1.0) for peer in _PEER_NAMES)


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = pace.argument_parser(__doc__, threads=2, rounds=8, warmup_rounds=2, steps=1)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--program", type=Path, metavar="BIN", help="the program noisemark_inception_probe")
    side.add_argument("--recorded", type=Path, metavar="FILE", help="the file that an earlier run wrote to --out")
    side.add_argument("--serve", choices=_PEER_NAMES, help="take turns as this peer, on stdin")
    parser.add_argument("--weights", type=Path, metavar="FILE.pth", help="the weights, only with --serve")
    parser.add_argument("--batch", type=int, default=16, help="pictures of a step (default: 16)")
    parser.add_argument("--resolution", type=int, default=32, help="width and height of the pictures (default: 32)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file of all results, as JSON")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when slower than a peer")
    args = parser.parse_args(argv)
    if min(args.batch, args.resolution, args.threads) < 1:
        raise BadInput("--batch, --resolution, --threads: (an integer of at least 1)")
    return args


def _serve(args: argparse.Namespace) -> None:
    import torch

    from inception_peers import PEERS

    torch.set_num_threads(args.threads)
    extract = PEERS[args.serve](args.weights, ("2048",))
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(256, (args.batch, 3, args.resolution, args.resolution),
                             generator=generator, dtype=torch.uint8)
    print(json.dumps({"ready": True, "batch": args.batch}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            return
        step_s = []
        for _ in range(int(words[1])):
            begin = time.perf_counter()
            extract(pictures)["2048"].cpu()
            step_s.append(time.perf_counter() - begin)
        print(json.dumps({"step_s": step_s}), flush=True)


def _commands(args: argparse.Namespace, weights: Path, converted: Path) -> dict[str, str]:
    """Every contestant by name, each peer behind ours with its resize."""
    sizes = {"batch": args.batch, "resolution": args.resolution, "threads": args.threads}
    commands = {}
    for peer in _PEER_NAMES:
        request = {"weights": str(converted), "resize": _RESIZES[peer], **sizes}
        commands[_ours(peer)] = shlex.join([str(args.program), "pace", json.dumps(request)])
        options = [word for key, value in sizes.items() for word in (f"--{key}", str(value))]
        commands[peer] = shlex.join([sys.executable, str(Path(__file__).resolve()), "--serve", peer,
                                     "--weights", str(weights), *options])
    return commands


def _measure(args: argparse.Namespace) -> dict[str, Any]:
    import torch

    from inception_peers import random_state

    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    turns = pace.Turns(args.rounds, args.warmup_rounds, args.steps)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder, "random.pth")
        converted = Path(folder, "random.safetensors")
        torch.save(random_state(), weights)
        convert(weights, converted)
        record = pace.measure(_commands(args, weights, converted), turns, _PEER_NAMES[0])
        record = pace.without_paths(record, {folder: "", sys.executable: "python3",
                                             Path(__file__).resolve(): Path(__file__).name,
                                             args.program: args.program.name})
    for peer in _PEER_NAMES:
        print(pace.markdown(pace.rows_of(record, peer), peer))
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")
    return record


def _run(argv: list[str]) -> int:
    args = _arguments(argv)
    if args.serve:
        _serve(args)
        return 0
    record = read_record(args.recorded) if args.recorded else _measure(args)
    return outcome(judge(record, GATES), args.gate)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _run(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
