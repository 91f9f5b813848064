"""Gradients of every parameter; dropout draws."""

import networks
import parity
import torch

CONFIGS = [parity.LUCID_SMALL, parity.LUCID_OTHER, parity.HO_SMALL, parity.HO_OTHER]


class Gradients(parity.ParityTest):
    def test_float64_gradients_are_within_1e_9_of_the_peers(self):
        for config in CONFIGS:
            with self.subTest(config=config):
                ours, peers = networks.run_both(config, torch.float64)
                worst = networks.assert_gradients_agree(self, ours, peers, 1e-9)
                print(f"{config['name']} dim {config['dim']} float64 gradients: {worst:.1e}")

    def test_dropout_draws_the_peers_masks_from_the_same_seed(self):
        for config in (parity.LUCID_SMALL, parity.HO_SMALL):
            with self.subTest(config=config):
                dropping = config | {"dropout": 0.3}
                ours, peers = networks.run_both(dropping, torch.float64, dropout_seed=11)
                self.assert_relative(ours["output"], peers["output"], 1e-10, "output")
                networks.assert_gradients_agree(self, ours, peers, 1e-9)
                kept, _ = networks.run_both(config, torch.float64)
                self.assertGreater(parity.largest(kept["output"] - ours["output"]), 1e-3)

    def test_swapped_scale_and_shift_are_noticed(self):
        for config in CONFIGS:
            with self.subTest(config=config):
                ours, peers = networks.run_both(config, torch.float64, ops="swapped")
                with self.assertRaises(AssertionError):
                    networks.assert_gradients_agree(self, ours, peers, 1e-9)


if __name__ == "__main__":
    parity.main()
