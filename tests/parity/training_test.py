"""Ten steps of the trainer itself: the peer gets its batches, then losses, weights and averages must agree."""

import parity
import torch
from ema_pytorch import EMA
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS = 10
BATCH = 2

LUCID_RUN = {
    "model": parity.LUCID_SMALL,
    "diffusion": {"schedule": "sigmoid", "objective": "v"},
    "optimizer": {"lr": 8e-5, "beta1": 0.9, "beta2": 0.99, "clip_norm": 1.0},
    "ema": {"kind": "power", "decay": 0.995, "update_every": 2, "update_after_step": 3},
}
HO_RUN = {
    "model": parity.HO_SMALL,
    "diffusion": {"schedule": "linear", "objective": "eps"},
    "optimizer": {"lr": 2e-4, "beta1": 0.9, "beta2": 0.999, "clip_norm": 1.0, "warmup_steps": 4},
    "ema": {"kind": "constant", "decay": 0.9999},
}


class ConstantAverage:
    """torch's own average with a constant decay, begun at the first weights."""

    def __init__(self, model, config):
        self.model = model
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config["decay"]))
        self.average.update_parameters(model)

    def update(self):
        self.average.update_parameters(self.model)

    def weights(self):
        return dict(self.average.module.named_parameters())


class PowerAverage:
    """ema-pytorch, as the lucidrains trainer uses it."""

    def __init__(self, model, config):
        options = {k: v for k, v in config.items() if k not in ("kind", "decay")}
        self.average = EMA(model, beta=config["decay"], **options)

    def update(self):
        self.average.update()

    def weights(self):
        return dict(self.average.ema_model.named_parameters())


def train_peer(run, peer, batches):
    """The peer's loop, step by step: loss, backward, clip, Adam, average."""
    dtype = next(peer.parameters()).dtype
    options = run["optimizer"]
    with parity.DefaultDtype(torch.float32):
        process = parity.diffusion_of(peer, run["diffusion"], run["model"]["resolution"]).to(dtype)
    adam = torch.optim.Adam(peer.parameters(), lr=options["lr"],
                            betas=(options["beta1"], options["beta2"]), eps=1e-8)
    warmup = max(options.get("warmup_steps", 0), 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda s: min(1.0, (s + 1) / warmup))
    average = (PowerAverage if run["ema"]["kind"] == "power" else ConstantAverage)(peer, run["ema"])
    losses, norms = [], []
    for step in range(STEPS):
        x0, noise = (batches[name][step].to(dtype) for name in ("x0", "noise"))
        t = batches["t"][step]
        with parity.DefaultDtype(dtype):
            loss = process(x0, times=t, noise=noise)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(peer.parameters(), options["clip_norm"]))
        adam.step()
        adam.zero_grad()
        schedule.step()
        average.update()  # its decay is computed in the default type, which users leave at float32
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), "norms": torch.stack(norms)} | parity.with_prefix(
        "weight.", dict(peer.named_parameters())) | parity.with_prefix("ema.", average.weights())


class Training(parity.ParityTest):
    def run_both(self, run, dtype, **changes):
        peer = parity.perturb(parity.make_peer(run["model"])).to(dtype)
        weights = parity.with_prefix("weight.", peer.state_dict())
        ours = parity.probe("train", weights, dtype=str(dtype).removeprefix("torch."),
                            steps=STEPS, batch=BATCH, **(run | changes))
        batches = {name: ours.pop(name) for name in ("x0", "t", "noise")}
        return ours, {n: t.detach() for n, t in train_peer(run, peer, batches).items()}

    def compare(self, run, dtype, bound):
        ours, peers = self.run_both(run, dtype)
        self.assertEqual(list(ours), list(peers))
        worst = 0.0
        for name, tensor in peers.items():
            # Adam makes steps of full size out of the rounding noise in this gradient.
            if not name.endswith(".to_k.bias"):
                worst = max(worst, self.assert_relative_l2(ours[name], tensor, bound, name))
        print(f"{run['model']['name']} {dtype}: {worst:.1e}")

    def test_float64(self):
        for run in (LUCID_RUN, HO_RUN):
            with self.subTest(model=run["model"]["name"]):
                self.compare(run, torch.float64, 1e-9)

    def test_float32(self):
        for run in (LUCID_RUN, HO_RUN):
            with self.subTest(model=run["model"]["name"]):
                self.compare(run, torch.float32, 1e-4)

    def test_a_wrong_beta_is_noticed(self):
        wrong = LUCID_RUN["optimizer"] | {"beta2": 0.999}
        ours, peers = self.run_both(LUCID_RUN, torch.float64, optimizer=wrong)
        with self.assertRaises(AssertionError):
            for name, tensor in peers.items():
                self.assert_relative_l2(ours[name], tensor, 1e-9, name)


if __name__ == "__main__":
    parity.main()
