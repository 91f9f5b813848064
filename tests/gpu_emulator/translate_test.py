#!/usr/bin/env python3
"""translate.py keeps lines, and refuses what it does not know, with its line. Usage: translate_test.py"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TRANSLATE = pathlib.Path(__file__).with_name("translate.py")


def run(text: str) -> tuple[int, str, str]:
    """Exit code, what is written (absent: empty), what is said."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "a.cu", pathlib.Path(folder) / "out" / "a.cpp"
        source.write_text(text)
        done = subprocess.run([sys.executable, TRANSLATE, source, out], capture_output=True, text=True, check=False)
        return done.returncode, out.read_text() if out.exists() else "", done.stderr


class Translate(unittest.TestCase):
    def test_a_launch_becomes_a_call_and_lines_keep_their_numbers(self):
        code, out, _ = run("void f() {\n  kernel<A, 4>\n      <<<n(a, b), 256, 0,\n         stream>>>(x,\n y);\n  g();\n}\n")
        self.assertEqual(code, 0)
        self.assertIn("launch(n(a, b), 256, 0, stream, [&] { kernel<A, 4>(x,\n y); });", out)
        self.assertEqual(out.splitlines()[6].strip(), "g();", out)

    def test_shared_memory_becomes_static_and_begins_anew(self):
        code, out, _ = run("__shared__ float a[2 * n][3];\n")
        self.assertEqual(code, 0)
        self.assertIn("static float a[2 * n][3]; ::noisemark::test::gpu::begin_shared(&a, sizeof(a));", out)

    def test_a_launch_without_its_stream_is_refused_with_its_line(self):
        code, out, said = run("void f() {\n\n  kernel<<<1, 2>>>(x);\n}\n")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("a.cu:3: a launch that is not", said)

    def test_words_that_are_not_known_are_refused(self):
        for text in ("extern __shared__ float a[];", "__constant__ int a;", "auto f = &kernel<<<;"):
            code, out, said = run(text)
            self.assertEqual((code, out), (1, ""), text)
            self.assertIn("a.cu:1: ", said)

    def test_words_missing_are_answered_with_the_usage(self):
        self.assertEqual(subprocess.run([sys.executable, TRANSLATE], capture_output=True, check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main()
