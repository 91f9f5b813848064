"""The time of a step and of its phases, as suite/probes/phase_timer.h takes them of Noisemark's own steps."""

import time
from typing import Protocol

import torch

PHASES = ("data_wait_s", "forward_s", "backward_s", "optimizer_s", "ema_s")

_SECONDS_PER_MILLISECOND = 1e-3


class Marks(Protocol):
    """Points in a device's own order of work, read afterwards: memopt/device/device_clock.h."""

    def clear(self) -> None: ...
    def mark(self) -> int: ...
    def synchronize(self) -> None: ...
    def seconds_between(self, begin: int, end: int) -> float: ...


class HostMarks:
    """Marks times of a CPU, which works as it is told."""

    def __init__(self) -> None:
        self._times_s: list[float] = []

    def clear(self) -> None:
        self._times_s.clear()

    def mark(self) -> int:
        self._times_s.append(time.perf_counter())
        return len(self._times_s) - 1

    def synchronize(self) -> None:
        pass

    def seconds_between(self, begin: int, end: int) -> float:
        return self._times_s[end] - self._times_s[begin]


class CudaMarks:
    """Marks times of a GPU: events in its current stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: list[torch.cuda.Event] = []
        self._used = 0

    def clear(self) -> None:
        # Events stay: to make one takes longer than to record it.
        self._used = 0

    def mark(self) -> int:
        if self._used == len(self._events):
            self._events.append(torch.cuda.Event(enable_timing=True))
        # Without the stream it would be that of the process's current GPU, which need not be this one.
        self._events[self._used].record(torch.cuda.current_stream(self._device))
        self._used += 1
        return self._used - 1

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def seconds_between(self, begin: int, end: int) -> float:
        return self._events[begin].elapsed_time(self._events[end]) * _SECONDS_PER_MILLISECOND


def marks_of(device: torch.device) -> Marks:
    """Those of the device."""
    return CudaMarks(device) if device.type == "cuda" else HostMarks()


class PhaseClock:
    """Tells the phases of one step after the other apart. The host waits for a GPU at the edges of a step only:
    a wait in between would keep the next phase's launches from overlapping with this phase's work."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._parts: list[tuple[str, int, int]] = []
        self._begin = self._last = 0

    def begin(self) -> None:
        """A step begins."""
        self._parts.clear()
        self._marks.clear()
        self._marks.synchronize()
        self._begin = self._last = self._marks.mark()

    def lap(self, phase: str) -> None:
        """Counts what was issued since the last lap to this phase."""
        now = self._marks.mark()
        self._parts.append((phase, self._last, now))
        self._last = now

    def end(self) -> tuple[dict[str, float], float]:
        """The seconds of each phase, its parts added up, and of the whole step, which ends here."""
        end = self._marks.mark()
        self._marks.synchronize()
        phases = dict.fromkeys(PHASES, 0.0)
        for phase, begin, done in self._parts:
            phases[phase] += self._marks.seconds_between(begin, done)
        return phases, self._marks.seconds_between(self._begin, end)
