"""Tests what compiling keeps for backward, with a budget or without, and that weights are averaged. Compiling takes
most of the time."""

import unittest
from functools import partial
from typing import Any
from unittest import mock

import tiny
import peers_required
from definition import Definition, canonical_text
from variants import parse_variant

try:
    import torch
    from peer_memory import measure_memory
    from pictures import load_pictures
    from torch.nn.utils import parameters_to_vector
    from torch.optim.swa_utils import AveragedModel
    from training import PeerTrainer
except ImportError as error:
    peers_required.cannot_import(error)


def shallow(sections: dict[str, Any], **model: Any) -> dict[str, Any]:
    """One stage: little code. No dropout, for which compiled code draws other random numbers."""
    return {**sections, "model": {**sections["model"], "dim_mults": [1], "dropout": 0.0, **model},
            "train": {"batch": 16, "accumulation": 1, "steps": 1}}


LUCID = shallow(tiny.LUCID)
HO = shallow(tiny.HO, attention_resolutions=[])  # but the middle's


def trainer(sections: dict[str, Any], variant: str) -> PeerTrainer:
    torch._dynamo.reset()  # code that was compiled for one budget would serve another
    definition = Definition(canonical_text(sections), sections)
    return PeerTrainer(definition, load_pictures(definition, None), parse_variant(variant), "fp32",
                       torch.device("cpu"))


def measured(variant: str) -> tuple[int, dict[str, torch.Tensor]]:
    """saved_bytes of a steady step, and the gradients of a pass at the weights after it."""
    peer = trainer(HO, variant)
    torch.manual_seed(5)
    peer.forward(peer.micro_batch()).backward()
    gradients = {name: p.grad.clone() for name, p in peer.loss.named_parameters() if p.grad is not None}
    peer.adam.zero_grad()
    peer.step()
    figures = measure_memory(peer).figures
    assert all(figure.value is not None for figure in figures.values()), figures
    return figures["saved_bytes"].value, gradients


def averages(sections: dict[str, Any], variant: str) -> tuple[torch.Tensor, torch.Tensor]:
    """All averages of weights before the first step and after the third."""
    peer = trainer(sections, variant)
    averaged = peer.ema.module if isinstance(peer.ema, AveragedModel) else peer.ema.ema_model
    before = parameters_to_vector(averaged.parameters()).detach().clone()
    for _ in range(3):
        peer.step()
    return before, parameters_to_vector(averaged.parameters()).detach()


class CompiledTest(unittest.TestCase):
    def test_compiled_code_saves_less_with_a_budget_less_again_and_learns_the_same(self) -> None:
        eager_saved, eager = measured("eager")
        saved, _ = measured("compiled")
        few_saved, compiled = measured("compiled-budget=0")
        self.assertLess(saved, eager_saved)
        self.assertLess(few_saved, saved)
        self.assertEqual(list(compiled), list(eager))
        for name, grad in eager.items():
            # float32 sums of some thousand terms in another order
            self.assertLess((grad - compiled[name]).norm(), 1e-3 * grad.norm() + 1e-6, name)

    def test_compiled_weights_are_averaged_as_those_of_eager_in_either_network(self) -> None:
        # Names and averages are the same whatever code is made, so none is: that would take minutes.
        without_code = mock.patch("torch.compile", partial(torch.compile, backend="eager"))
        for sections in (LUCID, HO):
            initial, eager = averages(sections, "eager")
            self.assertGreater((eager - initial).norm(), 0)
            for variant in ("compiled", "compiled-fused-adam", "compiled-budget=0.5"):
                with without_code:
                    _, compiled = averages(sections, variant)
                torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=1e-7)


if __name__ == "__main__":
    unittest.main()
