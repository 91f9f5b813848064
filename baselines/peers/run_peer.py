#!/usr/bin/env python3
"""Trains a benchmark's definition with the Python peers and measures it like Noisemark does.

Exit codes: 0 measured, 1 the loss was not finite, 2 bad input, 77 cannot run here.
"""

import argparse
import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from definition import Definition, canonical_text, load_definition
from endings import BadInput, CannotRunHere, exit_code_of
from peer_result import MemoryPass, PeerRun, result_of, write_result
from variants import ACCEPTED, parse_variant

if TYPE_CHECKING:
    from pictures import Pictures
    from training import PeerTrainer, Step

EXIT_NOT_FINITE = 1

_PHASES = ("data_wait_s", "forward_s", "backward_s", "optimizer_s", "ema_s")


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--definition", type=Path, required=True, metavar="FILE",
                        help="canonical JSON, a result.json, or the output of `noisemark list --json`")
    parser.add_argument("--id", help="benchmark of a list: ID, ID@cpu or ID@gpu")
    parser.add_argument("--variant", default="eager", metavar="V", help=f"one of: {ACCEPTED}")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with CIFAR-10's binary files")
    parser.add_argument("--steps", type=int, metavar="N",
                        help="number of steps in place of the definition's; the run is then custom")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of torch (default: torch's own number)")
    parser.add_argument("--no-memory", action="store_true", help="leave the memory pass out")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", type=Path, metavar="DIR", help="folder into which result.json is written")
    target.add_argument("--pace", action="store_true", help="serve turns for pace.py on stdin")
    return parser.parse_args(argv)


def _with_steps(definition: Definition, steps: int | None) -> Definition:
    if steps is None or steps == definition["train"]["steps"]:
        return definition
    if steps < 1:
        raise BadInput(f"--steps: {steps} (an integer of at least 1)")
    train = {**definition["train"], "steps": steps}
    sections = {**definition.sections, "train": train}
    kept = [entry for entry in definition.overrides if not entry.startswith("train.steps=")]
    return replace(definition, text=canonical_text(sections), sections=sections, custom=True,
                   overrides=(*kept, f"train.steps={steps}"))


def _check_output(folder: Path | None) -> None:
    if folder is not None and (folder / "result.json").exists():
        raise BadInput(f"--out: {folder}: holds a result.json (a folder without one)")


def _trainer(
    args: argparse.Namespace, definition: Definition
) -> tuple["PeerTrainer", "Pictures"]:
    try:
        import torch

        from pictures import load_pictures
        from training import PeerTrainer, join_ranks, open_device
    except ImportError as error:
        raise CannotRunHere(
            f"the peers cannot be imported: {error} (containers/setup.sh test puts them into build/venv)"
        ) from error
    if args.threads is not None:
        if args.threads < 1:
            raise BadInput(f"--threads: {args.threads} (an integer of at least 1)")
        torch.set_num_threads(args.threads)
    args.threads = torch.get_num_threads()
    if args.precision == "tf32" and args.device == "cpu":
        raise BadInput("--precision: tf32: needs a CUDA device (fp32 or bf16 here)")
    device = open_device(args.device)
    pictures = load_pictures(definition, args.data)
    trainer = PeerTrainer(definition, pictures, args.variant, args.precision, device, join_ranks())
    return trainer, pictures


def _samples_of(steps: list["Step"]) -> dict[str, list[float]]:
    samples = {"step_s": [step.step_s for step in steps]}
    for phase in _PHASES:
        samples[phase] = [step.phases[phase] for step in steps]
    samples["loss"] = [step.loss for step in steps]
    samples["grad_norm"] = [step.grad_norm for step in steps if step.grad_norm is not None]
    return samples


def _memory_of(args: argparse.Namespace, trainer: "PeerTrainer") -> MemoryPass:
    if args.no_memory or not trainer.definition["measure"]["memory_steps"]:
        return MemoryPass()
    from peer_memory import measure_memory

    return measure_memory(trainer)


def _measure(args: argparse.Namespace, definition: Definition) -> int:
    trainer, pictures = _trainer(args, definition)
    steps = []
    for index in range(definition["train"]["steps"]):
        steps.append(trainer.step())
        if not math.isfinite(steps[-1].loss):
            print(f"step {index}: the loss is {steps[-1].loss}", file=sys.stderr)
            return EXIT_NOT_FINITE
    device = args.device if args.device != "cuda" else "cuda:0"
    run = PeerRun(
        definition, [sys.argv[0], *args.argv], args.variant.name, args.precision, device,
        args.threads, pictures.standing, pictures.files, trainer.parameters, _samples_of(steps),
        _memory_of(args, trainer),
    )
    if trainer.ranks > 1 and int(os.environ["RANK"]) > 0:
        return 0  # the first rank's figures are written: each waits for the others in every step
    args.out.mkdir(parents=True, exist_ok=True)
    result = result_of(run)
    write_result(args.out / "result.json", result)
    rate = result["metrics"][0]["value"]
    print(f"{definition.name} peer:{args.variant.name} {args.precision}: {rate:.2f} images/s, {args.out}")
    return 0


def _answer(to: TextIO, message: dict[str, Any]) -> None:
    to.write(json.dumps(message) + "\n")
    to.flush()


def _turn_of(line: str) -> int:
    words = line.split()
    if len(words) == 2 and words[0] == "run" and words[1].isdigit() and int(words[1]) > 0:
        return int(words[1])
    raise BadInput(f"pace: {line.strip()!r} (run STEPS, or quit)")


def _pace(args: argparse.Namespace, definition: Definition) -> int:
    # Only the protocol may reach the driver: whatever a library prints goes to stderr.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    trainer, _ = _trainer(args, definition)
    _answer(replies, {
        "ready": True,
        "benchmark": definition["benchmark"]["id"],
        "variant": f"peer:{args.variant.name} {args.precision}",
        "threads": args.threads,
        "batch": definition["train"]["batch"],
    })
    for line in iter(sys.stdin.readline, ""):
        if line.strip() == "quit":
            break
        _answer(replies, _samples_of([trainer.step() for _ in range(_turn_of(line))]))
    return 0


def _run(args: argparse.Namespace) -> int:
    _check_output(args.out)
    args.variant = parse_variant(args.variant)
    definition = _with_steps(load_definition(args.definition, args.id), args.steps)
    return _pace(args, definition) if args.pace else _measure(args, definition)


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    args = _arguments(argv)
    args.argv = argv
    return exit_code_of(lambda: _run(args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
