"""Small real definitions, and where the programs under test are."""

import sys
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parents[3] / "baselines" / "peers"
RUN_PEER = PEERS / "run_peer.py"
PACE = PEERS / "pace.py"
sys.path.insert(0, str(PEERS))
sys.path.append(str(Path(__file__).resolve().parents[2] / "parity"))


def sections(model: dict[str, Any], ema: dict[str, Any]) -> dict[str, Any]:
    """A definition that a peer trains in a fraction of a second a step."""
    return {
        "benchmark": {"id": "tiny", "version": 1, "seed": 3, "scale": "cpu"},
        "model": {"channels": 1, "resolution": 16, "dim": 16, "dim_mults": [1, 2], **model},
        "data": {"name": "gmm16", "flip": False, "train_samples": 64, "seed": 0},
        "diffusion": {"timesteps": 50, "schedule": "sigmoid", "objective": "v", "min_snr": False},
        "optimizer": {"name": "adam", "lr": 0.001, "beta1": 0.9, "beta2": 0.99, "eps": 1e-08,
                      "clip_norm": 1.0, "warmup_steps": 2},
        "ema": ema,
        "train": {"batch": 4, "accumulation": 2, "steps": 3},
        "eval": {"samples": 8, "every": 0, "weights": "model", "target_loss": 0.0},
        "measure": {"memory_steps": 0, "profile_steps": 0},
        "gate": {"excess_loss": {"metric": "excess_loss", "max": 1.0}},
    }


LUCID = sections(
    {"name": "lucid-unet", "dropout": 0.0, "attn_heads": 2, "attn_dim_head": 8},
    {"kind": "power", "decay": 0.9, "update_every": 1, "update_after_step": 0, "inv_gamma": 1.0,
     "power": 0.6666666666666666},
)
HO = sections(
    {"name": "ho-unet", "dropout": 0.1, "res_blocks": 1, "attention_resolutions": [8], "groups": 4,
     "activation": "silu", "downsample": "conv"},
    {"kind": "constant", "decay": 0.99},
)
