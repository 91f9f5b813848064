#!/usr/bin/env python3
"""Times `noisemark trace` beside HolisticTraceAnalysis on one large trace of kineto.

    trace_speed.py --program build/release/bin/noisemark --trace FILE.json.gz --out FOLDER [--megabytes 500]

FILE is repeated, with later times and other correlations, until it is that large. Each program then reads and analyses
it in a process of its own: breakdown, kinds of kernels, overlap, idle times, launches and queues; ours also finds the
critical path. The peer is `hta` of PyPI's tracesinght, by its own defaults, in the Python that runs this. The table
shows wall time, time on processors and the most memory, also in multiples of the file.

Exit codes: 0 measured, 1 --gate and ours is not 10 times as fast or takes more than twice the file, 77 no peer.
"""

import argparse
import gzip
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

_SPEED = 10.0  # times as fast
_MEMORY = 2.0  # times the file


def write_repeated(source: Path, target: Path, size: int) -> int:
    """Writes a trace of at least `size` bytes, and returns how many times it holds `source`."""
    trace = json.loads(gzip.open(source).read())
    events = [event for event in trace.pop("traceEvents") if "ts" in event]
    numbers = [event.get("args", {}).get("correlation", 0) for event in events]
    timed = [event for event in events if event.get("ph") == "X"]
    span = max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed) + 1
    next_number = max(numbers) + 1
    count = 0
    with target.open("w") as file:
        file.write(json.dumps(trace)[:-1] + ', "traceEvents": [')
        while file.tell() < size:
            file.write(",\n" if count else "\n")
            file.write(",\n".join(json.dumps(event, indent=1) for event in events))
            for event in events:
                event["ts"] += span
                if "correlation" in event.get("args", {}):
                    event["args"]["correlation"] += next_number
            count += 1
        file.write("\n]}\n")
    return count


def analyse_with_peer(path: Path) -> None:
    import logging

    logging.disable(logging.CRITICAL)
    from hta.analyzers.breakdown_analysis import BreakdownAnalysis
    from hta.analyzers.communication_analysis import CommunicationAnalysis
    from hta.analyzers.cuda_kernel_analysis import CudaKernelAnalysis
    from hta.analyzers.trace_counters import TraceCounters
    from hta.common.trace import Trace

    trace = Trace({0: str(path)})
    trace.load_traces(use_multiprocessing=False)
    BreakdownAnalysis.get_temporal_breakdown(trace, visualize=False)
    BreakdownAnalysis.get_gpu_kernel_breakdown(trace, visualize=False, include_memory_kernels=True)
    CommunicationAnalysis.get_comm_comp_overlap(trace, visualize=False)
    BreakdownAnalysis.get_idle_time_breakdown(trace, 30, visualize=False)
    CudaKernelAnalysis.cuda_kernel_launch_stats(trace, visualize=False)
    TraceCounters.get_queue_length_summary(trace)


def measure(command: list[str]) -> tuple[float, float, int]:
    """Wall time and time on processors in seconds, and the most bytes that the process held."""
    begin = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise SystemExit(f"trace_speed: {command[0]}: it failed")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        analyse_with_peer(args.trace)
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    large = args.out / "repeated.json"
    count = write_repeated(args.trace, large, args.megabytes * 1_000_000)
    size = large.stat().st_size
    lines = [f"{args.trace.name}, {count} times: {size / 1e6:.0f} MB of JSON", "",
             "| program | s | s on processors | most memory, MB | of the file |", "|---|---:|---:|---:|---:|"]
    rows = {"noisemark": [str(args.program.resolve()), "trace", str(large)]}
    if importlib.util.find_spec("hta") is not None:
        rows["HolisticTraceAnalysis"] = [sys.executable, __file__, "--peer", "--trace", str(large)]
    figures = {name: measure(command) for name, command in rows.items()}
    for name, (seconds, busy, memory) in figures.items():
        lines.append(f"| {name} | {seconds:.2f} | {busy:.2f} | {memory / 1e6:.0f} | {memory / size:.2f} |")
    page = "\n".join(lines) + "\n"
    print(page, end="")
    (args.out / "trace_speed.md").write_text(page)
    large.unlink()
    if len(figures) == 1:
        print("trace_speed: hta is not installed, so nothing is compared", file=sys.stderr)
        return 77
    (ours, _, memory), (peers, _, _) = figures.values()
    return 1 if args.gate and (peers < _SPEED * ours or memory > _MEMORY * size) else 0


if __name__ == "__main__":
    sys.exit(main())
