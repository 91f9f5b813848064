"""The tables of `noisemark profile` beside PyTorch's profiler. Arguments: the probe, the program.

Calls, shapes and bytes are equal to those of a run of Python's profiler on the same operators. Times of two runs are never
equal, so they are compared on one run: PyTorch's own code makes its table of our trace, with every time as an integer."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

import peers_required

try:
    import torch
    from torch.autograd import DeviceType
    from torch.autograd.profiler import MemRecordsAcc
    from torch.autograd.profiler_util import EventList, FunctionEvent, _filter_name, _rewrite_name
    from torch.profiler import ProfilerActivity, profile
except ImportError as missing:
    peers_required.cannot_import(missing)

torch.set_num_threads(1)
HEADER = 64  # bytes of our allocator before every block: in the trace, and not in the tables


def step(filter, weight):
    x = torch.ones(4, 8, 16, 16)
    h = torch.nn.functional.silu(torch.group_norm(torch.conv2d(x, filter, None, 1, 1), 4))
    y = torch.nn.functional.linear(h.mean((2, 3)), weight)
    loss = torch._C._nn.mse_loss(y * y + y, torch.ones(4, 5), 1)
    loss.backward(torch.ones(()))
    filter.grad = weight.grad = None


def profiled_by_python(shapes):
    filter = torch.ones(8, 8, 3, 3).requires_grad_()
    weight = torch.ones(5, 8).requires_grad_()
    step(filter, weight)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=shapes) as found:
        for _ in range(3):
            step(filter, weight)
    return found.profiler.function_events.key_averages(group_by_input_shapes=shapes)


class MemoryRecord:
    def __init__(self, event):
        taken = event["args"]["Bytes"]
        self.ns = nanoseconds(event["ts"])
        self.bytes = taken - HEADER if taken > 0 else taken + HEADER

    def start_ns(self):
        return self.ns


def nanoseconds(microseconds):
    whole, _, rest = microseconds.partition(".")
    return int(whole) * 1000 + int(rest.ljust(3, "0"))


def dimensions(event):
    """The profiler knows no shapes of the tensors in a list; its trace does."""
    shapes = event["args"].get("Input Dims", [])
    return [[] if any(isinstance(size, list) for size in shape) else shape for shape in shapes]


def python_rows_of_trace(path, shapes):
    """PyTorch's own key_averages() over the events of a trace of a CPU, as its profiler makes them."""
    with gzip.open(path, "rt") as file:
        events = json.load(file, parse_float=str)["traceEvents"]
    records = [[MemoryRecord(e), False] for e in events if e["name"] == "[memory]"]
    records_by_time = MemRecordsAcc(records)
    functions = []
    for event in events:
        name = event.get("name")
        if event.get("ph") != "X" or event.get("cat") not in ("cpu_op", "user_annotation") or _filter_name(name):
            continue
        start = nanoseconds(event["ts"])
        end = start + nanoseconds(event["dur"])
        memory = 0
        for record in records_by_time.in_interval(start, end):
            memory += record[0].bytes
            record[1] = True
        functions.append(FunctionEvent(
            id=event["args"]["External id"], name=_rewrite_name(name, with_wildcard=True), thread=event["tid"],
            start_us=start, end_us=end, input_shapes=dimensions(event) if shapes else [], stack=[],
            cpu_memory_usage=memory, device_type=DeviceType.CPU,
            is_user_annotation=event["cat"] == "user_annotation"))
    functions.sort(key=lambda e: [e.time_range.start, -e.time_range.end])
    functions = EventList(functions, profile_memory=True)
    functions._build_tree()
    outside = [record[0].bytes for record in records if not record[1]]
    return functions.key_averages(group_by_input_shapes=shapes), outside


def key_of(row, shapes):
    return row.key, str(row.input_shapes) if shapes and row.key != "[memory]" else ""


