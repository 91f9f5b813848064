"""Images made ahead are those that would be made in the step, and their thread keeps nothing alive."""

import subprocess
import sys
import threading
import unittest
from concurrent.futures import wait
from types import SimpleNamespace
from unittest import mock

import tiny
import peers_required
from definition import Definition, canonical_text
from variants import parse_variant

try:
    import torch
    import training
    from pictures import Pictures, Prefetch, load_pictures
except ImportError as error:
    peers_required.cannot_import(error)

PATIENCE_S = 120

PROGRAM = f"""
import sys
sys.path.insert(0, {str(tiny.PEERS)!r})
import torch
from pictures import Pictures, Prefetch
prefetch = Prefetch(Pictures(torch.zeros(8, 1, 4, 4, dtype=torch.uint8), True, "generated"), 4, 2, pinned=False)
prefetch.next()
"""


class Countable:
    """Makes batches of the numbers 0, 1, 2, ..., and fails at one of them."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.made, self.fails_at = 0, fails_at

    def batch(self, size: int, generator: torch.Generator) -> torch.Tensor:
        self.made += 1
        if self.made - 1 == self.fails_at:
            raise OSError("no such picture")
        return torch.full((size,), self.made - 1)


class PrefetchTest(unittest.TestCase):
    def test_has_the_numbers_of_the_plain_way_in_the_same_order_whatever_torch_draws_meanwhile(self) -> None:
        values = torch.randint(256, (32, 3, 8, 8), dtype=torch.uint8)
        pictures = Pictures(values, True, "generated")
        torch.manual_seed(7)
        plain = [pictures.batch(5) for _ in range(20)]
        torch.manual_seed(7)
        prefetch = Prefetch(pictures, 5, 4, pinned=False)
        for batch in plain:
            self.assertTrue(torch.equal(prefetch.next(), batch))
            torch.manual_seed(0)

    def test_makes_as_many_ahead_as_it_is_told_and_no_more(self) -> None:
        pictures = Countable()
        prefetch = Prefetch(pictures, 1, 3, pinned=False)
        for taken in range(3):
            wait(prefetch._coming, PATIENCE_S)
            self.assertEqual(pictures.made, taken + 3)
            self.assertEqual(prefetch.next().item(), taken)

    def test_an_error_comes_in_the_place_of_its_batch(self) -> None:
        prefetch = Prefetch(Countable(fails_at=1), 1, 3, pinned=False)
        self.assertEqual(prefetch.next().item(), 0)
        with self.assertRaisesRegex(OSError, "no such picture"):
            prefetch.next()
        self.assertEqual(prefetch.next().item(), 2)

    def test_the_thread_ends_with_the_object(self) -> None:
        before = set(threading.enumerate())
        prefetch = Prefetch(Countable(), 1, 2, pinned=False)
        prefetch.next()
        (thread,) = set(threading.enumerate()) - before
        del prefetch
        thread.join(PATIENCE_S)
        self.assertFalse(thread.is_alive())

    def test_the_process_ends_with_its_program_and_on_an_error(self) -> None:
        for last, code, words in (("", 0, ""), ("raise ValueError('enough')", 1, "ValueError: enough\n")):
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM + last], text=True,
                                  capture_output=True, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(done.stderr.endswith(words), done.stderr)


class TrainerTest(unittest.TestCase):
    def setUp(self) -> None:
        definition = Definition(canonical_text(tiny.LUCID), tiny.LUCID)
        self.pictures = load_pictures(definition, None)
        self.peer = training.PeerTrainer(definition, self.pictures, parse_variant("eager"), "fp32",
                                         torch.device("cpu"))

    def test_on_a_gpu_takes_micro_batches_of_two_steps_ahead_from_pinned_memory(self) -> None:
        self.peer.device = SimpleNamespace(type="cuda")
        with mock.patch.object(training, "Prefetch") as prefetch:
            taken = [self.peer._next_pictures() for _ in range(2)]
        prefetch.assert_called_once_with(self.pictures, 2, 4, pinned=True)
        self.assertEqual(taken, 2 * [prefetch.return_value.next.return_value])

    def test_on_a_cpu_makes_them_in_the_step_from_torchs_own_random_numbers(self) -> None:
        with mock.patch.object(training, "Prefetch") as prefetch:
            torch.manual_seed(7)
            images = self.peer.micro_batch()
        prefetch.assert_not_called()
        torch.manual_seed(7)
        self.assertTrue(torch.equal(images, self.pictures.batch(2)))


if __name__ == "__main__":
    unittest.main()
