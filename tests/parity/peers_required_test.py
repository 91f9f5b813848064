"""Every test that skips where Python lacks what it compares with fails there under NOISEMARK_REQUIRE=peers."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# The tests import these of other people's, the first of each kind.
BROKEN = ("numpy", "pytorch_fid", "torch", "yaml")


def ends_with(script: Path, folder: str, required: str) -> tuple[int, str]:
    """Exit code and output where each of BROKEN is there and cannot be imported."""
    environment = {**os.environ, "PYTHONPATH": folder, "NOISEMARK_REQUIRE": required, "NOISEMARK_PROGRAM": "none"}
    done = subprocess.run([sys.executable, "-B", script, "none", "none"], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def asking() -> list[Path]:
    files = [file for file in sorted(TESTS.rglob("*.py")) if not file.name.startswith("peers_required")]
    return [file for file in files if "peers_required.cannot_import(" in file.read_text()]


class PeersRequired(unittest.TestCase):
    def test_what_cannot_be_imported_is_skipped_unless_it_is_required(self):
        scripts = asking()
        self.assertGreaterEqual(len(scripts), 8, scripts)
        with tempfile.TemporaryDirectory() as folder:
            for module in BROKEN:
                Path(folder, f"{module}.py").write_text(f"raise ImportError('{module} was broken by hand')\n")
            for script in scripts:
                for required, expected in (("", 77), ("cuda", 77), ("peers", 1), ("cuda,peers", 1)):
                    with self.subTest(script=script.name, required=required):
                        code, output = ends_with(script, folder, required)
                        self.assertEqual(code, expected, output)
                        self.assertRegex(output, f"({'|'.join(BROKEN)}) was broken by hand")

    def test_pages_are_not_opened_without_a_browser_unless_it_is_required(self):
        for required, expected in (("", 77), ("peers", 77), ("browser", 1), ("peers,browser", 1)):
            with self.subTest(required=required):
                environment = {**os.environ, "PATH": "/nowhere", "NOISEMARK_REQUIRE": required}
                done = subprocess.run([sys.executable, "-B", TESTS / "reports/html/browser_test.py", "none", "none"],
                                      env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(done.returncode, expected, done.stdout)
                self.assertIn("no Chromium is installed", done.stdout)

    def test_no_test_leaves_with_77_by_another_way(self):
        for file in sorted(TESTS.rglob("*.py")):
            if file.name != "peers_required.py":
                self.assertNotRegex(file.read_text(), r"\bexit\(77\)", file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
