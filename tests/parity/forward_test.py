"""Outputs in float32, where only rounding may differ, and in float64, where nothing may."""

import networks
import parity
import torch

CONFIGS = [parity.LUCID_SMALL, parity.LUCID_OTHER, parity.HO_SMALL, parity.HO_OTHER]


class Forward(parity.ParityTest):
    def test_float64_outputs_are_within_1e_10_of_the_peers(self):
        for config in CONFIGS:
            with self.subTest(config=config):
                ours, peers = networks.run_both(config, torch.float64, command="output")
                error = self.assert_relative(ours["output"], peers["output"], 1e-10, "output")
                print(f"{config['name']} dim {config['dim']} float64: {error:.1e}")

    def test_float32_outputs_are_within_1e_5_of_the_peers_at_four_timesteps(self):
        for config in CONFIGS:
            for ops in ("plain", "fused"):
                with self.subTest(config=config, ops=ops):
                    ours, peers = networks.run_both(
                        config, torch.float32, command="output", ops=ops)
                    error = networks.scaled_error(ours["output"], peers["output"])
                    self.assertLessEqual(error, 1e-5)
                    print(f"{config['name']} dim {config['dim']} float32 {ops}: {error:.1e}")

    def test_swapped_scale_and_shift_are_noticed(self):
        for config in CONFIGS:
            with self.subTest(config=config):
                ours, peers = networks.run_both(
                    config, torch.float32, command="output", ops="swapped")
                self.assertGreater(networks.scaled_error(ours["output"], peers["output"]), 1e-5)


if __name__ == "__main__":
    parity.main()
