"""Builds the peers' own networks and training loss for a definition, and checkpoints their blocks."""

from functools import partial

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet
from denoising_diffusion_pytorch.denoising_diffusion_pytorch import (
    Attention as LucidAttention,
)
from denoising_diffusion_pytorch.denoising_diffusion_pytorch import LinearAttention, ResnetBlock
from diffusers import UNet2DModel
from diffusers.models.attention_processor import Attention as HoAttention
from diffusers.models.resnet import ResnetBlock2D
from torch import nn
from torch.utils.checkpoint import checkpoint

from definition import Definition
from endings import CannotRunHere

_OBJECTIVES = {"eps": "pred_noise", "x0": "pred_x0", "v": "pred_v"}
_HO_EPS = 1e-6
_BLOCKS = (ResnetBlock, LinearAttention, LucidAttention, ResnetBlock2D, HoAttention)


class HoUnet(nn.Module):
    """diffusers' UNet2DModel behind the interface that GaussianDiffusion asks of a network."""

    self_condition = False

    def __init__(self, unet: UNet2DModel) -> None:
        super().__init__()
        self.unet = unet
        self.channels = unet.config.in_channels
        self.out_dim = unet.config.out_channels

    def forward(
        self, x: torch.Tensor, time: torch.Tensor, x_self_cond: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.unet(x, time).sample


def _lucid_unet(definition: Definition) -> Unet:
    model = definition["model"]
    return Unet(
        dim=model["dim"],
        dim_mults=tuple(model["dim_mults"]),
        channels=model["channels"],
        dropout=model["dropout"],
        attn_heads=model["attn_heads"],
        attn_dim_head=model["attn_dim_head"],
    )


def _ho_unet(definition: Definition) -> HoUnet:
    model = definition["model"]
    if model["downsample"] != "conv":
        raise CannotRunHere(f"{definition.name}: no peer has model.downsample = {model['downsample']}")
    stages = range(len(model["dim_mults"]))
    attends = [model["resolution"] >> i in model["attention_resolutions"] for i in stages]
    unet = UNet2DModel(
        sample_size=model["resolution"],
        in_channels=model["channels"],
        out_channels=model["channels"],
        block_out_channels=tuple(model["dim"] * mult for mult in model["dim_mults"]),
        layers_per_block=model["res_blocks"],
        down_block_types=tuple("AttnDownBlock2D" if a else "DownBlock2D" for a in attends),
        up_block_types=tuple("AttnUpBlock2D" if a else "UpBlock2D" for a in reversed(attends)),
        dropout=model["dropout"],
        act_fn=model["activation"],
        attention_head_dim=None,  # one head
        norm_num_groups=model["groups"],
        norm_eps=_HO_EPS,
        downsample_padding=0,
        flip_sin_to_cos=False,
        freq_shift=1,
    )
    return HoUnet(unet)


def build_network(definition: Definition) -> nn.Module:
    """The network with its initial weights, in training mode."""
    build = {"lucid-unet": _lucid_unet, "ho-unet": _ho_unet}[definition["model"]["name"]]
    return build(definition).train()


def checkpoint_blocks(network: nn.Module) -> int:
    """Puts torch.utils.checkpoint around every residual and attention block: each keeps its inputs only and runs again
    in backward, with the random numbers of its first run. Returns the number of blocks. A copy of the network
    would run the blocks of this one, so average and compile before."""
    blocks = [module for module in network.modules() if isinstance(module, _BLOCKS)]
    for block in blocks:
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False, preserve_rng_state=True
        )
    return len(blocks)


def build_loss(
    definition: Definition, network: nn.Module, **sampling: float
) -> GaussianDiffusion:
    """Called with images in [0, 1] it draws timesteps and noise and gives the training loss. Its
    sample() takes the settings in `sampling`."""
    diffusion = definition["diffusion"]
    return GaussianDiffusion(
        network,
        image_size=definition["model"]["resolution"],
        timesteps=diffusion["timesteps"],
        objective=_OBJECTIVES[diffusion["objective"]],
        beta_schedule=diffusion["schedule"],
        min_snr_loss_weight=diffusion["min_snr"],
        min_snr_gamma=diffusion.get("min_snr_gamma", 5),
        **sampling,
    )
