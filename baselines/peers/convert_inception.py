#!/usr/bin/env python3
"""Makes of the Inception weights that pytorch-fid and torch-fidelity load the file that Noisemark reads.

    convert_inception.py pt_inception-2015-12-05-6726825d.pth inception-2015-12-05.safetensors

Both peers' files have the same bytes; theirs is read, nothing is downloaded. The new file holds the same
float32 tensors under the same names, without `num_batches_tracked`, and says in its metadata which
file it was made of and which tensors were in it (SHA-256 of both). Noisemark calls a distance FID only
where that file is the official one. Other weights of the same shapes are converted too.

Exit codes: 0 converted, 2 bad input, 74 cannot write, 77 the peers are not installed.
"""

import argparse
import hashlib
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from endings import BadInput, Failure, exit_code_of

if TYPE_CHECKING:
    import torch


# The checksum of the official file; both peers put the first eight digits into its name.
OFFICIAL_SHA256 = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
CLASSES = 1008

_UNUSED = ".num_batches_tracked"
_NAMES_SHOWN = 5

Tensors = dict[str, "torch.Tensor"]


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tensors_sha256(tensors: Tensors) -> str:
    """Hashes name, type, shape and bytes of each, in the order of their names: as Noisemark counts it."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        shape = ",".join(map(str, tensors[name].shape))
        digest.update(f"{name}\0F32\0{shape}\0".encode())
        digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def expected_shapes() -> dict[str, tuple[int, ...]]:
    """Returns the shapes of torchvision's Inception v3 with as many classes as FID's has. FID's poolings differ from
    it, and they have no weights."""
    import torch
    from torchvision.models import inception_v3

    with torch.device("meta"):
        network = inception_v3(num_classes=CLASSES, aux_logits=False, init_weights=False)
    return {name: tuple(t.shape) for name, t in network.state_dict().items() if not name.endswith(_UNUSED)}


def _listed(what: str, names: list[str]) -> list[str]:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return [f"{what} {', '.join(names[:_NAMES_SHOWN])}{more}"] if names else []


def check_tensors(tensors: Tensors, where: Path) -> None:
    """Raises BadInput, naming what is missing, unexpected or of another shape or type."""
    import torch

    expected = expected_shapes()
    problems = _listed("missing", [name for name in expected if name not in tensors])
    problems += _listed("unexpected", [name for name in tensors if name not in expected])
    problems += _listed("misshapen", [f"{name} {list(tensors[name].shape)} instead of {list(shape)}"
                                      for name, shape in expected.items()
                                      if name in tensors and tuple(tensors[name].shape) != shape])
    problems += _listed("not float32", [name for name, tensor in tensors.items()
                                        if tensor.dtype != torch.float32])
    if problems:
        raise BadInput(f"{where}: tensors: {'; '.join(problems)} (exactly the {len(expected)} of FID's "
                       "Inception network)")


def load_tensors(path: Path) -> Tensors:
    """The state dict of a .pth file, checked."""
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error} (a PyTorch file)") from error
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise BadInput(f"{path}: not a PyTorch file: {str(error).partition(chr(10))[0]} "
                       "(a state dict saved by torch.save)") from error
    if not isinstance(state, dict) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        raise BadInput(f"{path}: not a state dict (names and tensors)")
    tensors = {name: tensor for name, tensor in state.items() if not name.endswith(_UNUSED)}
    check_tensors(tensors, path)
    return tensors


def check_name(path: Path, sha256: str) -> None:
    """A file with the official one's name has to be that file: half a download has it too."""
    if OFFICIAL_SHA256[:8] in path.name and sha256 != OFFICIAL_SHA256:
        raise BadInput(f"{path}: SHA-256 {sha256} ({OFFICIAL_SHA256}: the file was not downloaded "
                       "whole, or is another one)")


def write_tensors(tensors: Tensors, metadata: dict[str, str], path: Path) -> None:
    """Beside its place first, so that what has the name is whole."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside, metadata)
        beside.replace(path)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    finally:
        beside.unlink(missing_ok=True)


def convert(source: Path, target: Path) -> str:
    """Returns the source's SHA-256."""
    if not source.is_file():
        raise BadInput(f"{source}: no such file (pt_inception-2015-12-05-6726825d.pth of pytorch-fid, or "
                       "weights-inception-2015-12-05-6726825d.pth of torch-fidelity)")
    sha256 = file_sha256(source)
    check_name(source, sha256)
    tensors = load_tensors(source)
    metadata = {"format": "pt", "network": "fid-inception-v3", "source_sha256": sha256,
                "tensors_sha256": tensors_sha256(tensors)}
    write_tensors(tensors, metadata, target)
    return sha256


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("source", type=Path, metavar="FILE.pth")
    parser.add_argument("target", type=Path, metavar="FILE.safetensors")
    return parser.parse_args(argv)


class CannotWrite(Failure):
    """The disk is full, or the place is no file's."""

    exit_code = 74


def _run(args: argparse.Namespace) -> int:
    try:
        sha256 = convert(args.source, args.target)
    except OSError as error:
        raise CannotWrite(f"{args.target}: {error.strerror or error}") from error
    standing = "the official file" if sha256 == OFFICIAL_SHA256 else (
        "not the official file: distances with it will not be called FID")
    print(f"{args.target}: made of {args.source}, SHA-256 {sha256}, {standing}")
    return 0


def main(argv: list[str]) -> int:
    """Runs the command; returns the exit code."""
    return exit_code_of(lambda: _run(_arguments(argv)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
