"""Our .npy and .npz beside the real NumPy: each opens the other's files, and ours have NumPy's bytes.

The first argument is noisemark_npy_probe. Exit code 77 where Python has no NumPy (1 where it must)."""

import io
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "parity"))

import peers_required

try:
    import numpy as np
except ImportError as missing:
    peers_required.cannot_import(missing)

PROBE = ""
TYPES = (np.float64, np.float32, np.int64, np.uint8)
SHAPES = ((), (1,), (7,), (3, 4), (2, 3, 5), (0, 3), (1, 1, 1, 1))


def arrays():
    rng = np.random.default_rng(0)
    for dtype in TYPES:
        for shape in SHAPES:
            yield np.abs(rng.standard_normal(shape) * 50).astype(dtype).reshape(shape)


class Numpy(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def convert(self, *names):
        """Our reader and writer on files of these names, in one process; what they make is out-NAME."""
        words = [word for name in names for word in (self.folder / name, self.folder / ("out-" + name))]
        return subprocess.run([PROBE, *words], capture_output=True, text=True,
                              errors="backslashreplace")  # a reason may quote damaged bytes

    def through(self, name):
        done = self.convert(name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / ("out-" + name)

    def test_an_array_comes_back_with_numpys_own_bytes(self):
        given = {f"{i}.npy": array for i, array in enumerate(arrays())}
        for name, array in given.items():
            np.save(self.folder / name, array)
        done = self.convert(*given)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, array in given.items():
            with self.subTest(dtype=array.dtype, shape=array.shape):
                out = self.folder / ("out-" + name)
                np.testing.assert_array_equal(np.load(out), array)
                self.assertEqual(out.read_bytes(), (self.folder / name).read_bytes())

    def test_fortran_order_comes_back_in_row_major_order(self):
        for shape in ((3, 4), (2, 3, 5)):
            array = np.asfortranarray(np.arange(np.prod(shape), dtype=np.float64).reshape(shape))
            np.save(self.folder / "a.npy", array)
            self.assertIn(b"'fortran_order': True", (self.folder / "a.npy").read_bytes())
            np.testing.assert_array_equal(np.load(self.through("a.npy")), array)

    def test_later_versions_of_the_format_are_read(self):
        array = np.arange(12.0).reshape(3, 4)
        for version in ((2, 0), (3, 0)):
            with open(self.folder / "a.npy", "wb") as file:
                np.lib.format.write_array(file, array, version=version)
            np.testing.assert_array_equal(np.load(self.through("a.npy")), array)

    def test_archives_come_back_stored_and_deflated(self):
        given = {f"array {i}": array for i, array in enumerate(arrays())}
        for save in (np.savez, np.savez_compressed):
            save(self.folder / "a.npz", **given)
            with np.load(self.through("a.npz")) as found:
                self.assertEqual(list(found), list(given))
                for name, array in given.items():
                    np.testing.assert_array_equal(found[name], array)
                    self.assertEqual(found[name].dtype, array.dtype)

    def test_what_python_objects_are_made_of_is_refused(self):
        np.save(self.folder / "a.npy", np.array([{"a": 1}, None]), allow_pickle=True)
        done = self.convert("a.npy")
        self.assertEqual(done.returncode, 2)
        self.assertIn("element type '|O'", done.stderr)

    def test_no_damaged_file_ends_the_program_otherwise_than_with_a_reason(self):
        rng = random.Random(0)
        compressed = io.BytesIO()
        np.savez_compressed(compressed, mu=np.arange(64.0), sigma=np.eye(8))
        single = io.BytesIO()
        np.save(single, np.arange(20.0))
        names = []
        for kind, whole in ((".npz", compressed.getvalue()), (".npy", single.getvalue())):
            for i in range(200):
                damaged = bytearray(whole[:rng.randrange(len(whole))] if rng.random() < 0.3 else whole)
                for _ in range(rng.randrange(1, 4)):
                    if damaged:
                        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                names.append(f"damaged-{i}{kind}")
                (self.folder / names[-1]).write_bytes(damaged)
        done = self.convert(*names)
        self.assertEqual(done.returncode, 2, done.stderr)
        refused = 0
        for name in names:
            reason = f"{self.folder / name}: " in done.stderr
            refused += reason
            self.assertNotEqual((self.folder / ("out-" + name)).exists(), reason, name)
        self.assertGreater(refused, len(names) // 2)


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main(verbosity=2)
