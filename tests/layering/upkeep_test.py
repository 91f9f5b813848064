#!/usr/bin/env python3
"""Prints the sizes of a small repository at two of its commits, and edits a file of a small build."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

UPKEEP = pathlib.Path(__file__).with_name("upkeep.py")


def run(*words: str | pathlib.Path) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def upkeep(root: pathlib.Path, *words: str) -> str:
    return run(sys.executable, "-B", UPKEEP, "--root", root, *words)


def write(file: pathlib.Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def commit(root: pathlib.Path) -> str:
    run("git", "-C", root, "add", "-A")
    run("git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "A change")
    return run("git", "-C", root, "rev-parse", "HEAD").strip()


class Upkeep(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        run("git", "init", "-q", self.root)

    def cells(self, table: str, folder: str) -> list[str]:
        return next([cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines() if line.startswith(f"| {folder} "))

    def test_a_table_has_the_files_lines_comments_and_readmes_of_its_revision(self) -> None:
        for number, lines in enumerate((2, 4, 6, 8, 10, 12, 14, 16, 18, 40)):
            write(self.root / f"memopt/{number}.cpp", "int a; // a comment\n\n" * (lines // 2))
        write(self.root / "memopt/README.md", "one\ntwo\n")
        write(self.root / "memopt/plan/README.md", "one\ntwo\nthree\n")
        write(self.root / "memopt/data.json", "{\n}\n")
        write(self.root / "suite/one.py", '"""Says\nwhat."""\na = "#"\nb = 1  # a comment\n')
        write(self.root / "tests/memopt/a_test.cpp", "// a comment\n")
        first = commit(self.root)
        write(self.root / "memopt/10.cpp", "int b;\n")
        second = commit(self.root)
        table = upkeep(self.root, first)
        self.assertEqual(self.cells(table, "memopt/"), ["10", "130", "10", "18", "1.00", "5", "3"])
        self.assertEqual(self.cells(table, "suite/"), ["1", "4", "4", "4", "0.75", "0", "0"])
        self.assertEqual(self.cells(table, "reports/"), ["0", "0", "0", "0", "0.00", "0", "0"])
        self.assertEqual(self.cells(table, "tests/"), ["1", "1", "1", "1", "1.00", "0", "0"])
        self.assertEqual(self.cells(table, "all but tests/")[:2], ["11", "134"])
        both = upkeep(self.root, first, second)
        self.assertTrue(both.startswith(table))
        self.assertEqual(self.cells(both[len(table):], "memopt/")[:2], ["11", "131"])

    def test_an_edited_file_is_compiled_again_and_its_own_suites_are_run(self) -> None:
        write(self.root / "CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(a CXX)\n"
              "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)\nadd_executable(memopt_test memopt/a.cpp)\n")
        write(self.root / "memopt/a.cpp", "#include <fstream>\nint main(int, char** words) { std::ofstream(WORDS) << words[1]; }\n"
              .replace("WORDS", f'"{self.root}/words"'))
        write(self.root / "tests/memopt/a_test.cpp", "TEST(Cuts, are_few) {}\nTEST_P(Bytes, are_many) {}\n")
        run("cmake", "-G", "Ninja", "-S", self.root, "-B", self.root / "build")
        program = self.root / "build/bin/memopt_test"
        upkeep(self.root, "--edit", "memopt/a.cpp", "--build", "build")
        before = program.stat().st_mtime_ns
        said = upkeep(self.root, "--edit", "memopt/a.cpp", "--build", "build")
        self.assertGreater(program.stat().st_mtime_ns, before)
        self.assertEqual((self.root / "words").read_text(), "--gtest_filter=*Cuts.*:*Bytes.*")
        self.assertRegex(said, r"^memopt/a.cpp: built in .* s, memopt_test \(\*Cuts.*ran for .* s to the verdict\n$")


if __name__ == "__main__":
    unittest.main()
