"""From images to FID, KID and Inception score, both peers' own drivers beside ours. Random weights.

The first tap has 64 features, so that few pictures give covariances of full rank: of fewer, what the
peers' square roots make of rounding is larger than the bound."""

import contextlib
import io
import sys
import tempfile
import unittest.mock
from pathlib import Path

import parity
import peers_required
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "baselines" / "peers"))

try:
    import convert_inception
    import inception_peers
    import pytorch_fid.fid_score
    import torch_fidelity
except ImportError as missing:
    peers_required.cannot_import(missing)

COUNT = 80
BATCH = 4  # whose maps are small enough for an allocator to keep their memory
SUBSETS = {"kid_subsets": 20, "kid_subset_size": 40}
SPLITS = 3


def pictures(count, seed, contrast):
    generator = torch.Generator().manual_seed(seed)
    colours = torch.rand((count, 3, 1, 1), generator=generator)
    values = colours + contrast * torch.randn((count, 3, 32, 32), generator=generator)
    return (values * 255).clamp(0, 255).round().to(torch.uint8)


class Pictures(torch.utils.data.Dataset):
    """As torch-fidelity takes them."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


class Scores(parity.ParityTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.peers_file = cls.folder / "random.pth"
        cls.our_file = cls.folder / "random.safetensors"
        torch.save(inception_peers.random_state(), cls.peers_file)
        convert_inception.convert(cls.peers_file, cls.our_file)
        cls.a = pictures(COUNT, 1, 0.1)
        cls.b = pictures(COUNT + 4, 2, 0.15)
        cls.answers = {}

    def ours(self, command, images, resize, **request):
        reply = parity.probe(command, images, weights=str(self.our_file), resize=resize, batch=BATCH,
                             **request)
        return {name: value.item() for name, value in reply.items()}

    def our_distances(self, resize):
        if resize not in self.answers:
            images = {"a": self.a, "b": self.b}
            self.answers[resize] = self.ours("distances", images, resize, taps=["64"], **SUBSETS)
        return self.answers[resize]

    def torch_fidelitys(self, a, b=None, **scores):
        return torch_fidelity.calculate_metrics(
            input1=Pictures(a), input2=None if b is None else Pictures(b), cuda=False, batch_size=BATCH,
            feature_extractor_weights_path=str(self.peers_file), feature_layer_fid="64",
            feature_layer_kid="64", isc_splits=SPLITS, save_cpu_ram=True, cache=False, verbose=False,
            **SUBSETS, **scores)

    def test_fid_and_kid_are_torch_fidelitys(self):
        peers = self.torch_fidelitys(self.a, self.b, fid=True, kid=True)
        ours = self.our_distances("tf1-bilinear")
        fid = peers["frechet_inception_distance"]
        print(f"FID {fid:.6g}: {abs(ours['fid'] - fid):.1e}; KID: "
              f"{abs(ours['kid_mean'] - peers['kernel_inception_distance_mean']):.1e}")
        self.assertGreater(fid, 0.01)
        self.assertAlmostEqual(ours["fid"], fid, delta=1e-4)
        self.assertAlmostEqual(ours["kid_mean"], peers["kernel_inception_distance_mean"], delta=1e-6)
        self.assertAlmostEqual(ours["kid_std"], peers["kernel_inception_distance_std"], delta=1e-6)

    def test_inception_score_is_torch_fidelitys(self):
        few = self.a[:12]
        peers = self.torch_fidelitys(few, isc=True)
        ours = self.ours("inception-score", {"a": few}, "tf1-bilinear", isc_splits=SPLITS)
        print(f"Inception score {peers['inception_score_mean']:.6g}: "
              f"{abs(ours['mean'] - peers['inception_score_mean']):.1e}")
        self.assertGreater(peers["inception_score_mean"], 1.001)
        self.assertAlmostEqual(ours["mean"], peers["inception_score_mean"], delta=1e-4)
        self.assertAlmostEqual(ours["standard_deviation"], peers["inception_score_std"], delta=1e-4)

    def pytorch_fids(self):
        for name, images in (("a", self.a), ("b", self.b)):
            (self.folder / name).mkdir()
            for index, image in enumerate(images):
                array = image.permute(1, 2, 0).contiguous().numpy()
                Image.fromarray(array).save(self.folder / name / f"{index:04}.png")
        state = torch.load(self.peers_file, weights_only=True)
        with (unittest.mock.patch("pytorch_fid.inception.load_state_dict_from_url", lambda *_, **__: state),
              contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())):
            return pytorch_fid.fid_score.calculate_fid_given_paths(
                [str(self.folder / "a"), str(self.folder / "b")], BATCH, "cpu", 64, num_workers=0)

    def test_fid_is_pytorch_fids(self):
        peers = self.pytorch_fids()
        ours = self.our_distances("bilinear")["fid"]
        other = self.our_distances("tf1-bilinear")["fid"]
        print(f"FID {peers:.6g}: {abs(ours - peers):.1e}; with the other resize {abs(other - peers):.1e}")
        self.assertAlmostEqual(ours, peers, delta=1e-4)
        self.assertGreater(abs(other - peers), 1e-4)


if __name__ == "__main__":
    parity.main()
