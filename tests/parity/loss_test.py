"""Noised images, targets and the training loss with given timesteps and noise."""

import itertools

import networks
import parity
import torch


def batch_of(config, dtype):
    tensors = networks.inputs(config, dtype, batch=4, seed=5)
    return {"x0": tensors["x"].clamp(-1, 1), "t": tensors["t"], "noise": tensors["cotangent"]}


def peers_loss(peer, diffusion, config, batch):
    dtype = batch["x0"].dtype
    with parity.DefaultDtype(torch.float32):
        process = parity.diffusion_of(peer, diffusion, config["resolution"]).to(dtype)
    x0, t, noise = batch["x0"], batch["t"], batch["noise"]
    target = {"eps": noise, "x0": x0, "v": process.predict_v(x0, t, noise)}[diffusion["objective"]]
    with parity.DefaultDtype(dtype), torch.no_grad():
        loss = process(x0, times=t, noise=noise)
    return {"x_t": process.q_sample(x0, t, noise), "target": target, "loss": loss}


class Loss(parity.ParityTest):
    def compare(self, config, dtype, bound):
        batch = batch_of(config, dtype)
        peer = parity.perturb(parity.make_peer(config)).to(dtype)
        weights = parity.with_prefix("weight.", peer.state_dict())
        for objective, min_snr in itertools.product(("eps", "x0", "v"), (False, True)):
            diffusion = {"schedule": "sigmoid", "objective": objective, "min_snr": min_snr}
            with self.subTest(model=config["name"], diffusion=diffusion):
                peers = peers_loss(peer, diffusion, config, batch)
                ours = parity.probe("loss", batch | weights, model=config, diffusion=diffusion,
                                    dtype=str(dtype).removeprefix("torch."))
                self.assertEqual(list(ours), list(peers))
                self.assert_same_bits(ours["x_t"], peers["x_t"], "x_t")
                self.assert_same_bits(ours["target"], peers["target"], "target")
                self.assert_relative(ours["loss"], peers["loss"], bound, "loss")

    def test_float64(self):
        for config in (parity.LUCID_SMALL, parity.HO_SMALL):
            self.compare(config, torch.float64, 1e-10)

    def test_float32(self):
        self.compare(parity.LUCID_SMALL, torch.float32, 1e-5)

    def test_another_objective_is_noticed(self):
        config = parity.LUCID_SMALL
        batch = batch_of(config, torch.float64)
        peer = parity.perturb(parity.make_peer(config)).double()
        peers = peers_loss(peer, {"objective": "eps"}, config, batch)
        ours = parity.probe("loss", batch | parity.with_prefix("weight.", peer.state_dict()),
                            model=config, diffusion={"objective": "v"}, dtype="float64")
        with self.assertRaises(AssertionError):
            self.assert_relative(ours["loss"], peers["loss"], 1e-10, "loss")


if __name__ == "__main__":
    parity.main()
