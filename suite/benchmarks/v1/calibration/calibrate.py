#!/usr/bin/env python3
"""Calibrates the absolute quality gate of a benchmark: how far above the Bayes-optimal loss an untouched run ends.

  calibrate.py run --noisemark BINARY [--id gmm16@cpu] [--seeds 20] [--jobs 2]   train over seeds, write the data file
  calibrate.py check [--seeds 20]                            the gate's bound follows from the data of that many seeds

Both print the bound: mean + 4 standard deviations over seeds, rounded up to two digits after the point. The data file keeps
every seed's value, so that the bound can be recomputed and questioned.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SIGMAS = 4


def bound_of(values: list[float]) -> float:
    return math.ceil((statistics.mean(values) + SIGMAS * statistics.stdev(values)) * 100) / 100


def data_file(benchmark: str) -> pathlib.Path:
    return HERE / f"{benchmark.replace('@', '-')}-excess_loss.json"


def excess_of_seed(noisemark: str, benchmark: str, seed: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [noisemark, "run", benchmark, "--device", "cpu", "--threads", "1", "--seed", str(seed), "--no-memory",
             "--no-profile", "--out", f"{folder}/out"],
            stdout=subprocess.DEVNULL, check=False)
        result = json.loads(pathlib.Path(folder, "out", "result.json").read_text())
    metrics = {metric["name"]: metric["value"] for metric in result["metrics"]}
    return {"seed": seed, "excess_loss": metrics["excess_loss"], "val_loss": metrics["val_loss"],
            "definition_sha256": result["identity"]["definition_sha256"]}


def summary_of(benchmark: str, rows: list[dict]) -> dict:
    values = [row["excess_loss"] for row in rows]
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"benchmark": benchmark, "rule": f"mean + {SIGMAS} standard deviations, rounded up to 0.01",
            "mean": statistics.mean(values), "standard_deviation": spread,
            "bound": bound_of(values) if len(values) > 1 else None, "seeds": sorted(rows, key=lambda row: row["seed"])}


def known_rows(benchmark: str) -> list[dict]:
    file = data_file(benchmark)
    return json.loads(file.read_text())["seeds"] if file.exists() else []


def run(args: argparse.Namespace) -> int:
    """Seeds that the data file already has are kept; it is written after every seed, so that nothing is lost."""
    rows = [] if args.fresh else known_rows(args.id)
    missing = [seed for seed in range(args.seeds) if seed not in {row["seed"] for row in rows}]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        pending = [pool.submit(excess_of_seed, args.noisemark, args.id, seed) for seed in missing]
        for done in concurrent.futures.as_completed(pending):
            rows.append(done.result())
            data_file(args.id).write_text(json.dumps(summary_of(args.id, rows), indent=1) + "\n")
    summary = summary_of(args.id, rows)
    print(f"{args.id}: excess over the optimal loss {summary['mean']:.4f} +- {summary['standard_deviation']:.4f} "
          f"over {len(rows)} seeds; bound {summary['bound']:.2f}")
    return 0


def check(args: argparse.Namespace) -> int:
    summary = json.loads(data_file(args.id).read_text())
    values = [row["excess_loss"] for row in summary["seeds"]]
    toml = (HERE.parent / f"{args.id.split('@')[0]}.toml").read_text()
    in_force = float(re.search(r"\[gate\.excess_loss\][^\[]*?^max = ([0-9.]+)", toml, re.M | re.S).group(1))
    print(f"{args.id}: bound from {len(values)} seeds {bound_of(values):.2f}, in force {in_force:.2f}")
    return 0 if len(values) >= args.seeds and in_force == bound_of(values) == summary["bound"] else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "check"])
    parser.add_argument("--noisemark")
    parser.add_argument("--id", default="gmm16@cpu")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="forget the seeds that the data file has")
    args = parser.parse_args()
    if args.command == "check":
        return check(args)
    if not args.noisemark:
        parser.error("run needs --noisemark")
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
