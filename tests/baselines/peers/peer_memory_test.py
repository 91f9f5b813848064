"""Tests what the peers' memory pass measures, and that saving memory changes no gradient."""

import unittest
from contextlib import suppress
from dataclasses import replace
from typing import Any

import tiny
import peers_required
from definition import Definition, canonical_text
from variants import parse_variant

try:
    import torch
    from peer_memory import Live, between_steps_bytes, live_at_marks, measure_memory, measure_on_gpu
    from pictures import load_pictures
    from training import PeerTrainer
except ImportError as error:
    peers_required.cannot_import(error)

# The same images at once, so that activations outweigh what does not shrink.
WIDE = {"batch": 16, "accumulation": 1, "steps": 1}


def trainer(sections: dict[str, Any], variant: str, precision: str = "fp32", *,
            fused_adam: bool = False, device: str = "cpu") -> PeerTrainer:
    sections = {**sections, "train": WIDE}
    definition = Definition(canonical_text(sections), sections)
    pictures = load_pictures(definition, None)
    way = replace(parse_variant(variant), fused_adam=fused_adam)
    return PeerTrainer(definition, pictures, way, precision, torch.device(device))


def gradients(sections: dict[str, Any], variant: str) -> dict[str, torch.Tensor]:
    """Returns the gradients of one forward and backward pass, from the same state and random numbers."""
    peer = trainer(sections, variant)
    torch.manual_seed(5)
    peer.forward(peer.micro_batch()).backward()
    return {name: p.grad for name, p in peer.loss.named_parameters() if p.grad is not None}


def figures(peer: PeerTrainer) -> tuple[int, int]:
    """peak_bytes and saved_bytes."""
    peer.step()
    found = measure_memory(peer).figures
    for figure in found.values():
        assert figure.value is not None, figure.words
    return found["peak_bytes"].value, found["saved_bytes"].value


def saved_by_hooks(peer: PeerTrainer) -> int:
    """Bytes of the distinct storages that autograd saves, but for parameters and buffers."""
    held: dict[int, int] = {}
    kept = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        kept.append(tensor.detach())  # no address may be used twice
        return kept[-1]

    images = peer.micro_batch()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        peer.forward(images)
    for tensor in (*peer.loss.parameters(), *peer.loss.buffers()):
        held.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(held.values())


class RunningTotalTest(unittest.TestCase):
    def test_a_mark_has_what_is_live_and_the_most_since_the_mark_before(self) -> None:
        events = [("[memory]", 100), ("[memory]", -40), ("a", 0), ("[memory]", -30), ("b", 0),
                  ("[memory]", 20), ("[memory]", -50), ("c", 0)]
        self.assertEqual(live_at_marks(events),
                         {"a": Live(60, 100), "b": Live(30, 60), "c": Live(0, 50)})


class ScriptedAllocator:
    """Answers as a GPU's would: what is live, and the most that was, at each time that it is asked."""

    def __init__(self, live: list[int], most: list[int]) -> None:
        self.live, self.most, self.resets = live, most, 0

    def memory_allocated(self, device: torch.device) -> int:
        return self.live[self.resets]

    def max_memory_allocated(self, device: torch.device) -> int:
        return self.most[self.resets]

    def reset_peak_memory_stats(self, device: torch.device) -> None:
        self.resets += 1


class GpuTest(unittest.TestCase):
    def test_a_gpus_allocator_is_asked_before_and_after_a_step_a_forward_and_its_backward(self) -> None:
        allocator = ScriptedAllocator([100, 100, 110, 510, 110], [150, 900, 110, 520, 700])
        peer = trainer(tiny.HO, "eager")
        found = measure_on_gpu(peer, allocator)
        self.assertEqual(allocator.resets, 5)
        self.assertEqual((found.steps, peer.steps), (1, 1))
        self.assertEqual(found.figures["peak_bytes"].value, 900)
        self.assertIn("max_memory_allocated", found.figures["peak_bytes"].words)
        self.assertEqual(found.figures["saved_bytes"].value, 400)

    def test_on_a_gpu_too_something_that_outlives_what_was_watched_makes_a_figure_missing(self) -> None:
        allocator = ScriptedAllocator([100, 108, 110, 510, 114], [150, 900, 110, 520, 700])
        found = measure_on_gpu(trainer(tiny.HO, "eager"), allocator).figures
        self.assertIsNone(found["peak_bytes"].value)
        self.assertIn("8 bytes more", found["peak_bytes"].words)
        self.assertIsNone(found["saved_bytes"].value)
        self.assertIn("4 bytes more", found["saved_bytes"].words)


