"""The two networks at the size of the locked benchmarks, once each."""

import networks
import parity
import torch

CONFIGS = [parity.LUCID_LOCKED, parity.HO_LOCKED]


class LockedSize(parity.ParityTest):
    def test_float64_outputs_and_gradients(self):
        for config in CONFIGS:
            with self.subTest(config=config["name"]):
                ours, peers = networks.run_both(config, torch.float64, batch=2)
                error = self.assert_relative(ours["output"], peers["output"], 1e-10, "output")
                worst = networks.assert_gradients_agree(self, ours, peers, 1e-9)
                print(f"{config['name']} float64: output {error:.1e}, gradients {worst:.1e}")

    def test_float32_outputs_at_four_timesteps(self):
        for config in CONFIGS:
            with self.subTest(config=config["name"]):
                ours, peers = networks.run_both(config, torch.float32, command="output")
                error = networks.scaled_error(ours["output"], peers["output"])
                self.assertLessEqual(error, 1e-5)
                print(f"{config['name']} float32: {error:.1e}")


if __name__ == "__main__":
    parity.main()
