"""The 13 buffers of the process, bit for bit."""

import itertools

import parity
import torch


class Schedule(parity.ParityTest):
    def test_every_buffer_has_the_peers_bits(self):
        network = parity.make_peer(parity.LUCID_SMALL)
        for schedule, timesteps, objective, min_snr in itertools.product(
                ("linear", "cosine", "sigmoid"), (1000, 250), ("eps", "x0", "v"), (False, True)):
            config = {"schedule": schedule, "timesteps": timesteps, "objective": objective,
                      "min_snr": min_snr}
            with self.subTest(config=config):
                peers = {name: buffer for name, buffer in
                         parity.diffusion_of(network, config, 16).named_buffers()
                         if "." not in name}
                ours = parity.probe("schedule", diffusion=config)
                self.assertEqual(len(peers), 13)
                self.assertEqual(list(ours), list(peers))
                for name, buffer in peers.items():
                    self.assert_same_bits(ours[name], buffer, name)

    def test_another_schedule_is_noticed(self):
        ours = parity.probe("schedule", diffusion={"schedule": "linear"})
        network = parity.make_peer(parity.LUCID_SMALL)
        peers = parity.diffusion_of(network, {"schedule": "cosine"}, 16)
        self.assertFalse(torch.equal(ours["betas"], peers.betas))


if __name__ == "__main__":
    parity.main()
