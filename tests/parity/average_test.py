"""The average over thousands of steps, past the warm-up of its decay, bit for bit."""

import parity
import torch
from ema_pytorch import EMA
from torch.optim.swa_utils import get_ema_multi_avg_fn

STEPS = 3200
SIZE = 64


def walk():
    """A weight after each step."""
    generator = torch.Generator().manual_seed(4)
    return torch.randn((STEPS, SIZE), generator=generator).cumsum(0)


def peers_trace(weights, config):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(weights[0].clone())
    average = EMA(model, **config)
    trace = []
    for weight in weights:
        with torch.no_grad():
            model.weight.copy_(weight)
        average.update()
        trace.append(average.ema_model.weight.detach().clone())
    return torch.stack(trace)


def ours_trace(weights, config):
    return parity.probe("average", {"weights": weights}, ema=config)["trace"]


class Average(parity.ParityTest):
    def test_the_power_average_has_the_bits_of_ema_pytorch(self):
        weights = walk()
        for every, after in ((10, 100), (1, 0), (3, 7)):
            with self.subTest(update_every=every, update_after_step=after):
                peers = peers_trace(
                    weights, {"beta": 0.995, "update_every": every, "update_after_step": after})
                ours = ours_trace(weights, {"kind": "power", "decay": 0.995, "update_every": every,
                                            "update_after_step": after})
                self.assert_same_bits(ours, peers, "trace")

    def test_an_average_that_is_off_by_one_is_noticed(self):
        weights = walk()
        peers = peers_trace(weights, {"beta": 0.995, "update_every": 10, "update_after_step": 100})
        ours = ours_trace(weights, {"kind": "power", "decay": 0.995, "update_every": 10,
                                    "update_after_step": 99})
        self.assertFalse(torch.equal(ours, peers))

    def test_the_constant_average_has_the_bits_of_torch(self):
        weights = walk()
        shadow = [weights[0].clone()]
        update = get_ema_multi_avg_fn(0.9999)
        trace = []
        for weight in weights:
            update(shadow, [weight], None)
            trace.append(shadow[0].clone())
        ours = ours_trace(weights, {"kind": "constant", "decay": 0.9999})
        self.assert_same_bits(ours, torch.stack(trace), "trace")


if __name__ == "__main__":
    parity.main()
