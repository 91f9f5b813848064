"""The Inception networks of pytorch-fid and torch-fidelity, with weights from a file instead of a download."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytorch_fid.inception
import torch
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

TAPS = ("64", "192", "768", "2048", "logits")

Features = dict[str, torch.Tensor]
Extractor = Callable[[torch.Tensor], Features]


def random_state(seed: int = 0) -> Features:
    """A state dict of FID's network whose features are of the size of one, in every layer: He et al.'s
    scale for the kernels, norms that are neither 1 nor 0 (those hide mistakes)."""
    from torchvision.models import inception_v3

    with torch.device("meta"):
        shapes = inception_v3(num_classes=1008, aux_logits=False, init_weights=False).state_dict()
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, tensor in shapes.items():
        normal = torch.randn(tensor.shape, generator=generator)
        if name.endswith("num_batches_tracked"):
            state[name] = torch.zeros((), dtype=torch.int64)
        elif name.endswith(("conv.weight", "fc.weight")):
            state[name] = normal * (2 / tensor[0].numel()) ** 0.5
        elif name.endswith(("bn.weight", "bn.running_var")):
            state[name] = (1 + 0.2 * normal).abs().clamp_min(0.2)
        else:
            state[name] = 0.2 * normal
    return state


def torch_fidelity_extractor(weights: Path, taps: tuple[str, ...] = TAPS) -> Extractor:
    """uint8 images [N, 3, H, W] -> features by tap."""
    names = {tap: "logits_unbiased" if tap == "logits" else tap for tap in taps}
    network = FeatureExtractorInceptionV3(
        "inception-v3-compat", list(names.values()), feature_extractor_weights_path=str(weights)
    )

    def extract(pictures: torch.Tensor) -> Features:
        with torch.no_grad():
            return dict(zip(names, network(pictures)))

    return extract


def pytorch_fid_extractor(weights: Path, taps: tuple[str, ...] = TAPS[:4]) -> Extractor:
    """uint8 images [N, 3, H, W] -> features by tap. The peer has no logits. Images become
    floats as its own data set makes them, maps become features as its own driver averages them."""
    state = torch.load(weights, weights_only=True)
    blocks = [pytorch_fid.inception.InceptionV3.BLOCK_INDEX_BY_DIM[int(tap)] for tap in taps]
    with (mock.patch.object(pytorch_fid.inception, "load_state_dict_from_url", lambda *_, **__: state),
          contextlib.redirect_stdout(sys.stderr)):
        network = pytorch_fid.inception.InceptionV3(blocks).eval()

    def extract(pictures: torch.Tensor) -> Features:
        with torch.no_grad():
            maps = network(pictures.to(torch.float32).div(255))
            return {tap: torch.nn.functional.adaptive_avg_pool2d(found, (1, 1)).flatten(1)
                    for tap, found in zip(taps, maps)}

    return extract


PEERS = {"torch-fidelity": torch_fidelity_extractor, "pytorch-fid": pytorch_fid_extractor}
