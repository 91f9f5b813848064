"""The Inception network of FID beside both peers': the same random weights, the same images.

Weights come to the peers as their own .pth file and to us through the converter. Features are of the
size of one (inception_peers.random_state), so that the bounds below are of their size too. Both peers
and Noisemark compute in float32; the order of sums differs, and our batch norms are folded."""

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import parity
import peers_required
import torch
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "baselines" / "peers"))

try:
    import convert_inception
    import inception_peers
    from torch_fidelity.interpolate_compat_tensorflow import interpolate_bilinear_2d_like_tensorflow1x
except ImportError as missing:
    peers_required.cannot_import(missing)

# The project's own bound for features (absolute).
BOUND = 1e-4
RESIZE = {"torch-fidelity": "tf1-bilinear", "pytorch-fid": "bilinear"}


def pictures(count, height, width, seed=3):
    """Noise that is smooth in half of the images, and black and white at the edges of the range."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand((count, 3, height, width), generator=generator)
    values[::2] = torch.nn.functional.avg_pool2d(values[::2], 5, 1, 2)
    return (values * 320 - 32).clamp(0, 255).round().to(torch.uint8)


class Inception(parity.ParityTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.state = inception_peers.random_state()
        cls.peers_file = Path(cls.folder, "random.pth")
        cls.our_file = Path(cls.folder, "random.safetensors")
        torch.save(cls.state, cls.peers_file)
        convert_inception.convert(cls.peers_file, cls.our_file)

    def ours(self, images, resize, taps, weights=None):
        return parity.probe("features", {"pictures": images}, weights=str(weights or self.our_file),
                            resize=resize, taps=list(taps), batch=2)

    def worst(self, ours, peers):
        return {tap: parity.largest(ours[tap] - found) for tap, found in peers.items()}

    def compare(self, peer, taps, images):
        peers = inception_peers.PEERS[peer](self.peers_file, taps)(images)
        ours = self.ours(images, RESIZE[peer], taps)
        for tap, error in self.worst(ours, peers).items():
            with self.subTest(peer=peer, tap=tap):
                self.assertEqual(ours[tap].shape, peers[tap].shape)
                self.assertLessEqual(error, BOUND)
                # features that vanished or exploded would prove nothing
                self.assertGreater(peers[tap].std().item(), 0.05)
                self.assertLess(parity.largest(peers[tap]), 50)
                print(f"{peer} {tap}: {error:.1e} of {parity.largest(peers[tap]):.2g}")

    def test_features_are_within_1e_4_of_torch_fidelity(self):
        self.compare("torch-fidelity", inception_peers.TAPS, pictures(3, 32, 32))

    def test_features_are_within_1e_4_of_pytorch_fid(self):
        self.compare("pytorch-fid", inception_peers.TAPS[:4], pictures(3, 32, 32))

    def test_larger_pictures_that_are_not_square(self):
        images = pictures(1, 352, 331)
        self.compare("torch-fidelity", ("2048",), images)
        self.compare("pytorch-fid", ("2048",), images)

    def test_the_other_resize_is_noticed(self):
        images = pictures(2, 32, 32)
        peers = inception_peers.torch_fidelity_extractor(self.peers_file, ("2048",))(images)
        ours = self.ours(images, "bilinear", ("2048",))
        self.assertGreater(self.worst(ours, peers)["2048"], BOUND)

    def test_one_other_norm_is_noticed(self):
        name = "Mixed_6c.branch7x7dbl_4.bn.running_var"
        changed = Path(self.folder, "changed.pth")
        torch.save(self.state | {name: self.state[name] * 1.01}, changed)
        images = pictures(2, 32, 32)
        peers = inception_peers.torch_fidelity_extractor(changed, ("2048",))(images)
        ours = self.ours(images, "tf1-bilinear", ("2048",))
        self.assertGreater(self.worst(ours, peers)["2048"], BOUND)


class Input(parity.ParityTest):
    def ours(self, images, resize):
        return parity.probe("input", {"pictures": images}, resize=resize)["input"]

    def test_has_the_bits_of_torch_fidelity(self):
        for height, width in ((32, 32), (1, 7), (299, 299), (400, 310)):
            with self.subTest(height=height, width=width):
                images = pictures(2, height, width)
                resized = interpolate_bilinear_2d_like_tensorflow1x(
                    images.to(torch.float32), size=(299, 299), align_corners=False)
                self.assert_same_bits(self.ours(images, "tf1-bilinear"), (resized - 128) / 128, "tf1-bilinear")

    def test_has_the_bits_of_pytorch_fid(self):
        for height, width in ((32, 32), (1, 7), (299, 299), (400, 310)):
            with self.subTest(height=height, width=width):
                images = pictures(2, height, width)
                resized = torch.nn.functional.interpolate(
                    images.to(torch.float32).div(255), size=(299, 299), mode="bilinear",
                    align_corners=False)
                self.assert_same_bits(self.ours(images, "bilinear"), 2 * resized - 1, "bilinear")

    def test_a_gray_picture_is_repeated(self):
        gray = pictures(2, 32, 32)[:, :1]
        for resize in RESIZE.values():
            self.assert_same_bits(self.ours(gray, resize), self.ours(gray.repeat(1, 3, 1, 1), resize),
                                  resize)


class Converter(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.source = self.folder / "weights.pth"
        self.target = self.folder / "weights.safetensors"

    def convert(self, source=None):
        """Exit code and what was said."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = convert_inception.main([str(source or self.source), str(self.target)])
        return code, said.getvalue()

    def run_on(self, state, source=None):
        torch.save(state, source or self.source)
        return self.convert(source)

    def assert_refused(self, done, *words):
        code, said = done
        self.assertEqual(code, 2, said)
        for word in words:
            self.assertIn(word, said)
        self.assertFalse(self.target.exists())

    def test_keeps_every_bit_and_records_what_it_was_made_of(self):
        state = inception_peers.random_state(1)
        torch.save(state, self.source)
        command = [sys.executable, "-B", convert_inception.__file__, self.source, self.target]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("will not be called FID", done.stdout)
        with safe_open(self.target, "pt") as file:
            kept = {name for name in state if not name.endswith("num_batches_tracked")}
            self.assertEqual(set(file.keys()), kept)
            for name in kept:
                self.assertTrue(torch.equal(file.get_tensor(name), state[name]), name)
            digest = hashlib.sha256(self.source.read_bytes()).hexdigest()
            self.assertEqual(file.metadata()["source_sha256"], digest)
        self.assertEqual([file.name for file in self.folder.iterdir() if file.name.startswith(".")], [])

    def test_takes_a_file_of_the_older_format_without_counters(self):
        state = {name: tensor for name, tensor in inception_peers.random_state(2).items()
                 if not name.endswith("num_batches_tracked")}
        torch.save(state, self.source, _use_new_zipfile_serialization=False)
        convert_inception.convert(self.source, self.target)
        self.assertTrue(self.target.exists())

    def test_names_what_is_missing_unexpected_and_misshapen(self):
        state = inception_peers.random_state()
        state["fc.extra"] = state.pop("fc.bias")
        state["Conv2d_1a_3x3.bn.bias"] = torch.zeros(31)
        state["Conv2d_3b_1x1.bn.bias"] = torch.zeros(80, dtype=torch.float64)
        self.assert_refused(self.run_on(state), "missing fc.bias", "unexpected fc.extra", "not float32 Conv2d_3b",
                            "misshapen Conv2d_1a_3x3.bn.bias [31] instead of [32]")

    def test_refuses_half_a_download(self):
        source = self.folder / "pt_inception-2015-12-05-6726825d.pth"
        self.assert_refused(self.run_on(inception_peers.random_state(), source), "6726825d0af5f729", "not downloaded")

    def test_refuses_what_is_no_state_dict(self):
        self.assert_refused(self.run_on([1, 2]), "not a state dict")
        self.source.write_bytes(b"no pickle")
        self.assert_refused(self.convert(), "not a PyTorch file")
        self.source.unlink()
        self.assert_refused(self.convert(), "no such file")


class Weights(unittest.TestCase):
    """Holds what our reader says of a file that the converter did not make so."""

    def refusal(self, path):
        request = {"command": "features", "weights": str(path), "resize": "tf1-bilinear", "taps": [], "in": "", "out": ""}
        done = subprocess.run([parity.PROBE, json.dumps(request)], capture_output=True, text=True)
        return done.returncode, done.stderr

    def test_a_pth_file_is_sent_to_the_converter(self):
        with tempfile.NamedTemporaryFile(suffix=".pth") as file:
            code, words = self.refusal(file.name)
        self.assertEqual(code, 2)
        self.assertIn("convert_inception.py", words)


if __name__ == "__main__":
    parity.main()
