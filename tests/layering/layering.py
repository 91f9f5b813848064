#!/usr/bin/env python3
"""Proves the arrows between the folders from the #include lines, that comments are no fragments, and that READMEs are short.

The arrows stand in READMEs, in tables with the columns "folder" and "uses". A row names the folders of its table that the
files of its folder include, and, in suite/, those of the first README too. It may name only rows above it: no circles.

Usage: layering.py [ROOT]     checks the tree at ROOT (default: this checkout); exit code 1 lists what is wrong
       layering.py --self-test   checks that each kind of bad include, row and docstring is found
"""
import ast
import io
import itertools
import pathlib
import re
import sys
import tempfile
import tokenize
from typing import NamedTuple

# Folders whose README has a table of arrows; "" is the root.
TABLES = ("", "memopt", "reports", "suite", "suite/run")
BESIDE = "beside them"  # the row of files that are in no folder of the table
TOPS = ("reports", "memopt", "baselines", "suite", "tests", "containers")
MOST_LINES, MOST_COLUMNS = 150, 140  # limits of a README
NAME = re.compile(r"[a-z_]+")
CODE = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
FRAGMENT = re.compile(r"(Of|What|Who|Where|Whether|Which|How|That)\b")
# A help of argparse may be a noun phrase or an order ("print the table"), but no part of a sentence.
HELP = re.compile(r"(of|that|what|who|where|whether|which|how|whose|with|within|by|in|at|from|for|other than|left out)\b|\(")
# A comment that begins with one of these is never a sentence, with one of the next only if its verb comes before any clause.
NEVER = re.compile(r"(Also|As|Called|Given|Kept|Likewise|Made|Not|Nor|Once|Since|So|Told|Until|When)\b")
NEEDS_VERB = re.compile(r"(Above|After|Along|Among|And|At|Before|Behind|Below|Beside|Between|Beyond|By|During|Else|For|From|In|Instead|"
                        r"Into|Like|On|Or|Over|Per|Rather|Such|Then|Though|Through|To|Twice|Under|Up|With|Within|Without)\b(?!::)")
# An adjective or participle without a subject, or an order in disguise: no sentence of a comment begins so.
BARE = re.compile(r"To be\b|((?!Need|Seed|Speed)[A-Z][a-z]+ed|Constant|Cut|Drawn|Empty|Exact|Exactly|False|Found|Held|Left(?! to itself)|Lossless|Null|"
                  r"Proven|Put|Read|Spent|Taken|True|Undefined|Uniform|Unsigned|Written)"
                  r"(?=$|[,.:;]|\s(a|after|again|and|as|at|because|before|beside|but|by|equally|for|from|here|if|in|into|it|once|only|of|on|"
                  r"or|outside|over|since|so|that|the|to|under|unless|until|up|when|where|while|with|without)\b)")
SENTENCE = re.compile(r"(?<=[a-z0-9)`])[.] (?=[A-Z])")
CLAUSE = re.compile(r"[.:;](\s|$)|\b(as|because|but for|how|if|than|that|unless|until|what|when|where|which|while|who|whom|whose|why)\b")
VERB = re.compile(r"\b(are|can|cannot|could|did|do|does|had|has|have|is|may|must|should|was|were|will|would|"
                  r"allocates|begins|comes?|copies|costs?|counts?|differs?|ends?|finds?|gets?|gives?|goes|holds?|keeps?|knows?|lies?|makes?|"
                  r"means?|needs?|reaches|rounds|says?|sees?|shows?|stands?|takes?|tells?|wants?|works?|writes|wrote)\b")
COMMENT = re.compile(r"(?P<code>\s*)//(/<?|!)?(?!/)\s?(?P<words>.*)$")
BEHIND_CODE = re.compile(r"(?P<code>\s*[^\s/].*?\s)//(/<)?\s+(?!NOLINT|namespace\b)(?P<words>[^\"]*)$")
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
    ("suite/quality/cifarnet/", re.compile(r"suite/quality/(?!cifarnet/)"), "a network uses nothing else of suite/quality/"),
    ("suite/quality/inception/", re.compile(r"suite/quality/(?!inception/)"), "a network uses nothing else of suite/quality/"),
]


