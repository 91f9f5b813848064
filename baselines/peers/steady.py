"""Finds where the steady part of a run begins, and its median with an interval.

The rules are those of reports/result/warmup.h and reports/base/statistics.h; a test holds the two against each
other on thousands of runs. Needs nothing but the standard library.
"""

import math
from dataclasses import dataclass
from statistics import median

_FEWEST_STEPS = 16
_WINDOW = (4, 32)
_TOLERANCE = (0.005, 0.10)
_STANDARD_ERRORS = 3
_OUTLIER_DEVIATIONS = 5
_OUTLIER_FLOOR = 0.05
_MAD_TO_DEVIATION = 1.4826
_MEDIAN_STANDARD_ERROR = 1.2533


@dataclass(frozen=True)
class Warmup:
    """Steps to leave out at the front, whether the rest is level, and why."""

    steps: int
    stable: bool
    reason: str


@dataclass(frozen=True)
class _Level:
    """Holds what the second half of the run says about a steady step."""

    median_s: float
    noise_frac: float

    def tolerance(self, steps: int) -> float:
        error = _MEDIAN_STANDARD_ERROR * math.sqrt(2) * self.noise_frac
        return max(_TOLERANCE[0], _STANDARD_ERRORS * error / math.sqrt(steps))

    def difference(self, a_s: float, b_s: float) -> float:
        return abs(a_s - b_s) / self.median_s

    def outlier(self, step_s: float) -> bool:
        limit = max(_OUTLIER_FLOOR, _OUTLIER_DEVIATIONS * self.noise_frac)
        return self.difference(step_s, self.median_s) > limit


def _level_of(half: list[float]) -> _Level:
    centre = median(half)
    jumps = [abs(b - a) for a, b in zip(half, half[1:])]
    if centre <= 0:
        return _Level(centre, 0.0)
    return _Level(centre, _MAD_TO_DEVIATION * median(jumps) / math.sqrt(2) / centre)


def _settled_at(step_s: list[float], begin: int, window: int, level: _Level) -> bool:
    if level.outlier(step_s[begin]):
        return False
    first = median(step_s[begin : begin + window])
    second = median(step_s[begin + window : begin + 2 * window])
    limit = level.tolerance(window)
    pairs = ((first, second), (first, level.median_s), (second, level.median_s))
    return all(level.difference(a, b) < limit for a, b in pairs)


def _unstable(steps: int, why: str) -> Warmup:
    return Warmup(steps // 2, False, f"{why}; the first half is left out")


def detect_warmup(step_s: list[float]) -> Warmup:
    """The rule of reports/result/warmup.h."""
    n = len(step_s)
    if n < _FEWEST_STEPS:
        return Warmup(0, False, f"{n} steps are too few to tell (at least {_FEWEST_STEPS})")
    level = _level_of(step_s[n // 2 :])
    if level.median_s <= 0:
        return _unstable(n, "the clock did not advance in half of the steps")
    quarter = n // 4
    limit = level.tolerance(quarter)
    drift = level.difference(median(step_s[n - 2 * quarter : n - quarter]), median(step_s[n - quarter :]))
    if limit > _TOLERANCE[1]:
        return _unstable(n, f"too noisy to tell: one step varies by {100 * level.noise_frac:.1f} %")
    if drift >= limit:
        return _unstable(n, f"the medians of the last two quarters differ by {100 * drift:.1f} %")
    window = min(max(n // 8, _WINDOW[0]), _WINDOW[1])
    for begin in range(min(n // 2, n - 2 * window) + 1):
        if _settled_at(step_s, begin, window, level):
            return Warmup(begin, True, f"after {begin} steps two windows of {window} steps agree")
    return _unstable(n, f"no two windows of {window} steps agree in the first half")


def median_interval(samples: list[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Between the narrowest symmetric pair of order statistics that covers the median at least
    `confidence` of the time; None where no pair does."""
    n = len(samples)
    ordered = sorted(samples)
    tail = 0.0
    best = None
    for below in range(n // 2):
        tail += math.comb(n, below) / (1 << n)
        if tail > (1 - confidence) / 2:
            break
        best = (ordered[below], ordered[n - 1 - below])
    return best
