"""Training pictures in memory, so that the peers are timed and not their file formats."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from definition import BadInput, Definition

_RECORD_BYTES = 1 + 3 * 32 * 32
_GENERATED = 4096  # enough that no cache holds them


@dataclass(frozen=True)
class Pictures:
    """All training pictures [N, C, H, W], uint8, and what is known of where they come from."""

    values: torch.Tensor
    flip: bool
    standing: str  # "unofficial" or "generated"
    files: list[dict[str, Any]] = field(default_factory=list)

    def batch(self, size: int) -> torch.Tensor:
        """`size` random ones, flipped at random, float32 in [0, 1]."""
        chosen = self.values[torch.randint(len(self.values), (size,))]
        if self.flip:
            flipped = torch.rand(size) < 0.5
            chosen[flipped] = chosen[flipped].flip(-1)
        return chosen.float().div_(255)


def _read_cifar10_file(path: Path) -> tuple[torch.Tensor, dict[str, Any]]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror} (a CIFAR-10 binary file)") from error
    if not raw or len(raw) % _RECORD_BYTES:
        raise BadInput(f"{path}: {len(raw)} bytes (a multiple of {_RECORD_BYTES})")
    records = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, _RECORD_BYTES)
    file = {
        "name": f"{path.parent.name}/{path.name}",
        "sha256": hashlib.sha256(raw).hexdigest(),
        "bytes": len(raw),
        "verified": False,
    }
    return records[:, 1:].reshape(-1, 3, 32, 32), file


def _read_cifar10(folder: Path, flip: bool) -> Pictures:
    inner = folder / "cifar-10-batches-bin"
    where = inner if inner.is_dir() else folder
    parts = [_read_cifar10_file(where / f"data_batch_{i}.bin") for i in range(1, 6)]
    values = torch.cat([values for values, _ in parts])
    return Pictures(values, flip, "unofficial", [file for _, file in parts])


def _noise(definition: Definition) -> Pictures:
    """Noisemark's generated pictures are its own; a step takes as long on noise."""
    model = definition["model"]
    shape = (_GENERATED, model["channels"], model["resolution"], model["resolution"])
    generator = torch.Generator().manual_seed(definition["data"].get("seed", 0))
    values = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
    return Pictures(values, definition["data"]["flip"], "generated")


def load_pictures(definition: Definition, folder: Path | None) -> Pictures:
    """`folder` is what --data names; only data in files needs it."""
    name = definition["data"]["name"]
    if name in ("gmm16", "synthetic"):
        return _noise(definition)
    if name != "cifar10":
        raise BadInput(f"{definition.name}: data.name: {name} (cifar10, gmm16 or synthetic)")
    if folder is None:
        raise BadInput(f"{definition.name}: --data: missing (the folder with CIFAR-10's binary files)")
    return _read_cifar10(folder, definition["data"]["flip"])
