#!/usr/bin/env python3
"""Proves the arrows between the folders from the #include lines, and that docstrings of Python are sentences.

Usage: layering.py [ROOT]     checks the tree at ROOT (default: this checkout); exit code 1 lists what is wrong
       layering.py --self-test   checks that each kind of bad include and docstring is found
"""
import ast
import pathlib
import re
import sys
import tempfile

SUITE_LAYERS = [
    {"random", "config", "environment", "parallel"},
    {"data", "models", "diffusion", "io"},
    {"train"},
    {"probes", "quality", "sampling"},
    {"run", "ab", "lock"},
    {"selftest"},
    {"cli"},
]
# Floors, from the lowest: each uses itself and those before it. "" stands for files beside the rooms.
FLOORS = {
    "memopt": ["device", "autograd", "accounting", "codecs", "record", "treatment", "plan", "replay", "modes", "cuda"],
    "reports": ["base", "result", "render", "compare", "ab", "seeds", "export", "history", "trace", "references", "predict", "profile", "html"],
    "suite/run": ["spec", "folder", "passes", ""],
}
CODE = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
FRAGMENT = re.compile(r"(Of|What|Who|Where|Whether|Which|How)\b")
STANDARD = re.compile(r"^[a-z_]+$")
# Folders with a short list of libraries may include these beside the standard library and, memopt, LibTorch.
LIBRARIES = {
    "reports": re.compile(r"(fmt|nlohmann|boost/math|openssl|valijson|rapidjson|sys)/|(fcntl|md4c|spawn|unistd|zlib)\.h$"),
    "memopt": re.compile(r"cub/|(cuda_runtime_api|immintrin)\.h$"),
}
# Narrower than the layers: the files whose path begins so, what an include of them must not match, and why.
NARROWER = [
    ("suite/ab/", re.compile(r"(torch|ATen|c10|caffe2)/"), "suite/ab/ knows no torch"),
    ("memopt/plan/block_program.h", re.compile(r"(torch|ATen|c10|caffe2)/"), "the block program is arithmetic alone"),
    ("suite/quality/distance/", re.compile(r"suite/quality/(?!distance/)"), "distance/ uses nothing else of suite/quality/"),
    ("suite/quality/distance/", re.compile(r"suite/(?!quality/|data/gaussian_mixture\.h|random/)"),
     "distance/ knows of suite/ the mixture and the random numbers"),
    ("suite/quality/cifarnet/", re.compile(r"suite/quality/(?!cifarnet/|features\.h)"), "an extractor uses features.h and itself"),
    ("suite/quality/inception/", re.compile(r"suite/quality/(?!inception/|features\.h)"), "an extractor uses features.h and itself"),
]


def allowed_arrows() -> dict[str, set[str]]:
    """Folder -> folders that it may include, itself among them."""
    arrows = {"reports": set(), "memopt": set(), "baselines": {"memopt"}}
    below = {"reports", "memopt", "baselines"}
    for layer in SUITE_LAYERS:
        for name in layer:
            arrows[f"suite/{name}"] = set(below)
        below |= {f"suite/{name}" for name in layer}
    arrows["tests"] = set(below)
    for folder, targets in arrows.items():
        targets.add(folder)
    return arrows