def read_table(readme: pathlib.Path) -> dict[str, set[str]]:
    """Returns the folders of the README's table of arrows from the top, and what each uses."""
    rows: dict[str, set[str]] = {}
    header: list[str] = []
    for line in readme.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if not header:
            header = cells if "folder" in cells and "uses" in cells else []
        elif len(cells) != len(header):
            break
        elif not line.startswith("|--") and not line.startswith("| --"):
            name, uses = cells[header.index("folder")], cells[header.index("uses")]
            rows[name if name == BESIDE else NAME.search(name)[0]] = set(NAME.findall(uses)) - {"nothing"}
    return rows


class Arrows:
    """The tables of arrows in the READMEs, and the arrows that were seen in the code."""

    def __init__(self, root: pathlib.Path) -> None:
        self.tables = {table: read_table(root / table / "README.md") for table in TABLES}
        self.seen: set[tuple[str, str, str]] = set()

    @staticmethod
    def holds(table: str, path: str) -> bool:
        return not table or path.startswith(table + "/")

    @staticmethod
    def row(table: str, path: str) -> str:
        below = path[len(table) + 1 if table else 0:].split("/")
        return below[0] if len(below) > 1 else BESIDE

    def misplaced(self, path: str) -> str | None:
        """Returns the table in which the file's folder has no row, or None."""
        for table, rows in self.tables.items():
            if self.holds(table, path) and self.row(table, path) not in rows:
                return f"{self.row(table, path)} has no row in the table of {table}/README.md"
        return None

    def refusal(self, path: str, target: str) -> str | None:
        """Returns why the file may not include the target, or None; then the arrow counts as seen."""
        for table, rows in self.tables.items():
            inside = self.holds(table, target)
            if not self.holds(table, path) or (not inside and "/" in table):
                continue
            source, used = self.row(table, path), self.row(table if inside else "", target)
            if inside and source == used:
                continue
            if used not in rows[source]:
                return f"{table}/README.md does not say that {source} uses {used}"
            self.seen.add((table, source, used))
        return None

    def faults(self) -> list[str]:
        """Returns the rows that name a folder that is not above them, or one that they do not include."""
        wrong = []
        for table, rows in self.tables.items():
            above = set(self.tables[""].get(table, ()))
            for source, uses in rows.items():
                for used in sorted(uses):
                    if used not in above:
                        wrong.append(f"{table}/README.md: {source} uses {used}, which is not above it")
                    elif (table, source, used) not in self.seen:
                        wrong.append(f"{table}/README.md: {source} uses {used}, but includes nothing of it")
                above.add(source)
        return wrong


def check_include(arrows: Arrows, root: pathlib.Path, path: str, quote: str, target: str) -> str | None:
    """Returns what is wrong with one include of the file `path`, or None."""
    top = path.split("/")[0]
    if target == "torch/torch.h":
        return "takes in all of LibTorch; include what is used"
    for prefix, refused, why in NARROWER:
        if path.startswith(prefix) and refused.match(target):
            return why
    if TORCH.match(target):
        return "reports/ knows no torch" if top == "reports" else None
    if not (root / target).is_file():
        if quote == '"':
            return "no such file from the root of the repository"
        known = top not in LIBRARIES or STANDARD.match(target) or LIBRARIES[top].match(target)
        return None if known else f"no library that {top}/ may use"
    return arrows.refusal(path, target)


