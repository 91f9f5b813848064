#!/usr/bin/env python3
"""Prints what the sources cost those who change them: how much there is to read, and how long a change waits for its verdict.

Usage: upkeep.py [REVISION ...]   a table of sizes for each revision of this repository (default: HEAD)
       upkeep.py --edit FILE      compiles FILE anew, builds its test and runs it; prints the seconds of each
"""
import argparse
import ast
import os
import pathlib
import re
import subprocess
import sys
import time

TOPS = ("containers", "memopt", "baselines", "reports", "suite", "tests")
CPP = {".h", ".cpp", ".cu", ".cuh"}
COMMENT = {**{suffix: re.compile(r"(^|\s)//") for suffix in CPP}, ".py": re.compile(r"(^|\s)#")}
SUITE = re.compile(r"^TEST(?:_[FP])?\((\w+),", re.MULTILINE)


def git(root: pathlib.Path, *words: str, **options: object) -> bytes:
    return subprocess.run(["git", "-C", str(root), *words], check=True, stdout=subprocess.PIPE, **options).stdout


def files_of(root: pathlib.Path, revision: str) -> dict[str, str]:
    """Returns the text of every source and README of the revision below the top folders, by its path."""
    names = [name for name in git(root, "ls-tree", "-r", "-z", "--name-only", revision).decode().split("\0")
             if name == "README.md"
             or (name.split("/")[0] in TOPS and (pathlib.PurePath(name).suffix in COMMENT or name.endswith("/README.md")))]
    objects = git(root, "cat-file", "--batch", input="".join(f"{revision}:{name}\n" for name in names).encode())
    texts, at = {}, 0
    for name in names:
        end = objects.index(b"\n", at)
        size = int(objects[at:end].split()[-1])
        texts[name] = objects[end + 1:end + 1 + size].decode()
        at = end + size + 2
    return texts


def docstring_lines(text: str) -> set[int]:
    """Returns the numbers of the lines that belong to docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented) and ast.get_docstring(node)]
    return {line for node in nodes for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)}


def commented(name: str, text: str) -> tuple[int, int]:
    """Returns how many lines have a comment, and how many are not empty."""
    suffix = pathlib.PurePath(name).suffix
    documented = docstring_lines(text) if suffix == ".py" else set()
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return sum(number in documented or bool(COMMENT[suffix].search(line)) for number, line in lines), len(lines)


def quantile(sorted_values: list[int], share: float) -> int:
    """Returns the smallest value that at least this share of all values do not exceed."""
    return sorted_values[max(0, -int(-share * len(sorted_values) // 1) - 1)] if sorted_values else 0


def row(title: str, texts: dict[str, str]) -> str:
    sources = {name: text for name, text in texts.items() if not name.endswith(".md")}
    lengths = sorted(text.count("\n") for text in sources.values())
    readmes = [text.count("\n") for name, text in texts.items() if name.endswith(".md")]
    counts = [commented(name, text) for name, text in sources.items()]
    share = sum(one[0] for one in counts) / max(1, sum(one[1] for one in counts))
    return (f"| {title} | {len(lengths)} | {sum(lengths)} | {quantile(lengths, 0.5)} | {quantile(lengths, 0.9)} | {share:.2f} | "
            f"{sum(readmes)} | {max(readmes, default=0)} |")


def sizes(root: pathlib.Path, revision: str) -> str:
    """Returns the table: C++, CUDA and Python of each top folder, of the product, and of the tests."""
    texts = files_of(root, revision)
    name = git(root, "log", "-1", "--format=%h of %cs", revision).decode().strip()
    lines = [f"Sizes at {name}", "",
             "| folder | files | lines | median | p90 | comments per line | README lines | longest README |", "|---|---|---|---|---|---|---|---|"]
    for top in TOPS:
        lines.append(row(f"{top}/", {name: text for name, text in texts.items() if name.startswith(top + "/")}))
    product = {name: text for name, text in texts.items() if not name.startswith("tests/")}
    lines.append(row("all but tests/", product))
    return "\n".join(lines) + "\n"


def seconds_of(command: list[str], **options: object) -> float:
    start = time.monotonic()
    if subprocess.run(command, **options).returncode != 0:
        sys.exit(f"upkeep.py: {' '.join(command)}: failed")
    return time.monotonic() - start


def edit(file: pathlib.Path, build: pathlib.Path, test: str, suites: str) -> str:
    """Returns in words how long the test takes to say whether an edit of the file is right."""
    quiet = {"stdout": subprocess.DEVNULL}
    command = ["cmake", "--build", str(build), "--target", test]
    seconds_of(command, **quiet)
    file.touch()
    # ccache would find the file as it was.
    built = seconds_of(command, env={**os.environ, "CCACHE_DISABLE": "1"}, **quiet)
    ran = seconds_of([str(build / "bin" / test), f"--gtest_filter={suites}"], env={**os.environ, "OMP_NUM_THREADS": "1"}, **quiet)
    return f"{file}: built in {built:.1f} s, {test} ({suites}) ran for {ran:.1f} s: {built + ran:.1f} s to the verdict"


def own_suites(root: pathlib.Path, file: pathlib.Path) -> str:
    """Returns a filter for the suites of the test beside the file (tests/memopt/plan/cuts_test.cpp); all suites without one."""
    test = root / "tests" / file.with_name(file.stem + "_test.cpp")
    suites = dict.fromkeys(SUITE.findall(test.read_text())) if test.is_file() else {}
    return ":".join(f"*{suite}.*" for suite in suites) or "*"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", nargs="*", default=["HEAD"], help="revision whose sizes are printed (default: HEAD)")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2], help="the repository (default: this one)")
    parser.add_argument("--edit", type=pathlib.Path, metavar="FILE", help="measure the time from an edit of FILE to its test's verdict")
    parser.add_argument("--build", type=pathlib.Path, default="build/release", help="build folder, below the repository (default: build/release)")
    parser.add_argument("--test", help="target of the test (default: that of the file's top folder, such as memopt_test)")
    parser.add_argument("--suites", help="filter of GoogleTest (default: the suites of FILE's own test, or all where it has none)")
    given = parser.parse_args()
    if not given.edit:
        print("\n".join(sizes(given.root, revision) for revision in given.revision), end="")
        return 0
    test = given.test or f"{given.edit.parts[0]}_test"
    os.chdir(given.root)
    print(edit(given.edit, given.build, test, given.suites or own_suites(given.root, given.edit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