def folder_of(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "suite" else parts[0]


def room_of(path: str) -> str:
    """The room of its folder that the file is in; empty for a file beside the rooms."""
    rest = path.removeprefix(folder_of(path) + "/").split("/")
    return rest[0] if len(rest) > 1 else ""


def floor_of(path: str) -> int | None:
    """The number of the floor that the file is on; None where its folder has no floors, or it is an example."""
    folder = folder_of(path)
    floors = FLOORS.get(folder)
    room = room_of(path)
    if floors is None or room == "example":
        return None
    return floors.index(room) if room in floors else -1


def check_include(root: pathlib.Path, path: str, quote: str, target: str) -> str | None:
    """Returns what is wrong with one include of the file `path`, or None."""
    folder = folder_of(path)
    if target == "torch/torch.h":
        return "takes in all of LibTorch; include what is used"
    for prefix, refused, why in NARROWER:
        if path.startswith(prefix) and refused.match(target):
            return why
    if TORCH.match(target):
        return "reports/ knows no torch" if folder == "reports" else None
    if not (root / target).is_file():
        if quote == '"':
            return "no such file from the root of the repository"
        known = folder not in LIBRARIES or STANDARD.match(target) or LIBRARIES[folder].match(target)
        return None if known else f"no library that {folder}/ may use"
    accepted = allowed_arrows()[folder]
    if folder_of(target) not in accepted:
        return f"{folder} may include only {', '.join(sorted(accepted))}"
    if folder == folder_of(target) and (floor := floor_of(path)) is not None:
        above = floor_of(target)
        if above is None or above > floor:
            return f"{room_of(path)}/ is below {room_of(target) or folder}/"
    return None


def fragments_in(text: str) -> list[tuple[int, str]]:
    """Returns line and beginning of every docstring that begins as a fragment does ("Of the file")."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    words = [(node.body[0].lineno, ast.get_docstring(node)) for node in nodes if ast.get_docstring(node)]
    return [(line, said.splitlines()[0]) for line, said in words if FRAGMENT.match(said)]


def check_tree(root: pathlib.Path) -> tuple[int, list[str]]:
    """Returns the number of includes looked at, and what is wrong."""
    count, errors = 0, []
    for top in ("memopt", "baselines", "suite", "tests", "containers"):
        for file in sorted((root / top).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            errors += [f"{path}:{line}: {words} (a sentence)" for line, words in fragments_in(file.read_text())]
    for top in ("reports", "memopt", "baselines", "suite", "tests"):
        for file in sorted(p for p in (root / top).rglob("*") if p.suffix in CODE):
            path = file.relative_to(root).as_posix()
            if folder_of(path) not in allowed_arrows():
                errors.append(f"{path}: its folder has no place among the layers")
                continue
            if floor_of(path) == -1:
                errors.append(f"{path}: its folder has no place among the floors of {folder_of(path)}/")
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if match := INCLUDE.match(line):
                    count += 1
                    if error := check_include(root, path, *match.groups()):
                        errors.append(f"{path}:{number}: {match[2]}: {error}")
    return count, errors


def self_test() -> list[str]:
    """Plants one include at a time in a small correct tree, and returns the verdicts that were wrong."""
    files = ["reports/base/a.h", "reports/result/a.h", "reports/render/a.h", "memopt/device/a.h", "memopt/plan/a.h",
             "memopt/modes/a.h", "memopt/example/a.h", "baselines/a.h", "suite/random/a.h", "suite/config/a.h",
             "suite/data/a.h", "suite/io/a.h", "suite/train/a.h", "suite/run/a.h", "suite/run/spec/a.h", "suite/run/passes/a.h",
             "suite/cli/a.h", "suite/ab/a.h", "suite/quality/features.h", "suite/quality/a.h", "suite/quality/distance/a.h",
             "suite/quality/cifarnet/a.h", "suite/quality/inception/a.h", "memopt/plan/block_program.h", "tests/a.h"]
    bad = [
        ("reports/result/a.h", '"memopt/plan/a.h"'), ("reports/result/a.h", "<ATen/core/Tensor.h>"), ("reports/result/a.h", "<torch/types.h>"),
        ("memopt/plan/a.h", '"reports/result/a.h"'), ("memopt/plan/a.h", '"baselines/a.h"'), ("memopt/plan/a.h", '"suite/random/a.h"'),
        ("memopt/plan/a.h", "<torch/torch.h>"), ("baselines/a.h", '"reports/result/a.h"'), ("baselines/a.h", '"suite/train/a.h"'),
        ("suite/random/a.h", '"suite/config/a.h"'), ("suite/data/a.h", '"suite/io/a.h"'),
        ("suite/data/a.h", '"suite/train/a.h"'), ("suite/run/a.h", '"suite/cli/a.h"'),
        ("memopt/plan/a.h", "<suite/run/a.h>"), ("reports/result/a.h", "<memopt/plan/a.h>"),
        ("reports/result/a.h", "<boost/program_options.hpp>"), ("reports/result/a.h", "<gtest/gtest.h>"),
        ("memopt/plan/a.h", "<fmt/format.h>"), ("memopt/plan/a.h", "<nlohmann/json.hpp>"), ("memopt/plan/a.h", "<unistd.h>"),
        ("memopt/plan/a.h", '"memopt/modes/a.h"'), ("memopt/modes/a.h", '"memopt/example/a.h"'),
        ("reports/base/a.h", '"reports/render/a.h"'),
        ("suite/run/spec/a.h", '"suite/run/passes/a.h"'), ("suite/run/passes/a.h", '"suite/run/a.h"'),
        ("suite/ab/a.h", "<ATen/core/Tensor.h>"), ("memopt/plan/block_program.h", "<c10/core/Device.h>"),
        ("suite/quality/distance/a.h", '"suite/quality/features.h"'), ("suite/quality/distance/a.h", '"suite/data/a.h"'),
        ("suite/quality/cifarnet/a.h", '"suite/quality/distance/a.h"'), ("suite/quality/inception/a.h", '"suite/quality/a.h"'),
        ("suite/cli/a.h", '"tests/a.h"'), ("suite/cli/a.h", '"suite/run/absent.h"'), ("suite/cli/a.h", '"a.h"'),
    ]
    good = [
        ("reports/result/a.h", "<string>"), ("memopt/plan/a.h", "<ATen/core/Tensor.h>"), ("baselines/a.h", '"memopt/plan/a.h"'),
        ("suite/cli/a.h", "<suite/run/a.h>"), ("suite/cli/a.h", "<boost/program_options.hpp>"),
        ("reports/result/a.h", "<boost/math/distributions/normal.hpp>"), ("reports/result/a.h", "<sys/stat.h>"),
        ("memopt/plan/a.h", "<cuda_runtime_api.h>"), ("memopt/plan/a.h", "<cub/device/device_scan.cuh>"),
        ("memopt/plan/a.h", "<unordered_map>"),
        ("suite/data/a.h", '"suite/random/a.h"'), ("suite/train/a.h", '"suite/data/a.h"'),
        ("suite/cli/a.h", '"suite/run/a.h"'), ("suite/cli/a.h", '"baselines/a.h"'), ("suite/cli/a.h", '"reports/result/a.h"'),
        ("tests/a.h", '"suite/cli/a.h"'), ("memopt/example/a.h", '"memopt/modes/a.h"'),
        ("reports/result/a.h", '"reports/base/a.h"'), ("memopt/plan/a.h", '"memopt/device/a.h"'),
        ("suite/quality/distance/a.h", '"suite/random/a.h"'), ("suite/quality/cifarnet/a.h", '"suite/quality/features.h"'),
        ("suite/quality/a.h", '"suite/quality/distance/a.h"'), ("suite/quality/inception/a.h", '"suite/io/a.h"'),
        ("suite/run/passes/a.h", '"suite/run/spec/a.h"'), ("suite/run/a.h", '"suite/run/passes/a.h"'),
    ]
    wrong = []
    for path, include in bad + good:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in files:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("#pragma once\n")
            (root / path).write_text(f"#pragma once\n#  include {include}\n")
            found = bool(check_tree(root)[1])
            if found != ((path, include) in bad):
                wrong.append(f"{path} including {include}: {'refused' if found else 'not noticed'}")
    for words, is_fragment in (("Of the file.", True), ("Whether it is\nthere.", True), ("Returns of each its size.", False)):
        if bool(fragments_in(f'def f():\n    """{words}"""\n')) != is_fragment:
            wrong.append(f"docstring {words!r}: {'not noticed' if is_fragment else 'refused'}")
    return wrong


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        wrong = self_test()
        print("\n".join(wrong) or "every bad include and docstring was found, and no good one refused")
        return bool(wrong)
    root = pathlib.Path(sys.argv[1] if sys.argv[1:] else pathlib.Path(__file__).parents[2])
    count, errors = check_tree(root)
    print("\n".join(errors) or f"{count} includes follow the arrows")
    return bool(errors) or count == 0


if __name__ == "__main__":
    sys.exit(main())
