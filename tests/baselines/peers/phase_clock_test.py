"""Tests where a step's time is taken, and that a GPU is waited for at the step's edges only."""

import unittest
from types import SimpleNamespace
from unittest import mock

import tiny  # noqa: F401  (finds the peers' modules)
import peers_required

try:
    import torch
    from phase_clock import PHASES, CudaMarks, HostMarks, PhaseClock, marks_of
except ImportError as error:
    peers_required.cannot_import(error)


class ScriptedMarks:
    """Passed at the seconds given, one after the other."""

    def __init__(self, *times_s: float) -> None:
        self.times_s, self.calls, self.used = times_s, [], 0

    def clear(self) -> None:
        self.calls.append("clear")

    def mark(self) -> int:
        self.calls.append("mark")
        self.used += 1
        return self.used - 1

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def seconds_between(self, begin: int, end: int) -> float:
        return self.times_s[end] - self.times_s[begin]


class PhaseClockTest(unittest.TestCase):
    def test_parts_of_a_phase_are_added_up_and_the_step_is_from_its_start_until_all_is_done(self) -> None:
        clock = PhaseClock(ScriptedMarks(10, 11, 13, 16, 20, 25, 26, 28))
        clock.begin()
        for phase in ("data_wait_s", "forward_s", "backward_s", "forward_s", "backward_s", "optimizer_s"):
            clock.lap(phase)
        phases, step_s = clock.end()
        self.assertEqual(phases, {"data_wait_s": 1, "forward_s": 2 + 4, "backward_s": 3 + 5, "optimizer_s": 1,
                                  "ema_s": 0})
        self.assertEqual(step_s, 18)

    def test_waits_before_the_first_mark_and_after_the_last_and_never_in_between(self) -> None:
        marks = ScriptedMarks(*range(4))
        clock = PhaseClock(marks)
        clock.begin()
        clock.lap("forward_s")
        clock.lap("backward_s")
        clock.end()
        self.assertEqual(marks.calls, ["clear", "synchronize", *4 * ["mark"], "synchronize"])

    def test_a_step_has_nothing_of_the_step_before(self) -> None:
        clock = PhaseClock(ScriptedMarks(0, 1, 1, 10, 12, 12))
        for expected in (1, 2):
            clock.begin()
            clock.lap("forward_s")
            phases, step_s = clock.end()
            self.assertEqual((phases["forward_s"], step_s), (expected, expected))

    def test_on_a_cpu_the_host_has_the_time(self) -> None:
        clock = PhaseClock(marks_of(torch.device("cpu")))
        for _ in range(2):
            with mock.patch("time.perf_counter", side_effect=[1.0, 1.5, 2.5, 2.75]):
                clock.begin()
                clock.lap("data_wait_s")
                clock.lap("ema_s")
                phases, step_s = clock.end()
            self.assertEqual(phases, {**dict.fromkeys(PHASES, 0), "data_wait_s": 0.5, "ema_s": 1})
            self.assertEqual(step_s, 1.75)

    def test_a_device_has_marks_of_its_own_kind(self) -> None:
        self.assertIsInstance(marks_of(torch.device("cpu")), HostMarks)
        self.assertIsInstance(marks_of(torch.device("cuda", 1)), CudaMarks)


class FakeEvent:
    """A CUDA event that was passed at the time that its stream says next, in milliseconds."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: SimpleNamespace) -> None:
        self.at_ms = next(stream.times_ms)

    def elapsed_time(self, end: "FakeEvent") -> float:
        return end.at_ms - self.at_ms


class CudaMarksTest(unittest.TestCase):
    def test_are_events_in_the_stream_of_their_device_and_used_again_in_the_next_step(self) -> None:
        device = torch.device("cuda", 1)
        streams = {device: SimpleNamespace(times_ms=iter((0, 250, 1000, 5000, 5500)))}
        marks = CudaMarks(device)
        event = mock.Mock(side_effect=FakeEvent)
        with (mock.patch.multiple(torch.cuda, Event=event, synchronize=mock.DEFAULT,
                                  current_stream=streams.__getitem__) as patched):
            first, second, third = (marks.mark() for _ in range(3))
            self.assertEqual(marks.seconds_between(first, second), 0.25)
            self.assertEqual(marks.seconds_between(first, third), 1)
            marks.clear()
            self.assertEqual(marks.seconds_between(marks.mark(), marks.mark()), 0.5)
            self.assertEqual(event.call_count, 3)
            patched["synchronize"].assert_not_called()
            marks.synchronize()
            patched["synchronize"].assert_called_once_with(device)


if __name__ == "__main__":
    unittest.main()
