"""torch.utils.checkpoint around every residual and attention block of the peers."""

from functools import partial

from denoising_diffusion_pytorch.denoising_diffusion_pytorch import (
    Attention as LucidAttention,
)
from denoising_diffusion_pytorch.denoising_diffusion_pytorch import LinearAttention, ResnetBlock
from diffusers.models.attention_processor import Attention as HoAttention
from diffusers.models.resnet import ResnetBlock2D
from torch import nn
from torch.utils.checkpoint import checkpoint

_BLOCKS = (ResnetBlock, LinearAttention, LucidAttention, ResnetBlock2D, HoAttention)


def checkpoint_blocks(network: nn.Module) -> int:
    """Makes every block keep its inputs only and run again in backward, with the random numbers of
    its first run. Returns the number of blocks. A copy of the network would run the blocks of this
    one, so average and compile before."""
    blocks = [module for module in network.modules() if isinstance(module, _BLOCKS)]
    for block in blocks:
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False, preserve_rng_state=True
        )
    return len(blocks)
