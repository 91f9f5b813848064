#!/usr/bin/env python3
"""Trains with two ranks over a link of a limited bandwidth, on one machine, and says what the link costs.

    containers/two-machines.py build/release/bin/noisemark --rates 0.1 1 10 --delay-ms 1

Two network namespaces stand for two machines. A pair of virtual Ethernet devices joins them, and `tc` limits and delays
both directions. For every rate the exposed communication of a step, in which a rank only waits, is shown beside the
model of PAI (Wang et al., IISWC 2019): the bytes of the gradients over the bandwidth. That model has no overlap, no
delay and no host. A host copies and adds while its link sends what came before, so the exchange takes the longer of the
two times: the link's, and that of the same exchange without a limit, which is measured. Of the shorter time one piece of
each half of an exchange is added, which nothing hides: the first must have come before the host can add it. The messages
times the delay are added, and what the backward pass hid, which is measured, is taken off. Runs without a limit and at
every rate take turns, and figures are medians over rounds. Where the kernel has no netem, links have no delay.
Exit code 0 if every rate is within 15 % of its prediction, 1 if one is not or a rank fails, 77 where the machine does
not allow namespaces.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOLERANCE = 0.15
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 29511
# Bytes on the wire for bytes of a message: Ethernet's, IP's and TCP's headers (14, 20, and 32 with time stamps) of
# frames that carry 1500.
FRAME = 1514 / (1500 - 52)
# Messages on their way one after another in an exchange of two ranks by Gloo: each sends its half of the sum, then its
# half of the result, and both times only after the other one's notice that it is ready.
MESSAGES = 4
# Gloo sends the half of a bucket in pieces of at most 1 MiB, and in at least two (gloo/allreduce.h, kMaxSegmentSize).
PIECE = 1 << 20
# The first bucket of c10d's Reducer is small, so that its exchange begins early.
BUCKETS = (1 << 20, 25 << 20)
# The first steps find threads, connections and windows of TCP that are not grown yet.
WARM_UP = 4


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


def enter_namespaces():
    """Begins this program again where it may make network devices."""
    if os.environ.get("NOISEMARK_IN_NAMESPACE"):
        return
    for tool in ("ip", "tc", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            skip(f"there is no `{tool}` (packages iproute2 and util-linux)")
    words = ["unshare", "--user", "--map-root-user", "--net"]
    probe = "ip link add v0 type veth peer name v1 && tc qdisc add dev v0 root tbf rate 1gbit burst 128kb latency 50ms"
    tried = run(*words, "sh", "-c", probe, check=False)
    if tried.returncode != 0:
        skip(f"no namespaces, veth pairs or limits here: {tried.stderr.strip()}")
    os.environ["NOISEMARK_IN_NAMESPACE"] = "1"
    os.execvp("unshare", [*words, sys.executable, "-B", *sys.argv])


@contextlib.contextmanager
def two_machines():
    """Yields the words before a command that run it on the second machine; this process is on the first."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    second = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    try:
        on_second = ["nsenter", f"--net=/proc/{second.pid}/ns/net"]
        ours = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{second.pid}/ns/net") == ours:
            time.sleep(0.01)
        run("ip", "link", "set", "v1", "netns", str(second.pid))
        for words, device, address in (([], "v0", ADDRESSES[0]), (on_second, "v1", ADDRESSES[1])):
            run(*words, "ip", "link", "set", "lo", "up")
            run(*words, "ip", "addr", "add", f"{address}/24", "dev", device)
            run(*words, "ip", "link", "set", device, "up")
        yield on_second
    finally:
        second.kill()
        second.wait()


def can_delay():
    return run("tc", "qdisc", "add", "dev", "v0", "root", "netem", "delay", "1ms", check=False).returncode == 0


def limit(on_second, gbit, delay_ms=0):
    """Limits and delays both directions, or lifts the limits. The burst is what passes in a millisecond, so that it is no
    gain."""
    for words, device in (([], "v0"), (on_second, "v1")):
        run(*words, "tc", "qdisc", "del", "dev", device, "root", check=False)
        if gbit is None:
            continue
        add, place = [*words, "tc", "qdisc", "add", "dev", device], ["root"]
        if delay_ms:
            # The limit is the number of packets that are on their way at 10 Gbit/s in 100 ms.
            run(*add, "root", "handle", "1:", "netem", "delay", f"{delay_ms}ms", "limit", "100000")
            place = ["parent", "1:1"]
        burst = max(int(gbit * 1e9 / 8 / 1000), 16 << 10)
        run(*add, *place, "tbf", "rate", f"{int(gbit * 1000)}mbit", "burst", str(burst), "latency", "100ms")


def train(options, on_second, folder):
    """Returns the result of one run with a rank on each machine."""
    words = [options.program, "run", options.id, "--threads", "1", "--no-memory", "--no-profile", "--timeout", "120",
             *(word for one in (f"train.steps={options.steps}", *options.set) for word in ("--set", one)),
             "--out", str(folder)]
    ranks = []
    for rank, before in enumerate(([], on_second)):
        environment = os.environ | {
            "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": ADDRESSES[0],
            "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": f"v{rank}"}
        ranks.append(subprocess.Popen([*before, *words], env=environment, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True))
    said = [rank.communicate()[1] for rank in ranks]
    for rank, words_of_it in zip(ranks, said):
        if rank.returncode != 0:
            sys.exit(f"a rank ended with {rank.returncode}: {words_of_it.strip()}")
    return json.loads((folder / "result.json").read_text())


