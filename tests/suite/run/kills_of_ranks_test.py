"""kills_of_ranks_test.py NOISEMARK [--count N] [--seed S] [--signal KILL|STOP]: kills or stops a process of a run by two
ranks at a random moment, N times.

Each run is of two ranks and lasts some seconds. The signal meets rank 0, rank 1, or, if it is SIGKILL, the process that
started both, at any moment from the start to a little after the end. Whatever it meets: all processes are gone in time,
and a result that says that it is whole has been written by a run that ended before.
"""
import argparse
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = 30  # the default of --timeout
# A killed rank is noticed at once or when a wait reaches the limit; the rest is the end of the program itself.
IN_TIME_S = LIMIT_S + 10
WHO = ("rank 0", "rank 1", "starter")


def command_of(noisemark, out):
    return [noisemark, "run", "gmm16@cpu", "--device", "cpu", "--set", "train.steps=60", "--set", "train.batch=4",
            "--set", "eval.samples=8", "--set", "eval.every=0", "--no-profile", "--ranks", "2", "--timeout", str(LIMIT_S),
            "--out", str(out)]


def start(noisemark, out):
    return subprocess.Popen(command_of(noisemark, out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def processes_of(out):
    """Process -> rank (None: the starter) of every process whose arguments name the folder."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if os.fsencode(out) not in words:
                continue
            variables = dict(v.split(b"=", 1) for v in (entry / "environ").read_bytes().split(b"\0") if b"=" in v)
            found[int(entry.name)] = int(variables[b"RANK"]) if b"RANK" in variables else None
        except OSError:
            continue
    return found


def wait_until_gone(out, seconds):
    end = time.monotonic() + seconds
    while (left := processes_of(out)) and time.monotonic() < end:
        time.sleep(0.02)
    return not left


def says_it_is_whole(noisemark, out):
    """Returns whether a reader believes it: a result that ended well, which `check` accepts."""
    result = out / "result.json"
    if not result.is_file():
        return False
    checked = subprocess.run([noisemark, "check", str(out)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, check=False)
    return checked.returncode == 0 and json.loads(result.read_text())["exit"]["code"] == 0


def kill_once(noisemark, whom, after_s, sent):
    """Returns what became of the run, how long its end took, and the faults that were seen."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        process = start(noisemark, out)
        time.sleep(after_s)
        wanted = None if whom == "starter" else int(whom[-1])
        whole_before = (out / "result.json").is_file()
        met = next((pid for pid, rank in processes_of(out).items() if rank == wanted), None)
        ended_before = process.poll() is not None
        killed_at = time.monotonic()
        if met is not None:
            try:
                os.kill(met, sent)
            except ProcessLookupError:
                met = None
        faults = []
        try:
            _, err = process.communicate(timeout=IN_TIME_S)
        except subprocess.TimeoutExpired:
            faults.append(f"hung for {IN_TIME_S} s")
            process.kill()
            _, err = process.communicate()
        if not wait_until_gone(out, 5):
            faults.append(f"left {processes_of(out)}")
            for pid in processes_of(out):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        whole = says_it_is_whole(noisemark, out)
        # A process that was killed after it had handed over its last figures takes nothing from the result.
        if whole and not whole_before and process.returncode != 0:
            faults.append(f"exit code {process.returncode} and a result that says it is whole")
        if process.returncode == 0 and not whole:
            faults.append("exit code 0 without a whole result")
        if met is not None and whom != "starter" and process.returncode not in (0, 70):
            faults.append(f"exit code {process.returncode}: {err.strip()[-300:]}")
        kind = "ended before" if ended_before or met is None else "whole" if whole else "not whole"
        return kind, time.monotonic() - killed_at, faults


def length_of_a_run(noisemark):
    """Returns the shortest of three: the first one may wait for libraries that are still to be read, and a signal after
    the end of a run meets nothing."""
    return min(length_of_one(noisemark) for _ in range(3))


def length_of_one(noisemark):
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        process = start(noisemark, Path(folder) / "out")
        _, err = process.communicate(timeout=300)
        if process.returncode != 0:
            sys.exit(f"the run without a kill ended with {process.returncode}: {err}")
        return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("noisemark")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--signal", choices=["KILL", "STOP"], default="KILL")
    options = parser.parse_args()
    noisemark = str(Path(options.noisemark).resolve())
    generator = random.Random(options.seed)
    sent = signal.Signals[f"SIG{options.signal}"]
    length_s = length_of_a_run(noisemark)
    kinds, slowest_s, wrong = collections.Counter(), 0.0, 0
    for i in range(options.count):
        whom = generator.choice(WHO if options.signal == "KILL" else WHO[:2])
        after_s = generator.uniform(0, 1.05 * length_s)
        kind, took_s, faults = kill_once(noisemark, whom, after_s, sent)
        kinds[kind] += 1
        slowest_s = max(slowest_s, took_s)
        for fault in faults:
            wrong += 1
            print(f"SIG{options.signal} {i} of {whom} after {after_s:.3f} s: {fault}", flush=True)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{options.count} SIG{options.signal} in runs of {length_s:.1f} s: {told}; the last process was gone after at most "
          f"{slowest_s:.1f} s; {wrong} faults")
    # Nothing was tried if the signal cut no run short.
    return int(wrong > 0 or kinds["not whole"] == 0)


if __name__ == "__main__":
    sys.exit(main())
