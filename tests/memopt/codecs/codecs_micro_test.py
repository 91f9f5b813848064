"""Runs the benchmarks of the codecs, shortly: each must have its rate beside that of a plain copy, and say which bytes
it is of.

Usage: codecs_micro_test.py PROGRAM
"""

import json
import subprocess
import sys

# These are the codecs of memopt/codecs/README.md beside the roundings, which the program takes from the grammar of modes
# and names in its context; "offload" is a GPU's name for "copy".
_CODECS = ("copy", "mask1", "narrow", "narrow_fp16", "pool4", "sign1", "ssdc", "ssdc+dpr8")
_WORK = {"decode", "encode", "plain_copy"}
# Know something of the whole tensor before they encode its first element.
_READ_TWICE = ("dpr", "q", "ssdc")
# Several times what a GPU's L2 holds: a smaller tensor's figure is not one of DRAM.
_LEAST_BYTES_ON_GPU = 256 << 20


def main() -> int:
    command = [sys.argv[1], "--benchmark_min_time=0.001", "--benchmark_format=json"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    report = json.loads(output)
    rates = {}
    problems = []
    for benchmark in report["benchmarks"]:
        *_, codec, tensor, work, _ = benchmark["name"].split("/")
        on_gpu = benchmark["name"].startswith("cuda/")
        rates.setdefault((on_gpu, codec), {})[tensor, work] = benchmark["GB/s"]
        for figure in ("of_copy", "of_copy_moved") if on_gpu else ():
            if benchmark.get(figure, 0) <= 0:
                problems.append(f"{benchmark['name']}: no {figure}")
        if on_gpu and benchmark["least_bytes"] < _LEAST_BYTES_ON_GPU:
            problems.append(f"{benchmark['name']}: a cache may hold {benchmark['least_bytes']} bytes")
        again = benchmark["moved_bytes"] - benchmark["least_bytes"]
        twice = work == "encode" and codec.startswith(_READ_TWICE)
        if benchmark["least_bytes"] <= 0 or (again > 0) != twice or again < 0:
            problems.append(f"{benchmark['name']}: {again} bytes are said to be read again")
    roundings = report["context"]["roundings"].split()
    if not roundings:
        problems.append("the program names no rounding")
    codecs = {*_CODECS, *roundings}
    wanted = {(False, codec) for codec in codecs}
    if report["context"]["cuda"] == "measured":
        wanted |= {(True, codec) for codec in codecs - {"copy"}} | {(True, "offload")}
    problems += [f"no benchmark: {missing}" for missing in sorted(wanted - set(rates))]
    problems += [f"not in the list: {other}" for other in sorted(set(rates) - wanted)]
    for codec, by_tensor in sorted(rates.items()):
        for tensor in sorted({tensor for tensor, _ in by_tensor}):
            found = {work for of, work in by_tensor if of == tensor}
            if found != _WORK:
                problems.append(f"{codec} {tensor}: {sorted(found)} instead of {sorted(_WORK)}")
        problems += [f"{codec} {key}: {rate} GB/s" for key, rate in by_tensor.items() if rate <= 0]
    print("\n".join(problems) or f"{len(report['benchmarks'])} benchmarks, each with a rate")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