class TensorFloat32Test(unittest.TestCase):
    def test_on_a_gpu_a_peer_rounds_to_tf32_where_the_precision_says_so_and_nowhere_else(self) -> None:
        for precision, allowed in (("fp32", False), ("tf32", True), ("bf16", False)):
            torch.backends.cuda.matmul.allow_tf32 = not allowed
            torch.backends.cudnn.allow_tf32 = not allowed
            with suppress(RuntimeError, AssertionError):  # without a GPU it gets no further
                trainer(tiny.HO, "eager", precision, device="cuda")
            self.assertEqual(torch.backends.cuda.matmul.allow_tf32, allowed, precision)
            self.assertEqual(torch.backends.cudnn.allow_tf32, allowed, precision)


class GradientsTest(unittest.TestCase):
    def test_every_way_to_save_memory_has_the_gradients_of_eager_bit_for_bit(self) -> None:
        for sections in (tiny.LUCID, tiny.HO):  # Ho's has dropout, which is drawn again
            eager = gradients(sections, "eager")
            self.assertTrue(all(bool(grad.abs().sum() > 0) for grad in eager.values()))
            for variant in ("checkpoint", "save-on-cpu"):
                other = gradients(sections, variant)
                self.assertEqual(other.keys(), eager.keys())
                for name, grad in eager.items():
                    self.assertTrue(torch.equal(other[name], grad), f"{variant}: {name}")


class FusedAdamTest(unittest.TestCase):
    def test_takes_the_step_that_adam_takes(self) -> None:
        weights = {}
        for fused in (False, True):
            peer = trainer(tiny.HO, "eager", fused_adam=fused)
            torch.manual_seed(5)
            peer.step()
            self.assertEqual(bool(peer.adam.param_groups[0]["fused"]), fused)
            weights[fused] = torch.cat([p.detach().flatten() for p in peer.loss.parameters()])
        # The same formula, its float operations in another order: a few units in the last place of a step of lr.
        torch.testing.assert_close(weights[True], weights[False], rtol=1e-5, atol=1e-7)


class MemoryTest(unittest.TestCase):
    def test_what_is_saved_is_what_the_hooks_of_autograd_see(self) -> None:
        for sections in (tiny.LUCID, tiny.HO):
            saved = figures(trainer(sections, "eager"))[1]
            seen = saved_by_hooks(trainer(sections, "eager"))
            # Hooks see neither the loss itself nor the few Python numbers of the graph.
            numbers_bytes = saved - seen - torch.tensor(0.0).nbytes
            self.assertEqual(numbers_bytes % torch.tensor(0.0, dtype=torch.double).nbytes, 0)
            self.assertIn(numbers_bytes, range(1000))

    def test_the_peak_holds_what_lives_between_steps_and_what_is_saved(self) -> None:
        peer = trainer(tiny.HO, "eager")
        peak, saved = figures(peer)
        weights = sum(p.nbytes for p in peer.loss.parameters())
        self.assertGreaterEqual(between_steps_bytes(peer), 4 * weights)  # Adam's two, the average
        self.assertLess(between_steps_bytes(peer), 4.1 * weights)  # the rest is tables
        self.assertGreater(peak, between_steps_bytes(peer) + saved)

    def test_checkpointed_blocks_save_less_and_peak_lower_in_either_network(self) -> None:
        for sections in (tiny.LUCID, tiny.HO):
            peak, saved = figures(trainer(sections, "eager"))
            low_peak, few_saved = figures(trainer(sections, "checkpoint"))
            self.assertLess(few_saved, saved / 2)
            self.assertLess(low_peak, peak)

    def test_save_on_cpu_saves_nothing_on_a_cpu(self) -> None:
        self.assertEqual(figures(trainer(tiny.HO, "save-on-cpu")), figures(trainer(tiny.HO, "eager")))

    def test_figures_repeat_to_the_byte_and_bf16_saves_less(self) -> None:
        first = figures(trainer(tiny.HO, "eager"))
        self.assertEqual(figures(trainer(tiny.HO, "eager")), first)
        self.assertLess(figures(trainer(tiny.HO, "eager", "bf16"))[1], first[1])

    def test_something_that_outlives_a_step_makes_the_figure_missing(self) -> None:
        peer = trainer(tiny.HO, "eager")
        peer.step()
        kept = []
        update = peer._update_ema
        peer._update_ema = lambda: (update(), kept.append(torch.empty(1000)))
        found = measure_memory(peer).figures
        self.assertIsNone(found["peak_bytes"].value)
        self.assertIn("4000 bytes more", found["peak_bytes"].words)
        self.assertIsNotNone(found["saved_bytes"].value)


if __name__ == "__main__":
    unittest.main()
