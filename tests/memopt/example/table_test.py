"""The table of memopt/README.md is what the example prints. The bytes of a mode that is bit for bit are the same on
every machine. Not compared are those of budgets, which depend on what operators took, those of modes that round, which
depend on the values that may be rounded, and the error, which depends on the CPU's arithmetic.

Usage: table_test.py PROGRAM README; without a README, what the example refuses.
"""

import pathlib
import subprocess
import sys


def _rows(text: str) -> dict[str, list[str]]:
    """By mode, the factors for each model, then the error, then whether it was bit for bit."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| mode | resnet |"))
    rows = {}
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        mode, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[mode] = cells
    return rows


def _refusals() -> list[str]:
    """A percentage that is none is refused in the words of the mode."""
    problems = []
    for number in ("x%", "99999999999999999999%", "101%", "-1%", "4.5%", "%", "60%%"):
        mode = f"budget:saved={number}"
        told = subprocess.run([sys.argv[1], "gpt", mode], check=False, capture_output=True, text=True)
        if told.returncode != 2 or told.stdout or f'"{mode}" (' not in told.stderr:
            problems.append(f"{mode}: exit code {told.returncode}: {told.stdout}{told.stderr}")
    return problems


def _differences() -> list[str]:
    problems = []
    printed = _rows(subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE, text=True).stdout)
    written = _rows(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    if list(printed) != list(written):
        problems.append(f"modes: {list(printed)} printed, {list(written)} in the README")
    for mode, cells in printed.items():
        *factors, _, certificate = cells
        *known_factors, _, known_certificate = written.get(mode, cells)
        if certificate != known_certificate:
            problems.append(f"{mode}: bit for bit: {certificate} printed, {known_certificate} in the README")
        if "budget" not in mode and certificate == "yes" and factors != known_factors:
            problems.append(f"{mode}: {factors} printed, {known_factors} in the README")
    return problems


def main() -> int:
    problems = _differences() if len(sys.argv) > 2 else _refusals()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
