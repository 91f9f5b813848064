"""Our FLOP counts beside torch.utils.flop_counter on the peers' own networks: equal to the integer."""

import json
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "parity"))

import parity
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

CONFIGS = [parity.LUCID_SMALL, parity.LUCID_OTHER, parity.HO_SMALL, parity.HO_OTHER,
           parity.LUCID_LOCKED, parity.HO_LOCKED]


def ours(config, batch):
    request = json.dumps({"model": config, "batch": batch})
    reply = subprocess.run([parity.PROBE, request], check=True, capture_output=True, text=True)
    return json.loads(reply.stdout)


def theirs(config, batch):
    peer = parity.make_peer(config)
    x = torch.zeros(batch, config["channels"], config["resolution"], config["resolution"])
    # torch's counter knows no formula for the CPU's fused attention; its parts it knows.
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = peer(x, torch.full((batch,), 7)).square().sum()
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    return {"forward": forward.get_total_flops(), "backward": backward.get_total_flops()}


class FlopParity(parity.ParityTest):
    def test_counts_equal_torchs_to_the_integer(self):
        for config in CONFIGS:
            for batch in (1, 3):
                with self.subTest(config=config, batch=batch):
                    mine, peers = ours(config, batch), theirs(config, batch)
                    self.assertEqual(mine["forward"], peers["forward"])
                    self.assertEqual(mine["backward"], peers["backward"])
                    print(f"{config['name']} dim {config['dim']} batch {batch}: forward "
                          f"{mine['forward'] / 1e9 / batch:.3f}, both "
                          f"{(mine['forward'] + mine['backward']) / 1e9 / batch:.3f} GFLOP per image")

    def test_a_wider_network_is_noticed(self):
        wider = parity.HO_SMALL | {"dim": 64}
        self.assertNotEqual(ours(wider, 1)["forward"], theirs(parity.HO_SMALL, 1)["forward"])


if __name__ == "__main__":
    parity.main()
