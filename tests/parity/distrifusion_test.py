"""Compares the layers of patch-parallel sampling with DistriFusion's own modules, on ranks that are processes. Argument:
suite_patches_test. NOISEMARK_DISTRIFUSER is a checkout of github.com/mit-han-lab/distrifuser."""

import os
import socket
import subprocess
import sys
import tempfile
import types
import unittest

import peers_required

try:
    import torch
    from diffusers.models.attention import Attention
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    peers_required.cannot_import(missing)

CHECKOUT = os.environ.get("NOISEMARK_DISTRIFUSER")
if not CHECKOUT:
    peers_required.not_given("NOISEMARK_DISTRIFUSER", "a checkout of mit-han-lab/distrifuser")
sys.path.insert(0, CHECKOUT)
from distrifuser.modules.pp import attn
from distrifuser.modules.pp.conv2d import DistriConv2dPP
from distrifuser.modules.pp.groupnorm import DistriGroupNorm
from distrifuser.utils import PatchParallelismCommManager

attn.USE_PEFT_BACKEND = True  # without PEFT it gives linear layers a second argument, which they no longer take

# Our word for each mode of the peer.
MODES = {"corrected_async_gn": "displaced"} | {
    word: word for word in ("full_sync", "stale_gn", "sync_gn", "separate_gn", "no_sync")
}
CHANNELS, HEADS, GROUPS, STEPS, SYNCHRONOUS = 8, 2, 4, 5, 2


def layers():
    torch.manual_seed(5)
    convolutions = [
        torch.nn.Conv2d(3, CHANNELS, 3, padding=1),
        torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
        torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, stride=2),
    ]
    norms = [torch.nn.GroupNorm(GROUPS, CHANNELS) for _ in range(2)]
    attention = Attention(CHANNELS, heads=HEADS, dim_head=CHANNELS // HEADS, bias=True)
    model = torch.nn.ModuleDict(
        {
            "first": convolutions[0],
            "second": convolutions[1],
            "third": convolutions[2],
            "norms": torch.nn.ModuleList(norms),
            "attention": attention,
        }
    ).double()
    for parameter in model.parameters():  # norms with weight 1 and bias 0 hide mistakes
        parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval().requires_grad_(False)


def pictures():
    """An image that moves from step to step, as a sampler's does."""
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(2, 3, 32, 8, generator=generator, dtype=torch.float64) + 0.3
    return [x * (1 - 0.1 * step) + 0.3 * step * x.roll(step, 2) for step in range(STEPS)]


def given_to_us(model):
    attention = model["attention"]
    parts = [attention.to_q, attention.to_k, attention.to_v]
    weights = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("attention")}
    weights["qkv.weight"] = torch.cat([part.weight for part in parts])
    weights["qkv.bias"] = torch.cat([part.bias for part in parts])
    weights["out.weight"], weights["out.bias"] = attention.to_out[0].weight, attention.to_out[0].bias
    weights |= {f"x.{step}": x for step, x in enumerate(pictures())}
    return {name: tensor.detach().contiguous() for name, tensor in weights.items()}


def evaluate(model, wrapped, x):
    h = wrapped[1](wrapped[0](x))
    h = wrapped[3](wrapped[2](h))
    n, c, rows, columns = h.shape
    h = wrapped[4](h.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, rows, columns)
    return wrapped[5](h)


def peer(rank, ranks, port, mode, file):
    """One rank of the peer. The first pass is for its buffers, as in its pipelines, and is not counted."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    # DistriConfig itself insists on NCCL. Each tensor is gathered by itself, so that every layer lags behind by one pass.
    config = types.SimpleNamespace(
        mode=mode, warmup_steps=SYNCHRONOUS - 1, n_device_per_batch=ranks, batch_group=None, split_idx=lambda: rank,
        comm_checkpoint=1, rank=rank, verbose=False, device="cpu")  # fmt: skip
    model = layers()
    wrapped = [
        DistriConv2dPP(model["first"], config, is_first_layer=True),
        DistriGroupNorm(model["norms"][0], config),
        DistriConv2dPP(model["second"], config),
        DistriGroupNorm(model["norms"][1], config),
        attn.DistriSelfAttentionPP(model["attention"], config),
        DistriConv2dPP(model["third"], config),
    ]
    manager = PatchParallelismCommManager(config)
    for module in wrapped:
        module.set_comm_manager(manager)
    evaluate(model, wrapped, pictures()[0])
    manager.create_buffer()
    for module in wrapped:
        module.set_counter(0)
    found = {str(step): evaluate(model, wrapped, x).contiguous() for step, x in enumerate(pictures())}
    manager.clear()
    torch.distributed.destroy_process_group()
    save_file(found, file)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def joined(files):
    bands = [load_file(file) for file in files]
    return [torch.cat([band[str(step)] for band in bands], 2) for step in range(STEPS)]


def by_peer(folder, ranks, mode):
    files = [os.path.join(folder, f"peer.{rank}") for rank in range(ranks)]
    port = free_port()
    context = torch.multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=peer, args=(rank, ranks, port, mode, files[rank]), daemon=True) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * ranks
    return joined(files)


def by_us(folder, ranks, mode):
    given = os.path.join(folder, "given")
    save_file(given_to_us(layers()), given)
    variables = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                 "NOISEMARK_TEST_JOB": f"layers_of_peer {given} {MODES[mode]} {SYNCHRONOUS}"}  # fmt: skip
    processes = []
    for rank in range(ranks):
        out = os.path.join(folder, f"ours.{rank}")
        os.makedirs(out)
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "NOISEMARK_TEST_OUT": out}
        processes.append(subprocess.Popen([PROGRAM], env=os.environ | variables | own))
    try:
        assert [process.wait(120) for process in processes] == [0] * ranks
    finally:
        for process in processes:
            process.kill()
    found = load_file(os.path.join(folder, "ours.0", "found"))
    return [found[str(step)] for step in range(STEPS)]


def largest_difference(ranks, mode, of_us=None):
    with tempfile.TemporaryDirectory() as folder:
        ours = by_us(folder, ranks, of_us or mode)
        theirs = by_peer(folder, ranks, mode)
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(ours, theirs, strict=True))


class Layers(unittest.TestCase):
    def test_are_those_of_the_peer_in_every_mode(self):
        for ranks in (2, 4):
            for mode in MODES:
                with self.subTest(mode=mode, ranks=ranks):
                    found = largest_difference(ranks, mode)
                    print(f"{ranks} ranks, {mode}: {found:.1e}")
                    self.assertLessEqual(found, 1e-12)

    def test_of_another_mode_are_noticed(self):
        self.assertGreater(largest_difference(2, "corrected_async_gn", of_us="stale_gn"), 1e-6)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