class Profile(unittest.TestCase):
    def test_the_same_operators_have_pythons_calls_shapes_and_memory(self):
        for shapes in (False, True):
            with self.subTest(shapes=shapes):
                printed = subprocess.run([PROBE] + ["shapes"] * shapes, check=True, capture_output=True, text=True)
                ours = {(r["name"], r["shapes"]): (r["calls"], r["host_bytes"], r["self_host_bytes"])
                        for r in json.loads(printed.stdout)["operators"]}
                peers = {key_of(r, shapes): (r.count, r.cpu_memory_usage, r.self_cpu_memory_usage)
                         for r in profiled_by_python(shapes)}
                self.assertEqual(ours, peers)
                self.assertGreater(len(peers), 20)

    def test_a_benchmark_has_the_rows_that_pythons_code_makes_of_its_trace(self):
        for shapes in (False, True):
            with self.subTest(shapes=shapes), tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "profile")
                subprocess.run([PROGRAM, "profile", "gmm16-ho@cpu", "--out", out, "--device", "cpu", "--threads", "1"]
                               + ["--shapes"] * shapes, check=True, capture_output=True)
                with open(os.path.join(out, "profile.json")) as file:
                    rows = json.load(file)["operators"]
                ours = {(r["name"], r["shapes"]): (r["calls"], r["host_ns"], r["self_host_ns"], r["host_bytes"],
                                                   r["self_host_bytes"]) for r in rows if r["name"] != "[memory]"}
                peers, outside = python_rows_of_trace(os.path.join(out, "trace.json.gz"), shapes)
                self.assertEqual(ours, {key_of(r, shapes): (r.count, r.cpu_time_total, r.self_cpu_time_total,
                                                            r.cpu_memory_usage, r.self_cpu_memory_usage)
                                        for r in peers})
                self.assertEqual(sum(r["calls"] for r in rows if r["name"] == "[memory]"), len(outside))


class TraceForm(unittest.TestCase):
    """Chrome's trace event format, as Perfetto reads it: slices of a track that cross each other are dropped there."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "profile")
            subprocess.run([PROGRAM, "profile", "gmm16-ho@cpu", "--out", out, "--device", "cpu", "--threads", "1"],
                           check=True, capture_output=True)
            with gzip.open(os.path.join(out, "trace.json.gz"), "rt") as file:
                cls.trace = json.load(file, parse_float=str)
            with open(os.path.join(out, "profile.json")) as file:
                cls.counters = json.load(file)["counters"]

    def of_phase(self, phase):
        return [event for event in self.trace["traceEvents"] if event["ph"] == phase]

    def test_every_event_has_a_place_and_a_time(self):
        self.assertIsInstance(self.trace["displayTimeUnit"], str)
        for event in self.trace["traceEvents"]:
            self.assertIn(event["ph"], "XMCisf", event)
            self.assertIn("pid", event)
            self.assertGreaterEqual(nanoseconds(str(event["ts"])), 0, event)

    def test_slices_of_a_track_lie_within_or_after_each_other(self):
        tracks = {}
        for event in self.of_phase("X"):
            begin = nanoseconds(str(event["ts"]))
            end = begin + nanoseconds(str(event["dur"]))
            self.assertLessEqual(begin, end, event)
            tracks.setdefault((event["pid"], event["tid"]), []).append((begin, -end, event["name"]))
        self.assertGreater(len(tracks), 0)
        for track, slices in tracks.items():
            open_ends = []
            for begin, negative_end, name in sorted(slices):
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(-negative_end, open_ends[-1], (track, name))
                open_ends.append(-negative_end)

    def test_counters_are_numbers_within_the_profiled_steps(self):
        counters = self.of_phase("C")
        self.assertEqual(len(counters), self.counters)
        steps = [e for e in self.of_phase("X") if e["name"].startswith("ProfilerStep#")]
        first = min(nanoseconds(e["ts"]) for e in steps)
        last = max(nanoseconds(e["ts"]) + nanoseconds(e["dur"]) for e in steps)
        for counter in counters:
            self.assertTrue(all(isinstance(value, int) for value in counter["args"].values()), counter)
            self.assertTrue(first <= nanoseconds(counter["ts"]) <= last, counter)


if __name__ == "__main__":
    PROBE, PROGRAM = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
