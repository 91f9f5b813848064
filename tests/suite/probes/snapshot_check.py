#!/usr/bin/env python3
"""Reads a file that noisemark pickled. Usage: snapshot_check.py pickle|trace|snapshot FILE

pickle    shows the value
trace     a line for each entry of the last device's trace
snapshot  checks that the entries are consistent and, where PyTorch is installed, that its memory viewer reads them;
          exit code 1 says what is wrong
"""
import importlib.util
import pathlib
import pickle
import sys


def viewer():
    """torch.cuda._memory_viz without the rest of PyTorch, or None."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        return None
    file = pathlib.Path(torch.submodule_search_locations[0]) / "cuda/_memory_viz.py"
    spec = importlib.util.spec_from_file_location("_memory_viz", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def show_trace(snapshot):
    for entry in snapshot["device_traces"][-1]:
        frames = ", ".join(frame["name"] for frame in entry["frames"])
        print(entry["action"], entry["size"], entry["category"], f"{entry['time_us']}: {frames}")


def live_after(trace):
    """Address -> size of what the trace leaves; an address is given out once at a time."""
    live, ending = {}, {}
    for entry in trace:
        address, size = entry["addr"], entry["size"]
        if entry["action"] == "alloc":
            assert address not in live, f"{address} twice"
            live[address] = size
        elif entry["action"] == "free_requested":
            assert live.pop(address) == size
            ending[address] = size
        elif entry["action"] == "free_completed":
            assert ending.pop(address) == size
        else:
            assert entry["action"] == "snapshot", entry["action"]
    assert not ending
    return live


def check_segments(snapshot, live):
    blocks = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address, "blocks lie side by side"
            address += block["size"]
            if block["state"] == "active_allocated":
                blocks[block["address"]] = block["requested_size"]
        assert address == segment["address"] + segment["total_size"]
    assert blocks == live, "what is live at the end is what the trace leaves"


def check(snapshot):
    live = live_after(snapshot["device_traces"][-1])
    check_segments(snapshot, live)
    print("devices:", *(len(trace) for trace in snapshot["device_traces"]))
    print(f"live at the end: {sum(live.values())} bytes in {len(live)} blocks")
    module = viewer()
    if module is None:
        print("without PyTorch")
        return
    print(module.segsum(snapshot))
    assert "TOTAL MEM" in module.trace(snapshot)
    assert "MemoryViz.js" in module.trace_plot(snapshot)
    assert "MemoryViz.js" in module.segment_plot(snapshot)
    # Lines for a flame graph, with the owner at the root.
    stacks = module.memory(snapshot, format_flamegraph=str)
    assert not live or "owner" in stacks, stacks


def main():
    what, name = sys.argv[1:]
    value = pickle.loads(pathlib.Path(name).read_bytes())
    {"pickle": print, "trace": show_trace, "snapshot": check}[what](value)


if __name__ == "__main__":
    main()