def communication(result):
    """Returns the seconds of a step's communication and their exposed part: medians over steps, of the rank that came
    last, since the other one also waits for that rank."""
    of_ranks = [rank["samples"] for rank in result["ranks"]]
    return [statistics.median(min(step) for step in zip(*(samples[name][WARM_UP:] for samples in of_ranks)))
            for name in ("communication_s", "exposed_s")]


def link_s(sent_bytes, gbit):
    """Returns PAI's term of the weights: two ranks send each as many bytes as the gradients have."""
    return sent_bytes * FRAME * 8 / (gbit * 1e9)


def bucket_bytes(sent_bytes):
    """Yields how many bytes each bucket of so many gradients holds, but for what does not fit at its end."""
    limit = BUCKETS[0]
    while sent_bytes > 0:
        yield min(sent_bytes, limit)
        sent_bytes, limit = sent_bytes - limit, BUCKETS[1]


def unhidden_part(sent_bytes):
    """Returns which part of the exchanges of a step are pieces that nothing hides: one of as many as a bucket has."""
    return sum(one / max(2, -(-one // (2 * PIECE))) for one in bucket_bytes(sent_bytes)) / sent_bytes


def within_tolerance(deviations):
    return all(abs(one) <= TOLERANCE for one in deviations)


def predict_exposed_s(term_s, host_s, unhidden_s, delay_s, hidden_s):
    return max(term_s, host_s) + unhidden_s + delay_s - hidden_s


def median_of_rounds(runs):
    """Returns the medians over the rounds of a link's seconds: communication, and its exposed part."""
    return [statistics.median(seconds) for seconds in zip(*runs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program noisemark")
    parser.add_argument("--id", default="gmm16-ho@cpu", help="benchmark (default: %(default)s)")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.1, 1, 10], metavar="GBIT",
                        help="bandwidths in Gbit/s (default: 0.1 1 10)")
    parser.add_argument("--delay-ms", type=float, default=0, metavar="MS",
                        help="delay of each direction in ms (default: %(default)s)")
    parser.add_argument("--set", nargs="+", default=["model.dim=64", "train.batch=4"], metavar="KEY=VALUE",
                        help="keys of the definition (default: many gradients and little work: %(default)s)")
    parser.add_argument("--steps", type=int, default=24, help="steps of each run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each link, in turns (default: %(default)s)")
    options = parser.parse_args()
    enter_namespaces()
    deviations = []
    with two_machines() as on_second, tempfile.TemporaryDirectory() as folder:
        if options.delay_ms and not can_delay():
            print("This kernel has no netem: the links have no delay.\n")
            options.delay_ms = 0
        runs = {gbit: [] for gbit in (None, *options.rates)}
        for number in range(options.rounds):
            for gbit, seconds in runs.items():
                limit(on_second, gbit, options.delay_ms)
                result = train(options, on_second, Path(folder) / f"{number}-{gbit}")
                seconds.append(communication(result))
        host_s, _ = median_of_rounds(runs.pop(None))
        sent_bytes = result["ranks"][0]["exchanged_bytes"]
        delay_s = MESSAGES * result["ranks"][0]["exchanges"] * options.delay_ms / 1e3
        print(f"{options.id} with {', '.join(options.set)}: two ranks of one thread, {sent_bytes} bytes a step and rank; "
              f"{host_s * 1e3:.1f} ms without a limit\n")
        print("| Gbit/s | bytes over bandwidth, ms | first pieces, ms | delay of messages, ms | hidden behind backward, ms | "
              "predicted exposed, ms | exposed, ms | of the rounds, ms | beside the prediction |\n"
              "|---|---|---|---|---|---|---|---|---|")
        for gbit, seconds in runs.items():
            whole_s, exposed_s = median_of_rounds(seconds)
            term_s, hidden_s = link_s(sent_bytes, gbit), whole_s - exposed_s
            unhidden_s = unhidden_part(sent_bytes) * min(term_s, host_s)
            predicted_s = predict_exposed_s(term_s, host_s, unhidden_s, delay_s, hidden_s)
            deviations.append(exposed_s / predicted_s - 1)
            of_rounds = [1e3 * exposed for _, exposed in seconds]
            print("| " + " | ".join([f"{gbit:g}", *(f"{1e3 * one:.1f}" for one in (
                term_s, unhidden_s, delay_s, hidden_s, predicted_s, exposed_s)),
                f"{min(of_rounds):.1f} to {max(of_rounds):.1f}", f"{deviations[-1]:+.1%}"]) + " |", flush=True)
    good = within_tolerance(deviations)
    print(f"\n{'Every' if good else 'Not every'} rate is within {TOLERANCE:.0%} of its prediction.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