def fragments_in(text: str) -> list[tuple[int, str]]:
    """Returns line and beginning of every docstring that begins as a fragment does ("Of the file")."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    words = [(node.body[0].lineno, ast.get_docstring(node)) for node in nodes if ast.get_docstring(node)]
    return [(line, said.splitlines()[0]) for line, said in words if FRAGMENT.match(said)]


def help_fragments_in(text: str) -> list[tuple[int, str]]:
    """Returns line and beginning of every help of an option that begins as a fragment does ("of a turn")."""
    helps = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.keyword) and node.arg == "help"]
    first = [one.values[0] if isinstance(one, ast.JoinedStr) else one for one in helps]
    return [(one.lineno, one.value) for one in first
            if isinstance(one, ast.Constant) and HELP.match(str(one.value))]


def is_fragment(comment: str) -> bool:
    """Returns whether the first of the sentences is none and no noun phrase, or a later one begins with a bare adjective."""
    comment = comment[:1].upper() + comment[1:]
    first, *others = SENTENCE.split(comment)
    verbless = [sentence for sentence in (first, *others) if not VERB.search(CLAUSE.split(sentence)[0])]
    return (bool(FRAGMENT.match(first) or NEVER.match(first) or (first in verbless and NEEDS_VERB.match(first)))
            or any(map(BARE.match, verbless)))


class Comment(NamedTuple):
    """A comment of one line, or one line of a longer one."""
    line: int
    column: int
    words: str
    behind_code: bool

    def continues(self, last: "Comment") -> bool:
        return not self.behind_code and (self.line, self.column) == (last.line + 1, last.column)


def fragments_of(comments: list[Comment]) -> list[tuple[int, str]]:
    """Returns line and beginning of every comment that begins as a fragment does."""
    blocks: list[list[Comment]] = []
    for comment in comments:
        if blocks and comment.continues(blocks[-1][-1]):
            blocks[-1].append(comment)
        else:
            blocks.append([comment])
    return [(block[0].line, block[0].words) for block in blocks if is_fragment(" ".join(one.words for one in block))]


def comment_fragments_in(lines: list[str]) -> list[tuple[int, str]]:
    """Returns line and beginning of every C++ comment, in a block or behind code, that begins as a fragment does."""
    found = [(number, COMMENT.match(line) or BEHIND_CODE.match(line)) for number, line in enumerate(lines, 1)]
    return fragments_of([Comment(number, match.end("code"), match["words"], bool(match["code"].strip())) for number, match in found if match])


def python_comment_fragments_in(text: str) -> list[tuple[int, str]]:
    """Returns line and beginning of every comment of a Python program that begins as a fragment does."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    return fragments_of([Comment(*token.start, token.string.lstrip("# "), bool(token.line[: token.start[1]].strip()))
                         for token in tokens if not token.string.startswith("#!")])


def readme_faults(path: str, text: str) -> list[str]:
    """Returns what is too long in a README: more than 150 lines, or 140 columns outside tables, code and what a command makes."""
    lines = text.splitlines()
    faults = [f"{path}: {len(lines)} lines (at most {MOST_LINES})"] if len(lines) > MOST_LINES else []
    code = made = False
    for number, line in enumerate(lines, 1):
        code ^= line.startswith("```")
        made = line.startswith("<!-- begin:") or (made and not line.startswith("<!-- end"))
        if len(line) > MOST_COLUMNS and not (code or made or line.startswith("|")):
            faults.append(f"{path}:{number}: {len(line)} columns (at most {MOST_COLUMNS})")
    return faults


