"""Holds what the parity scripts share: the peers themselves, our side behind `noisemark_parity_probe`,
and the comparisons. A script gets the probe's path as its first argument, then unittest's own, and
ends with exit code 77 where the peers cannot be imported (1 where they are required). This file runs
several scripts, named behind the probe, in one process: importing the peers takes six seconds."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import peers_required

try:
    import torch
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet
    from diffusers import UNet2DModel
    from diffusers.utils import logging as diffusers_logging
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as missing:
    peers_required.cannot_import(missing)

diffusers_logging.set_verbosity_error()
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

LUCID_SMALL = {
    "name": "lucid-unet", "dim": 16, "dim_mults": [1, 2], "channels": 1, "resolution": 16,
}
LUCID_OTHER = {
    "name": "lucid-unet", "dim": 48, "dim_mults": [1, 3, 2], "channels": 3, "resolution": 16,
    "attn_heads": 2, "attn_dim_head": 16,
}
LUCID_LOCKED = {
    "name": "lucid-unet", "dim": 64, "dim_mults": [1, 2, 4, 8], "channels": 3, "resolution": 32,
}
HO_SMALL = {
    "name": "ho-unet", "dim": 32, "dim_mults": [1, 2], "channels": 1, "resolution": 16,
    "groups": 8, "attention_resolutions": [8],
}
HO_OTHER = {
    "name": "ho-unet", "dim": 48, "dim_mults": [2, 1, 3], "channels": 3, "resolution": 16,
    "groups": 16, "attention_resolutions": [16, 4], "res_blocks": 1, "activation": "relu",
}
HO_LOCKED = {
    "name": "ho-unet", "dim": 128, "dim_mults": [1, 2, 2, 2], "channels": 3, "resolution": 32,
    "groups": 32, "attention_resolutions": [16],
}

OBJECTIVES = {"eps": "pred_noise", "x0": "pred_x0", "v": "pred_v"}


class HoPeer(UNet2DModel):
    """`UNet2DModel`, called the way GaussianDiffusion calls its network."""

    channels = property(lambda self: self.config.in_channels)
    out_dim = property(lambda self: self.config.out_channels)
    self_condition = False

    def forward(self, x, time, x_self_cond=None):
        return super().forward(x, time).sample


def make_lucid(config):
    return Unet(
        dim=config["dim"], dim_mults=tuple(config["dim_mults"]), channels=config["channels"],
        dropout=config.get("dropout", 0.0), attn_heads=config.get("attn_heads", 4),
        attn_dim_head=config.get("attn_dim_head", 32),
    )


def make_ho(config):
    stages = range(len(config["dim_mults"]))
    attends = [config["resolution"] >> i in config["attention_resolutions"] for i in stages]
    return HoPeer(
        sample_size=config["resolution"], in_channels=config["channels"],
        out_channels=config["channels"],
        block_out_channels=tuple(config["dim"] * mult for mult in config["dim_mults"]),
        down_block_types=tuple("AttnDownBlock2D" if a else "DownBlock2D" for a in attends),
        up_block_types=tuple("AttnUpBlock2D" if a else "UpBlock2D" for a in reversed(attends)),
        layers_per_block=config.get("res_blocks", 2), norm_num_groups=config["groups"],
        dropout=config.get("dropout", 0.0), act_fn=config.get("activation", "silu"),
        # the configuration of google/ddpm-cifar10-32
        attention_head_dim=None, downsample_padding=0, flip_sin_to_cos=False, freq_shift=1,
        norm_eps=1e-6, time_embedding_type="positional", mid_block_scale_factor=1,
    )


def make_peer(config, seed=0):
    torch.manual_seed(seed)
    return make_lucid(config) if config["name"] == "lucid-unet" else make_ho(config)


def perturb(model, seed=1):
    """Moves every parameter, so that no norm keeps the weights 1 and 0 that hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return model


class DefaultDtype:
    """The lucidrains network takes its time embedding's type from the default type."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __enter__(self):
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *_):
        torch.set_default_dtype(self.before)


def diffusion_of(model, config, image_size, **sampling):
    """The peer's process around `model`, with the settings of its sampler. Build it under float32:
    the sigmoid depends on it."""
    return GaussianDiffusion(
        model, image_size=image_size, timesteps=config.get("timesteps", 1000),
        beta_schedule=config.get("schedule", "linear"),
        objective=OBJECTIVES[config.get("objective", "eps")],
        min_snr_loss_weight=config.get("min_snr", False), auto_normalize=False, **sampling,
    )


def with_prefix(prefix, tensors):
    return {prefix + name: tensor for name, tensor in tensors.items()}


def without_prefix(prefix, tensors):
    return {n[len(prefix):]: t for n, t in tensors.items() if n.startswith(prefix)}


def read_in_order(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.offset_keys()}


def probe(command, tensors=None, read=read_in_order, **request):
    """Our side of `command`: name -> tensor, in the order in which it was written. `read` gets the
    path of the file that we wrote."""
    with tempfile.TemporaryDirectory() as folder:
        request |= {"command": command, "out": os.path.join(folder, "reply.safetensors")}
        if tensors is not None:
            request["in"] = os.path.join(folder, "request.safetensors")
            save_file({n: t.detach().contiguous() for n, t in tensors.items()}, request["in"])
        subprocess.run([PROBE, json.dumps(request)], check=True)
        return read(request["out"])


def largest(tensor):
    return tensor.abs().max().item()


class ParityTest(unittest.TestCase):
    def assert_relative(self, ours, peers, bound, what):
        """Largest difference at most `bound` times the peer's largest value."""
        self.assertEqual(ours.shape, peers.shape, what)
        self.assertEqual(ours.dtype, peers.dtype, what)
        difference = largest(ours - peers)
        self.assertLessEqual(difference, bound * largest(peers), what)
        return difference / largest(peers)

    def assert_relative_l2(self, ours, peers, bound, what):
        self.assertEqual(ours.shape, peers.shape, what)
        error = ((ours - peers).norm() / peers.norm()).item()
        self.assertLessEqual(error, bound, what)
        return error

    def assert_same_bits(self, ours, peers, what):
        self.assertEqual(ours.dtype, peers.dtype, what)
        self.assertTrue(torch.equal(ours, peers), f"{what}: not bitwise equal")


def main(module="__main__"):
    global PROBE
    PROBE = os.path.abspath(sys.argv.pop(1))
    unittest.main(module=module, verbosity=2)


if __name__ == "__main__":
    import parity  # the module whose PROBE the scripts read

    parity.main(module=None)
