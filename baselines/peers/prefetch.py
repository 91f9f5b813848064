"""Images that are made ahead of the step, as the peers' users have them from a DataLoader with workers."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import torch

from pictures import Pictures


def _make(pictures: Pictures, size: int, generator: torch.Generator, pinned: bool) -> torch.Tensor:
    batch = pictures.batch(size, generator)
    return batch.pin_memory() if pinned else batch


class Prefetch:
    """The batches that `pictures` would draw next, in that order, made by a thread that keeps `ahead` of them
    ready. `pinned` memory is what a GPU copies from without the host's waiting. The thread ends with this object
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
