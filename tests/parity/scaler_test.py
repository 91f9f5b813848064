"""Dynamic loss scaling beside torch.amp.GradScaler, bit for bit."""

import parity
import torch

STEPS = 60
SIZE = 9


def scaled_gradients(bad_every, seed=3):
    """Gradients of a scaled loss; in every `bad_every`-th step one value is not finite."""
    generator = torch.Generator().manual_seed(seed)
    gradients = torch.randn((STEPS, SIZE), generator=generator) * 1000
    for count, step in enumerate(range(bad_every - 1, STEPS, bad_every)):
        gradients[step, count % SIZE] = (float("inf"), -float("inf"), float("nan"))[count % 3]
    return gradients


def new_scaler(config):
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=config["initial"], growth_factor=config["growth"],
        backoff_factor=config["backoff"], growth_interval=config["interval"])
    scaler.scale(torch.zeros(()))  # makes its tensors
    return scaler


def peers_trace(gradients, config, resume_at=-1):
    parameter = torch.nn.Parameter(torch.zeros(SIZE))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = new_scaler(config)
    trace = {"unscaled": [], "skipped": [], "scale": [], "growth": []}
    for step, gradient in enumerate(gradients):
        if step == resume_at:
            state = scaler.state_dict()
            scaler = new_scaler(config)
            scaler.load_state_dict(state)
            scaler.scale(torch.zeros(()))
        parameter.grad = gradient.clone()
        scaler.unscale_(optimizer)
        trace["unscaled"].append(parameter.grad.clone())
        parameter.detach().zero_()  # no update is too small to be seen beside it
        scaler.step(optimizer)
        scaler.update()
        trace["skipped"].append(torch.tensor(float(not parameter.detach().any())))
        trace["scale"].append(torch.tensor(scaler.get_scale()))
        trace["growth"].append(torch.tensor(scaler.state_dict()["_growth_tracker"],
                                            dtype=torch.int32))
    return {name: torch.stack(values) for name, values in trace.items()}


def ours_trace(gradients, config, resume_at=-1):
    return parity.probe("scaler", {"gradients": gradients}, resume_at=resume_at, **config)


class Scaler(parity.ParityTest):
    def compare(self, gradients, config, **more):
        ours = ours_trace(gradients, config, **more)
        peers = peers_trace(gradients, config, **more)
        for name in ("skipped", "scale", "growth"):
            self.assert_same_bits(ours[name], peers[name], name)
        same = (ours["unscaled"] == peers["unscaled"]) | (
            ours["unscaled"].isnan() & peers["unscaled"].isnan())
        self.assertTrue(bool(same.all()), "unscaled gradients differ")
        return peers

    def test_growth_backoff_and_skips_are_those_of_torch(self):
        for interval, bad_every in ((3, 7), (1, 5), (5, 3), (2000, 4)):
            config = {"initial": 1024.0, "growth": 2.0, "backoff": 0.5, "interval": interval}
            with self.subTest(interval=interval, bad_every=bad_every):
                peers = self.compare(scaled_gradients(bad_every), config)
                self.assertEqual(int(peers["skipped"].sum()), STEPS // bad_every)

    def test_factors_that_are_no_powers_of_two_round_alike(self):
        config = {"initial": 1000.0, "growth": 1.7, "backoff": 0.3, "interval": 2}
        self.compare(scaled_gradients(5), config)

    def test_the_constants_are_those_of_torch(self):
        defaults = torch.amp.GradScaler("cpu")
        config = {"initial": defaults.get_scale(), "growth": defaults.get_growth_factor(),
                  "backoff": defaults.get_backoff_factor(),
                  "interval": defaults.get_growth_interval()}
        gradients = scaled_gradients(9)
        ours = parity.probe("scaler", {"gradients": gradients})
        self.assert_same_bits(ours["scale"], peers_trace(gradients, config)["scale"], "scale")

    def test_a_resumed_one_goes_on_where_it_was(self):
        config = {"initial": 1024.0, "growth": 2.0, "backoff": 0.5, "interval": 4}
        for resume_at in (1, 6, 30):
            with self.subTest(resume_at=resume_at):
                self.compare(scaled_gradients(11), config, resume_at=resume_at)

    def test_another_interval_is_noticed(self):
        gradients = scaled_gradients(7)
        config = {"initial": 1024.0, "growth": 2.0, "backoff": 0.5, "interval": 3}
        ours = ours_trace(gradients, config | {"interval": 4})
        self.assertFalse(torch.equal(ours["scale"], peers_trace(gradients, config)["scale"]))


if __name__ == "__main__":
    parity.main()
