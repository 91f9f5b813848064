"""Measures how much memory a peer's steady step takes.

On a GPU torch's caching allocator says it: how much of it is live, and the most that was since it was last
asked. On the CPU the profiler records every allocation and release of torch's allocator. Their running total
is what is live beyond what was live when the profile began, and that is what lives on between steps:
weights, buffers, optimizer state and average, whose storages are walked. It is a pass of its own, because
being watched takes time.
"""

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from peer_result import Figure, MemoryPass
from training import PeerTrainer

_ALLOCATION = "[memory]"
_MARKS = ("noisemark: begin", "noisemark: forward", "noisemark: backward", "noisemark: end")
_PEAK_METHOD = (
    "weights, buffers, optimizer and average, and the highest running total of the profiler's "
    "allocations and releases in one step"
)
_PEAK_METHOD_OF_GPU = (
    "the most that is live in torch's caching allocator in one step, torch.cuda.max_memory_allocated: all of "
    "the process, in blocks of whole 512 bytes"
)
_SAVED_METHOD = (
    "what a forward pass leaves live and its backward pass lets go; pictures and parameters are not "
    "of it, the noise that was drawn and casts of weights are"
)


@dataclass(frozen=True)
class Live:
    """Bytes relative to the beginning of the profile, or on a GPU all."""

    at_bytes: int  # bytes at the mark
    highest_bytes: int  # highest level from the mark before on


class Allocator(Protocol):
    """Holds what torch.cuda says of its caching allocator, all of it as the host asks for memory."""

    def memory_allocated(self, device: torch.device) -> int: ...
    def max_memory_allocated(self, device: torch.device) -> int: ...
    def reset_peak_memory_stats(self, device: torch.device) -> None: ...


def between_steps_bytes(trainer: PeerTrainer) -> int:
    """Sums the distinct storages of weights, buffers, average and optimizer state, and the buckets in which several
    ranks exchange gradients, which are as large as these."""
    modules = [module for module in (trainer.loss, trainer.ema) if module is not None]
    tensors = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    for state in trainer.adam.state.values():
        tensors += [value for value in state.values() if isinstance(value, torch.Tensor)]
    storages = (tensor.untyped_storage() for tensor in tensors)
    distinct = {storage.data_ptr(): storage.nbytes() for storage in storages}
    buckets = 0 if trainer.ranks == 1 else sum(p.nbytes for p in trainer.loss.parameters() if p.requires_grad)
    return sum(distinct.values()) + buckets


def live_at_marks(events: Iterable[tuple[str, int]]) -> dict[str, Live]:
    """`events` in order of time: the name of a mark, or of an allocation with its bytes, negative for
    a release."""
    live = highest = 0
    marks = {}
    for name, size_bytes in events:
        if name == _ALLOCATION:
            live += size_bytes
            highest = max(highest, live)
        else:
            marks[name] = Live(live, highest)
            highest = live
    return marks


def _mark(name: str) -> None:
    gc.collect()  # nobody owns what only cycles hold
    with record_function(name):
        pass


def _watched(trainer: PeerTrainer) -> dict[str, Live]:
    """Live bytes before and after a forward pass, after its backward, and after a step. The step
    before it all is watched so that what it replaces is known to the profiler."""
    images = trainer.micro_batch()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as watched:
        trainer.step()
        _mark(_MARKS[0])
        loss = trainer.forward(images)
        _mark(_MARKS[1])
        loss.backward()  # dropping the graph instead would leave what save_on_cpu packed
        del loss
        trainer.adam.zero_grad()
        _mark(_MARKS[2])
        trainer.step()
        _mark(_MARKS[3])
    recorded = watched.profiler.kineto_results.events()
    wanted = [event for event in recorded if event.name() in (_ALLOCATION, *_MARKS)]
    wanted.sort(key=lambda event: event.start_ns())
    return live_at_marks((event.name(), event.nbytes()) for event in wanted)


def _figure(value: int, method: str, left_bytes: int) -> Figure:
    """None where something outlives what was watched: then what was live before is not known."""
    if left_bytes:
        return Figure(None, f"{left_bytes} bytes more are live after it than before")
    return Figure(value, method)


def _asked(allocator: Allocator, device: torch.device) -> Live:
    """Returns the bytes of now, and the most since this was called before."""
    gc.collect()
    live = Live(allocator.memory_allocated(device), allocator.max_memory_allocated(device))
    allocator.reset_peak_memory_stats(device)
    return live


def measure_on_gpu(trainer: PeerTrainer, allocator: Allocator) -> MemoryPass:
    """The same of a trainer on a GPU. The step goes first: no images but its own are there then."""
    before = _asked(allocator, trainer.device)
    trainer.step()
    after = _asked(allocator, trainer.device)
    images = trainer.micro_batch()
    begin = _asked(allocator, trainer.device)
    loss = trainer.forward(images)
    forward = _asked(allocator, trainer.device)
    loss.backward()
    del loss
    trainer.adam.zero_grad()
    backward = _asked(allocator, trainer.device)
    figures = {
        "peak_bytes": _figure(after.highest_bytes, _PEAK_METHOD_OF_GPU, after.at_bytes - before.at_bytes),
        "saved_bytes": _figure(forward.at_bytes - begin.at_bytes, _SAVED_METHOD,
                               backward.at_bytes - begin.at_bytes),
    }
    return MemoryPass(1, figures)


def measure_memory(trainer: PeerTrainer) -> MemoryPass:
    """`peak_bytes` and `saved_bytes` of a steady step of a trainer that has trained one."""
    if trainer.device.type == "cuda":
        return measure_on_gpu(trainer, torch.cuda)
    before = trainer.steps
    begin, forward, backward, end = map(_watched(trainer).__getitem__, _MARKS)
    saved_bytes = forward.at_bytes - begin.at_bytes
    peak_bytes = between_steps_bytes(trainer) + end.highest_bytes - backward.at_bytes
    figures = {
        "peak_bytes": _figure(peak_bytes, _PEAK_METHOD, end.at_bytes - backward.at_bytes),
        "saved_bytes": _figure(saved_bytes, _SAVED_METHOD, backward.at_bytes - begin.at_bytes),
    }
    return MemoryPass(trainer.steps - before, figures)