def check_tree(root: pathlib.Path) -> tuple[int, list[str]]:
    """Returns the number of includes looked at, and what is wrong."""
    arrows, count, errors = Arrows(root), 0, []
    for file in [root / "README.md", *(found for top in TOPS for found in sorted((root / top).rglob("README.md")))]:
        errors += readme_faults(file.relative_to(root).as_posix(), file.read_text())
    for top in TOPS:
        for file in sorted((root / top).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            text = file.read_text()
            errors += [f"{path}:{line}: {words} (a sentence)" for line, words in fragments_in(text) + python_comment_fragments_in(text)]
            errors += [f"{path}:{line}: help {words} (no part of a sentence)" for line, words in help_fragments_in(text)]
    for top in TOPS:
        for file in sorted(p for p in (root / top).rglob("*") if p.suffix in CODE):
            path = file.relative_to(root).as_posix()
            if misplaced := arrows.misplaced(path):
                errors.append(f"{path}: {misplaced}")
                continue
            lines = file.read_text().splitlines()
            errors += [f"{path}:{line}: {words} (a sentence)" for line, words in comment_fragments_in(lines)]
            for number, line in enumerate(lines, 1):
                if match := INCLUDE.match(line):
                    count += 1
                    if error := check_include(arrows, root, path, *match.groups()):
                        errors.append(f"{path}:{number}: {match[2]}: {error}")
    return count, errors + arrows.faults()


# Tables of arrows for the self-test.
PLANTED = {
    "": "reports nothing, memopt nothing, baselines memopt, suite reports memopt baselines, tests suite",
    "memopt": "device nothing, autograd modes, plan device, modes device plan, example plan modes",
    "reports": "base nothing, result base, render base result",
    "suite": "random nothing, config nothing, data random, io nothing, train data io, quality data random io, run data train, ab nothing, "
             "cli run baselines reports",
    "suite/run": "spec nothing, folder spec, passes spec folder, beside them spec folder passes",
}


def plant(root: pathlib.Path, files: list[str]) -> None:
    """Writes a tree of empty files, and the READMEs with its arrows."""
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("#pragma once\n")
    for folder, rows in PLANTED.items():
        lines = ["| folder | uses |", "|---|---|"]
        for row in rows.split(", "):
            name = BESIDE if row.startswith(BESIDE) else row.split()[0]
            lines.append(f"| {name} | {', '.join(row.removeprefix(name).split())} |")
        (root / folder / "README.md").write_text("\n".join(lines))


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
        ("suite/quality/cifarnet/a.h", '"suite/quality/features.h"'), ("suite/quality/inception/a.h", '"suite/quality/a.h"'),
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
        ("suite/quality/distance/a.h", '"suite/random/a.h"'), ("suite/quality/cifarnet/a.h", '"suite/io/a.h"'),
        ("suite/quality/a.h", '"suite/quality/distance/a.h"'), ("suite/quality/inception/a.h", '"suite/io/a.h"'),
        ("suite/run/passes/a.h", '"suite/run/spec/a.h"'), ("suite/run/a.h", '"suite/run/passes/a.h"'),
    ]
    wrong = []
    for path, include in bad + good:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            plant(root, files)
            before = check_tree(root)[1]
            (root / path).write_text(f"#pragma once\n#  include {include}\n")
            found = bool(set(check_tree(root)[1]) - set(before))
            if found != ((path, include) in bad):
                wrong.append(f"{path} including {include}: {'refused' if found else 'not noticed'}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        plant(root, [*files, "memopt/attic/a.h"])
        errors = " ".join(check_tree(root)[1])
        for fault in ("attic has no row in the table of memopt", "plan uses device, but includes nothing of it",
                      "memopt/README.md: autograd uses modes, which is not above it"):
            if fault not in errors:
                wrong.append(f"not noticed: {fault}")
    for words, refused in (("By rising\nposition.", True), ("So often.", True), ("In the order in which runs are named.", True),
                           ("In a pipeline the last\nstage comes first.", False), ("Sorted by\ntime.", True), ("Sorted labels.", False),
                           ("Null: nobody owns it.", True), ("Null is an error.", False), ("Likewise.", True), ("Empty folders.", False)):
        lines = words.splitlines()
        for kind, found in (("C++", comment_fragments_in([f"// {line}" for line in lines])),
                            ("C++ behind code", comment_fragments_in([("int n;  " if at == 0 else 8 * " ") + f"// {line}" for at, line in enumerate(lines)])),
                            ("C++ of a member", comment_fragments_in([("int n;  " if at == 0 else 8 * " ") + f"///< {line}" for at, line in enumerate(lines)])),
                            ("Python", python_comment_fragments_in("".join(f"# {line}\n" for line in lines)))):
            if bool(found) != refused:
                wrong.append(f"comment {words!r} ({kind}): {'not noticed' if refused else 'refused'}")
    for text, refused in (("a" * 140, False), ("a" * 141, True), ("|" + "a" * 140, False), ("```\n" + "a" * 141 + "\n```", False),
                          ("```\n```\n" + "a" * 141, True), ("<!-- begin: a -->\n" + "a" * 141 + "\n<!-- end: a -->", False),
                          ("<!-- begin: a -->\n<!-- end: a -->\n" + "a" * 141, True), ("\n" * 150, False), ("\n" * 151, True)):
        if bool(readme_faults("README.md", text)) != refused:
            wrong.append(f"README {text[:8]!r}... of {len(text)} characters: {'not noticed' if refused else 'refused'}")
    for words, is_part in (("Of the file.", True), ("Whether it is\nthere.", True), ("Returns of each its size.", False)):
        if bool(fragments_in(f'def f():\n    """{words}"""\n')) != is_part:
            wrong.append(f"docstring {words!r}: {'not noticed' if is_part else 'refused'}")
        comments = [f"/// {line}" for line in words.splitlines()]
        if bool(comment_fragments_in(comments)) != is_part:
            wrong.append(f"comment {words!r}: {'not noticed' if is_part else 'refused'}")
        if is_part and not comment_fragments_in([f"int n;  ///< {words.lower()}"]):
            wrong.append(f"trailing comment {words!r}: not noticed")
    for words, is_part in (("of a turn", True), ("(default: 6)", True), ("steps of a turn", False), ("print the table", False)):
        if bool(help_fragments_in(f"add(help='{words}')\nadd(help=f'{words} {{x}}')")) != is_part:
            wrong.append(f"help {words!r}: {'not noticed' if is_part else 'refused'}")
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
