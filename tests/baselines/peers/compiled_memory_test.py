"""What torch.compile keeps for backward, with a budget and without. Compiling takes most of the time."""

import unittest

import tiny
import peers_required
from definition import Definition, canonical_text
from variants import parse_variant

try:
    import torch
    from peer_memory import measure_memory
    from pictures import load_pictures
    from training import PeerTrainer
except ImportError as error:
    peers_required.cannot_import(error)

# One stage, with no attention but the middle's: little code. No dropout, for which compiled code draws
# other random numbers.
SHALLOW = {
    **tiny.HO,
    "model": {**tiny.HO["model"], "dim_mults": [1], "attention_resolutions": [], "dropout": 0.0},
    "train": {"batch": 16, "accumulation": 1, "steps": 1},
}


def measured(variant: str) -> tuple[int, dict[str, torch.Tensor]]:
    """saved_bytes of a steady step, and the gradients of a pass at the weights after it."""
    torch._dynamo.reset()  # what was compiled for one budget would serve another
    definition = Definition(canonical_text(SHALLOW), SHALLOW)
    peer = PeerTrainer(definition, load_pictures(definition, None), parse_variant(variant), "fp32",
                       torch.device("cpu"))
    torch.manual_seed(5)
    peer.forward(peer.micro_batch()).backward()
    gradients = {name.replace("._orig_mod", ""): p.grad.clone()
                 for name, p in peer.loss.named_parameters() if p.grad is not None}
    peer.adam.zero_grad()
    peer.step()
    figures = measure_memory(peer).figures
    assert all(figure.value is not None for figure in figures.values()), figures
    return figures["saved_bytes"].value, gradients


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


if __name__ == "__main__":
    unittest.main()
