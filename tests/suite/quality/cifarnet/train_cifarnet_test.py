"""The trainer of the small extractor, on a few random images. The network that is shipped is tested in C++."""

import contextlib
import io
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests" / "parity"))
sys.path.insert(0, str(ROOT / "suite" / "quality" / "cifarnet"))

import peers_required  # noqa: E402

try:
    import numpy
    import torch
    import train_cifarnet
    from safetensors.torch import load_file
except ImportError as missing:
    peers_required.cannot_import(missing)

FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
SHIPPED = ROOT / "suite" / "quality" / "cifarnet" / "cifarnet-v1.safetensors"


def record_of(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    return json.loads(json.loads(data[8:8 + length])["__metadata__"]["cifarnet"])


def features_of_check_picture(weights):
    """By the folded convolutions, in float64."""
    x = (37 * torch.arange(3 * 32 * 32) % 251).double().view(1, 3, 32, 32) / 127.5 - 1
    found = []
    for index, (_, stride, tapped) in enumerate(train_cifarnet.LAYERS):
        weight, bias = (weights[f"{index}.{name}"].double() for name in ("weight", "bias"))
        x = torch.nn.functional.conv2d(x, weight, bias, stride, 1).relu()
        if tapped:
            found.append(x.mean((2, 3)))
    return torch.cat(found, 1)[0]


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        pictures = cls.folder / "cifar-10-batches-bin"
        pictures.mkdir()
        generator = numpy.random.RandomState(0)
        for name in FILES:
            records = generator.randint(0, 256, (24, train_cifarnet.RECORD_BYTES)).astype(numpy.uint8)
            records[:, 0] %= train_cifarnet.CLASSES
            (pictures / name).write_bytes(records.tobytes())

    def arguments(self, out, *options):
        return ["--data", str(self.folder), "--out", str(out), "--epochs", "1", "--batch", "32", *options]

    def train(self, name, *options):
        out = self.folder / name
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(train_cifarnet.main(self.arguments(out, *options)), 0)
        return out

    def test_gives_the_same_bytes_again_and_others_for_another_seed(self):
        first = self.train("first.safetensors").read_bytes()
        again = self.folder / "again.safetensors"
        subprocess.run([sys.executable, "-B", train_cifarnet.__file__, *self.arguments(again)], check=True,
                       capture_output=True)
        self.assertEqual(again.read_bytes(), first)
        self.assertNotEqual(self.train("other.safetensors", "--seed", "1").read_bytes(), first)

    def test_folds_the_norms_without_changing_the_features(self):
        path = self.train("folded.safetensors")
        recorded = torch.tensor(record_of(path)["check_features"], dtype=torch.float64)
        # float32 features of the size of 1
        self.assertLess((features_of_check_picture(load_file(path)) - recorded).abs().max().item(), 1e-4)
        self.assertGreater(recorded.std().item(), 1e-3)

    def test_was_what_made_the_shipped_weights(self):
        self.assertEqual({name: list(tensor.shape) for name, tensor in load_file(SHIPPED).items()},
                         {name: list(tensor.shape) for name, tensor in train_cifarnet.Network().folded().items()})
        self.assertEqual(set(record_of(SHIPPED)), set(record_of(self.train("record.safetensors"))))


if __name__ == "__main__":
    unittest.main(verbosity=2)
