#!/usr/bin/env python3
"""Calibrates the absolute quality gate of a benchmark: how far above the Bayes-optimal loss an untouched run ends.

  calibrate.py run --noisemark BINARY [--id gmm16@cpu] [--seeds 20] [--jobs 2]   train over seeds, write the data file
  calibrate.py check --noisemark BINARY [--seeds 20]         the gate's bound follows from the data of that many seeds

Both print the bound: mean + 4 standard deviations over seeds, rounded up to two digits after the point. The data file keeps
every seed's value, so that the bound can be recomputed and questioned. It also keeps what faults that could really happen
come to, each trained with seed 0: `check` wants those of CAUGHT above the bound. Those of TOO_SMALL are below it: they show
how much goes unnoticed.

The hash of a definition changes with the bound that is calibrated, so a seed is kept with a hash of its own,
`trained_sha256`: of what influences training and evaluation. `run` trains seeds of other definitions again, `check` refuses
them.
"""
import argparse
import concurrent.futures
import hashlib
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SIGMAS = 4
CAUGHT = ("optimizer.lr=1e-4", "train.steps=100", "train.batch=4")
TOO_SMALL = ("optimizer.lr=3e-4", "optimizer.clip_norm=0.02", "train.steps=200")


def bound_of(values: list[float]) -> float:
    return math.ceil((statistics.mean(values) + SIGMAS * statistics.stdev(values)) * 100) / 100


def data_file(benchmark: str) -> pathlib.Path:
    return HERE / f"{benchmark.replace('@', '-')}-excess_loss.json"


def trained_sha256(definition: dict) -> str:
    """Hashes a definition without names and versions, what the other passes measure, and judgements."""
    trained = {name: section for name, section in definition.items() if name not in ("benchmark", "measure", "gate")}
    trained["eval"] = {key: value for key, value in definition["eval"].items() if key != "target_loss"}
    return hashlib.sha256(json.dumps(trained, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def listed_definition(noisemark: str, benchmark: str) -> dict:
    listing = json.loads(subprocess.run([noisemark, "list", "--json"], check=True, capture_output=True).stdout)
    name, scale = benchmark.split("@")
    return next(entry for entry in listing["benchmarks"] if entry["id"] == name)["scales"][scale]["definition"]


def excess_of_seed(noisemark: str, benchmark: str, seed: int, fault: str | None = None) -> dict:
    changes = ["--set", fault] if fault else []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [noisemark, "run", benchmark, "--device", "cpu", "--threads", "1", "--seed", str(seed), "--no-memory",
             "--no-profile", "--out", f"{folder}/out", *changes],
            stdout=subprocess.DEVNULL, check=False)
        result = json.loads(pathlib.Path(folder, "out", "result.json").read_text())
    metrics = {metric["name"]: metric["value"] for metric in result["metrics"]}
    return {"seed": seed, "excess_loss": metrics["excess_loss"], "val_loss": metrics["val_loss"],
            "definition_sha256": result["identity"]["definition_sha256"],
            "trained_sha256": trained_sha256(json.loads(result["definition"]))}


def excess_of_fault(noisemark: str, benchmark: str, fault: str, trained: str) -> dict:
    """`trained` is of the definition that the fault was put into."""
    row = excess_of_seed(noisemark, benchmark, 0, fault)
    return {"set": fault, "excess_loss": row["excess_loss"], "val_loss": row["val_loss"], "trained_sha256": trained}


def summary_of(benchmark: str, rows: list[dict], faults: list[dict]) -> dict:
    values = [row["excess_loss"] for row in rows]
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"benchmark": benchmark, "rule": f"mean + {SIGMAS} standard deviations, rounded up to 0.01",
            "mean": statistics.mean(values), "standard_deviation": spread,
            "bound": bound_of(values) if len(values) > 1 else None, "seeds": sorted(rows, key=lambda row: row["seed"]),
            "faults": sorted(faults, key=lambda row: row["set"])}


def known_rows(file: pathlib.Path, trained: str, part: str = "seeds") -> list[dict]:
    """Those that the data file has of this very training."""
    rows = json.loads(file.read_text()).get(part, []) if file.exists() else []
    return [row for row in rows if row.get("trained_sha256") == trained]


def run(args: argparse.Namespace) -> int:
    """Seeds that the data file already has are kept; it is written after every seed, so that nothing is lost."""
    trained = trained_sha256(listed_definition(args.noisemark, args.id))
    rows = [] if args.fresh else known_rows(args.file, trained)
    faults = [] if args.fresh else known_rows(args.file, trained, "faults")
    seeds = [seed for seed in range(args.seeds) if seed not in {row["seed"] for row in rows}]
    missing = [fault for fault in CAUGHT + TOO_SMALL if fault not in {row["set"] for row in faults}]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        pending = {pool.submit(excess_of_seed, args.noisemark, args.id, seed): rows for seed in seeds}
        pending |= {pool.submit(excess_of_fault, args.noisemark, args.id, fault, trained): faults for fault in missing}
        for done in concurrent.futures.as_completed(pending):
            pending[done].append(done.result())
            args.file.write_text(json.dumps(summary_of(args.id, rows, faults), indent=1) + "\n")
    summary = summary_of(args.id, rows, faults)
    print(f"{args.id}: excess over the optimal loss {summary['mean']:.4f} +- {summary['standard_deviation']:.4f} "
          f"over {len(rows)} seeds; bound {summary['bound']:.2f}")
    for fault in summary["faults"]:
        caught = "caught" if fault["excess_loss"] > summary["bound"] else "not caught"
        print(f"{args.id} --set {fault['set']}: {fault['excess_loss']:.4f}, {caught}")
    return 0


def check(args: argparse.Namespace) -> int:
    definition = listed_definition(args.noisemark, args.id)
    summary = json.loads(args.file.read_text())
    rows = known_rows(args.file, trained_sha256(definition))
    if len(rows) != len(summary["seeds"]):
        print(f"{args.id}: {len(summary['seeds']) - len(rows)} of {len(summary['seeds'])} seeds trained something else")
        return 1
    faults = {row["set"]: row["excess_loss"] for row in known_rows(args.file, trained_sha256(definition), "faults")}
    bound = bound_of([row["excess_loss"] for row in rows])
    in_force = definition["gate"]["excess_loss"]["max"]
    print(f"{args.id}: bound from {len(rows)} seeds {bound:.2f}, in force {in_force:.2f}")
    missed = [fault for fault in CAUGHT if faults.get(fault, -math.inf) <= bound]
    for fault in missed:
        print(f"{args.id}: {fault} is not above the bound: {faults.get(fault, 'not trained')}")
    return 0 if len(rows) >= args.seeds and not missed and in_force == bound == summary["bound"] else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "check"])
    parser.add_argument("--noisemark", required=True)
    parser.add_argument("--id", default="gmm16@cpu")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--file", type=pathlib.Path, help="the data file (default: the one beside this script)")
    parser.add_argument("--fresh", action="store_true", help="forget the seeds that the data file has")
    args = parser.parse_args()
    args.file = args.file or data_file(args.id)
    return run(args) if args.command == "run" else check(args)


if __name__ == "__main__":
    sys.exit(main())
