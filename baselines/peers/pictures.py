"""Training images in memory, so that the peers are timed and not their file formats."""

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from definition import Definition
from endings import BadInput

_RECORD_BYTES = 1 + 3 * 32 * 32
_GENERATED = 4096  # enough that no cache holds them

# SHA-256 of the official files, under the names that Noisemark's own results give them.
CIFAR10_FILES = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
_TEST_FILE = "test_batch.bin"


@dataclass(frozen=True)
class Pictures:
    """All training images [N, C, H, W], uint8, and what is known of where they come from."""

    values: torch.Tensor
    flip: bool
    standing: str  # "official", "unofficial" or "generated"
    files: list[dict[str, Any]] = field(default_factory=list)

    def batch(self, size: int, generator: torch.Generator | None = None) -> torch.Tensor:
        """`size` random ones, flipped at random, float32 in [0, 1]. Without a generator torch's own is drawn from."""
        chosen = self.values[torch.randint(len(self.values), (size,), generator=generator)]
        if self.flip:
            flipped = torch.rand(size, generator=generator) < 0.5
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
    sha256 = hashlib.sha256(raw).hexdigest()
    file = {
        "name": path.name,
        "sha256": sha256,
        "bytes": len(raw),
        "verified": sha256 == CIFAR10_FILES[path.name],
    }
    return records[:, 1:].reshape(-1, 3, 32, 32), file


def _read_cifar10(folder: Path, flip: bool) -> Pictures:
    inner = folder / "cifar-10-batches-bin"
    where = inner if inner.is_dir() else folder
    parts = [_read_cifar10_file(where / name) for name in CIFAR10_FILES]
    values = torch.cat([values for values, file in parts if file["name"] != _TEST_FILE])
    files = [file for _, file in parts]
    official = all(file["verified"] for file in files)
    return Pictures(values, flip, "official" if official else "unofficial", files)


def _noise(definition: Definition) -> Pictures:
    """Noisemark's generated images are its own; a step takes as long on noise."""
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


def _make(pictures: Pictures, size: int, generator: torch.Generator, pinned: bool) -> torch.Tensor:
    batch = pictures.batch(size, generator)
    return batch.pin_memory() if pinned else batch


class Prefetch:
    """The batches that `pictures` would draw next, in that order, made by a thread that keeps `ahead` of them
    ready, as the peers' users have them from a DataLoader with workers. `pinned` memory is what a GPU copies from without the host's waiting. The thread ends with this object
    or with the process, whichever is first."""

    def __init__(self, pictures: Pictures, size: int, ahead: int, *, pinned: bool) -> None:
        # A generator of its own, from where torch's stands. Torch's is not the thread's alone: checkpoints set it
        # back in every backward.
        generator = torch.Generator()
        generator.set_state(torch.get_rng_state())
        # Nothing in it may hold this object, or the thread would keep alive what it is to end with.
        self._make = partial(_make, pictures, size, generator, pinned)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._coming: deque[Future[torch.Tensor]] = deque()
        for _ in range(ahead):
            self._order()

    def _order(self) -> None:
        self._coming.append(self._thread.submit(self._make))

    def next(self) -> torch.Tensor:
        """The next batch, or what went wrong when it was made."""
        batch = self._coming.popleft()
        self._order()
        return batch.result()
