#!/usr/bin/env python3
"""Times training by several ranks beside Python's DistributedDataParallel, and compares the bytes that a rank takes.

    ranks_speed.py --noisemark build/release/bin/noisemark --out FOLDER [--benchmark ho-cifar10@cpu --data DIR]

Both train the same definition over Gloo, with one thread a rank, and take turns: a turn is a run of its own, whose
first steps are left out. The peer is run_peer.py under torchrun, whose gradients are views of the buckets, as
Noisemark's are. Then each measures its memory once. FOLDER gets ranks.json, with every turn, and the table is printed.

--gate asks that Noisemark makes at least as many images a second, that a rank's peak is no higher than the peer's, and
that at most half of the communication is exposed.

Exit codes: 0 measured, 1 a gate or a contestant failed, 2 bad input, 77 cannot run here.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import pace
from endings import EXIT_CANNOT_RUN_HERE, BadInput, CannotRunHere, exit_code_of
from speed_gate import Gate, Verdict, judge, outcome

_PEER = Path(__file__).resolve().parent / "run_peer.py"
_WARMUP_STEPS = 3
_MOST_EXPOSED = 0.5
_ATTEMPTS = 4


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = pace.argument_parser(__doc__, rounds=6, steps=12)
    parser.add_argument("--noisemark", type=Path, required=True, metavar="BIN")
    parser.add_argument("--benchmark", default="gmm16-ho@cpu", metavar="ID",
                        help="the benchmark (default: gmm16-ho@cpu)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the pictures, if the benchmark has some")
    parser.add_argument("--baseline", default="plain", metavar="B", help="baseline of Noisemark (default: plain)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="a new folder")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--turns-of", choices=("ours", "peer"), help=argparse.SUPPRESS)  # serves pace.py
    return parser.parse_args(argv)


class Contestant:
    """Starts runs of one side."""

    def __init__(self, args: argparse.Namespace, side: str) -> None:
        self._args = args
        self._side = side

    def _command(self, steps: int, memory: bool, folder: Path) -> list[object]:
        args = self._args
        data = ["--data", args.data] if args.data else []
        more = ["--threads", 1, *data, *([] if memory else ["--no-memory"]), "--out", folder / "run"]
        if self._side == "ours":
            return [args.noisemark, "run", args.benchmark, "--ranks", args.ranks, "--baseline", args.baseline,
                    "--set", f"train.steps={steps}", "--set", "eval.every=0", "--set", "eval.samples=8", "--no-profile", *more]
        definitions = folder / "list.json"
        listed = subprocess.run([args.noisemark, "list", "--json"], stdout=subprocess.PIPE, check=True)
        definitions.write_bytes(listed.stdout)
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", args.ranks, _PEER,
                "--definition", definitions, "--id", args.benchmark, "--steps", steps, *more]

    def result(self, steps: int, memory: bool) -> dict[str, Any]:
        """Returns what a run of so many steps wrote."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = [str(word) for word in self._command(steps, memory, folder)]
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            if done.returncode == EXIT_CANNOT_RUN_HERE:
                raise CannotRunHere(f"{self._side}: {done.stdout.strip()[-400:]}")
            if done.returncode != 0:
                raise pace.ContestantFailed(self._side, f"exit code {done.returncode}: {done.stdout.strip()[-800:]}")
            return json.loads((folder / "run" / "result.json").read_text())

    def serve(self) -> None:
        """Answers turns (the protocol is that of pace.py)."""
        batch = self.result(_WARMUP_STEPS + 1, memory=False)["protocol"]["batch"]
        self._answer({"ready": True, "benchmark": self._args.benchmark, "variant": self._side, "threads": 1, "batch": batch})
        for line in iter(sys.stdin.readline, ""):
            if line.strip() == "quit":
                return
            samples = self.result(_WARMUP_STEPS + int(line.split()[1]), memory=False)["samples"]
            self._answer({name: values[_WARMUP_STEPS:] for name, values in samples.items()})

    @staticmethod
    def _answer(message: dict[str, Any]) -> None:
        print(json.dumps(message), flush=True)


def _peak_of(result: dict[str, Any]) -> int | None:
    """Returns the highest peak of the ranks, where each has said it; a peer says that of its first."""
    peaks = [rank["peak"]["allocator_bytes"] for rank in result.get("ranks", [])]
    return max(peaks) if peaks else next((m["value"] for m in result["metrics"] if m["name"] == "peak_bytes"), None)


def _peak_bytes(contestant: Contestant) -> int:
    """A profiler may miss a release by one of Gloo's threads, and the peer then has no figure: it is asked again."""
    for _ in range(_ATTEMPTS):
        peak = _peak_of(contestant.result(_WARMUP_STEPS + 1, memory=True))
        if peak:
            return int(peak)
    raise pace.ContestantFailed("memory", f"no peak in {_ATTEMPTS} runs")


def _exposed_part(record: dict[str, Any]) -> float:
    """Returns the part of the communication that no backward pass hides: the median over our timed steps."""
    turns = next(c["turns"] for c in record["contestants"] if c["name"] == "ours")[record["warmup_rounds"]:]
    parts = [exposed / whole for turn in turns for exposed, whole in zip(turn["exposed_s"], turn["communication_s"])]
    return median(parts)


def verdicts_of(record: dict[str, Any]) -> list[Verdict]:
    """Judges a record of `ranks.json` by the three gates."""
    ours, peer = record["peak_bytes"]["ours"], record["peak_bytes"]["peer"]
    exposed = record["exposed_part"]
    return [
        *judge(record, [Gate("ours", "peer", 1.0)]),
        Verdict(f"the peak of a rank is {ours:,} bytes (at most {peer:,}, the peer's)", ours <= peer),
        Verdict(f"{100 * exposed:.0f} % of the communication are exposed (at most {100 * _MOST_EXPOSED:.0f} %)",
                exposed <= _MOST_EXPOSED),
    ]


def _measure(args: argparse.Namespace) -> int:
    if args.out is None or args.out.exists():
        raise BadInput(f"--out: {args.out} (a new folder)")
    if shutil.which(str(args.noisemark)) is None:
        raise BadInput(f"--noisemark: {args.noisemark} (a program)")
    given = [str(word) for name, word in (("--noisemark", args.noisemark), ("--benchmark", args.benchmark),
                                          ("--data", args.data), ("--baseline", args.baseline), ("--ranks", args.ranks))
             if word is not None for word in (name, word)]
    commands = {side: pace.words(sys.executable, Path(__file__).resolve(), *given, "--turns-of", side)
                for side in ("peer", "ours")}
    record = pace.measure(commands, pace.Turns(rounds=args.rounds, steps=args.steps, warmup_rounds=1))
    record["peak_bytes"] = {side: _peak_bytes(Contestant(args, side)) for side in commands}
    record["exposed_part"] = _exposed_part(record)
    args.out.mkdir(parents=True)
    names = {args.noisemark: "noisemark", Path(sys.executable): "python3", Path(__file__).resolve(): "ranks_speed.py"}
    if args.data:
        names[args.data] = "DIR"
    (args.out / "ranks.json").write_text(json.dumps(pace.without_paths(record, names), indent=1) + "\n")
    print(pace.markdown(pace.rows_of(record, "peer"), "peer"))
    return outcome(verdicts_of(record), args.gate)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    args = _arguments(argv)
    if args.turns_of:
        return exit_code_of(lambda: Contestant(args, args.turns_of).serve() or 0)
    return exit_code_of(lambda: _measure(args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
