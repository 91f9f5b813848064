"""Names, shapes, order and initial values of the weights; safetensors in both directions."""

import parity
import torch
from safetensors.torch import load_file

CONFIGS = [
    parity.LUCID_SMALL, parity.LUCID_OTHER, parity.LUCID_LOCKED,
    parity.HO_SMALL, parity.HO_OTHER, parity.HO_LOCKED,
]


class Weights(parity.ParityTest):
    def test_keys_shapes_order_and_initial_bits_equal_the_peers(self):
        for config in CONFIGS:
            for seed in (0, 12345):
                with self.subTest(config=config, seed=seed):
                    peers = parity.make_peer(config, seed).state_dict()
                    ours = parity.probe("init", model=config, seed=seed)
                    self.assertEqual(list(ours), list(peers))
                    for name, tensor in peers.items():
                        self.assertEqual(ours[name].shape, tensor.shape, name)
                        self.assert_same_bits(ours[name], tensor, name)

    def test_another_seed_gives_other_weights(self):
        ours = parity.probe("init", model=parity.LUCID_SMALL, seed=1)
        peers = parity.make_peer(parity.LUCID_SMALL, 2).state_dict()
        self.assertFalse(torch.equal(ours["init_conv.weight"], peers["init_conv.weight"]))

    def test_the_locked_models_have_the_published_number_of_parameters(self):
        for config, count in ((parity.LUCID_LOCKED, 35_711_491), (parity.HO_LOCKED, 35_746_307)):
            ours = parity.probe("init", model=config)
            self.assertEqual(sum(t.numel() for t in ours.values()), count)

    def test_a_round_trip_through_python_changes_no_bit(self):
        for config in (parity.LUCID_OTHER, parity.HO_OTHER):
            with self.subTest(config=config):
                peer = parity.perturb(parity.make_peer(config))
                ours = parity.probe(
                    "init", parity.with_prefix("weight.", peer.state_dict()), model=config, seed=7)
                again = parity.make_peer(config, seed=8)
                again.load_state_dict(ours, strict=True)
                for (name, before), after in zip(peer.state_dict().items(),
                                                 again.state_dict().values()):
                    self.assert_same_bits(after, before, name)

    def test_python_loads_our_file_strictly(self):
        for config in (parity.LUCID_SMALL, parity.HO_SMALL):
            with self.subTest(config=config):
                ours = parity.probe("init", read=load_file, model=config, seed=3)
                peer = parity.make_peer(config, seed=4)
                result = peer.load_state_dict(ours, strict=True)
                self.assertEqual((result.missing_keys, result.unexpected_keys), ([], []))
                for name, tensor in parity.make_peer(config, seed=3).state_dict().items():
                    self.assert_same_bits(peer.state_dict()[name], tensor, name)


if __name__ == "__main__":
    parity.main()
