"""Traces of `noisemark profile` in HolisticTraceAnalysis, and `noisemark trace` beside it. Argument: the program.

Exit code 77 where Python has no `hta`, which the set-up does not install. The traces of its own tests are looked for in
NOISEMARK_TRACES, else in ../shared/data/traces beside the repository."""

import collections
import gzip
import importlib.metadata
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import peers_required

logging.disable(logging.CRITICAL)  # it tells of every file on standard error
try:
    from hta.analyzers.breakdown_analysis import BreakdownAnalysis
    from hta.analyzers.communication_analysis import CommunicationAnalysis
    from hta.common.trace import Trace
except ImportError:
    peers_required.not_installed("hta", "pip install HolisticTraceAnalysis")

# Versions up to 0.5, which have the old name, count the waits of a stream as compute.
HAS_OLD_KINDS = any(one.metadata["Name"] == "HolisticTraceAnalysis" for one in importlib.metadata.distributions())
ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = pathlib.Path(os.environ.get("NOISEMARK_TRACES", ROOT.parent / "shared/data/traces"))


def loaded(path, **how):
    trace = Trace({0: str(path)})
    trace.load_traces(use_multiprocessing=False, **how)
    return trace


class ProfiledTrace(unittest.TestCase):
    def test_it_loads_with_every_operator_and_step(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "profile"
            subprocess.run([PROGRAM, "profile", "gmm16-ho@cpu", "--out", str(out), "--device", "cpu", "--threads", "1"],
                           check=True, capture_output=True)
            trace = loaded(out / "trace.json.gz", include_last_profiler_step=True)
            with gzip.open(out / "trace.json.gz", "rt") as file:
                events = json.load(file)["traceEvents"]
        steps = [event["name"] for event in events if event["name"].startswith("ProfilerStep#")]
        self.assertEqual(len(trace.get_iterations(0)), len(steps))
        names = trace.symbol_table.get_sym_table()
        table = trace.get_trace(0)
        operators = table[table["cat"].apply(lambda category: names[category]) == "cpu_op"]
        found = collections.Counter(names[name] for name in operators["name"])
        wanted = collections.Counter(event["name"] for event in events if event.get("cat") == "cpu_op")
        self.assertGreater(len(wanted), 20)
        self.assertEqual(found, wanted)


@unittest.skipUnless(TRACES.is_dir(), f"{TRACES} is not there")
class PublishedTraces(unittest.TestCase):
    def test_breakdown_and_overlap_are_equal_to_the_integer(self):
        compared = 0
        for path in sorted(TRACES.glob("*.json.gz")):
            printed = subprocess.run([PROGRAM, "trace", str(path), "--format", "json"], capture_output=True, text=True)
            self.assertEqual(printed.returncode, 0, f"{path.name}: {printed.stderr}")
            ours = json.loads(printed.stdout)
            if ours["total_us"] == 0:
                continue
            with self.subTest(path.name):
                trace = loaded(path)
                row = BreakdownAnalysis.get_temporal_breakdown(trace, visualize=False).iloc[0]
                columns = {"idle_us": "idle_time", "total_us": "kernel_time"}
                if not HAS_OLD_KINDS:
                    columns |= {"compute_us": "compute_time", "other_us": "non_compute_time"}
                self.assertEqual({key: ours[key] for key in columns},
                                 {key: int(row[f"{name}(us)"]) for key, name in columns.items()})
                overlap = CommunicationAnalysis.get_comm_comp_overlap(trace, visualize=False).iloc[0]["comp_comm_overlap_pctg"]
                hidden = 100 * ours["hidden_communication_frac"]
                self.assertAlmostEqual(hidden, 0 if math.isnan(overlap) else overlap, delta=0.005)  # it prints two digits
            compared += 1
        self.assertGreater(compared, 0)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2, warnings="ignore")
