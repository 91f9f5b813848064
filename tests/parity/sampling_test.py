"""Both samplers beside both peers' own loops, with the same noise injected everywhere."""

import contextlib
import unittest.mock

import parity
import torch
from diffusers import DDIMScheduler, DDPMScheduler
from diffusers.schedulers import scheduling_ddpm

SAMPLES = 3
DDIM_STEPS = 10
DDPM_TIMESTEPS = 30  # a whole DDPM sampling of a process this short
# Network, type, objective, eta: a sampler knows of the network nothing but its output.
CASES = (
    (parity.LUCID_SMALL, torch.float64, "eps", 0.7),
    (parity.LUCID_SMALL, torch.float64, "x0", 0.7),
    (parity.LUCID_SMALL, torch.float64, "v", 0.0),
    (parity.LUCID_SMALL, torch.float32, "v", 0.7),
    (parity.HO_SMALL, torch.float32, "eps", 0.0),
)


def noise_of(config, steps, dtype, seed=4):
    """x_T, and what is added after every evaluation of the network."""
    generator = torch.Generator().manual_seed(seed)
    shape = (SAMPLES, config["channels"], config["resolution"], config["resolution"])
    drawn = torch.randn((steps + 1, *shape), generator=generator, dtype=torch.float64).to(dtype)
    return {"initial": drawn[0], "noise": drawn[1:]}


@contextlib.contextmanager
def drawing(noise):
    """In here torch.randn gives x_T, and randn_like the others in their order."""
    later = iter(noise["noise"])
    with (
        unittest.mock.patch.object(torch, "randn", lambda *_, **__: noise["initial"].clone()),
        unittest.mock.patch.object(torch, "randn_like", lambda *_, **__: next(later)),
    ):
        yield


def lucid_samples(peer, diffusion, noise, **sampling):
    """denoising-diffusion-pytorch's own sampling."""
    dtype = noise["initial"].dtype
    with parity.DefaultDtype(torch.float32):
        process = parity.diffusion_of(peer, diffusion, noise["initial"].shape[-1], **sampling)
    process = process.to(dtype).eval()
    with parity.DefaultDtype(dtype), drawing(noise):
        return process.sample(batch_size=SAMPLES)


def ddim_samples(peer, betas, noise, eta, steps=DDIM_STEPS):
    """diffusers' DDIMScheduler; "trailing" is lucidrains' grid where it has whole numbers."""
    scheduler = DDIMScheduler(
        trained_betas=betas.numpy(), clip_sample=True, set_alpha_to_one=True,
        timestep_spacing="trailing",
    )
    scheduler.set_timesteps(steps)
    x = noise["initial"].clone()
    for k, t in enumerate(scheduler.timesteps):
        out = peer(x, t.expand(SAMPLES))
        fresh = noise["noise"][k] if eta else None
        x = scheduler.step(out, t, x, eta, use_clipped_model_output=True,
                           variance_noise=fresh).prev_sample
    return x


def ddpm_samples(peer, betas, noise, variance):
    """diffusers' DDPMScheduler."""
    scheduler = DDPMScheduler(
        num_train_timesteps=DDPM_TIMESTEPS, trained_betas=betas.numpy(), clip_sample=True,
        variance_type=f"fixed_{variance}",
    )
    x, later = noise["initial"].clone(), iter(noise["noise"])
    with unittest.mock.patch.object(scheduling_ddpm, "randn_tensor", lambda *_, **__: next(later)):
        for t in scheduler.timesteps:
            x = scheduler.step(peer(x, t.expand(SAMPLES)), t, x).prev_sample
    return x


def peer_of(config, dtype):
    with parity.DefaultDtype(torch.float32):
        return parity.perturb(parity.make_peer(config)).to(dtype).eval()


def our_samples(peer, config, diffusion, sample, noise, **more):
    weights = parity.with_prefix("weight.", peer.state_dict())
    dtype = str(noise["initial"].dtype).removeprefix("torch.")
    return parity.probe("sample", noise | weights, model=config, diffusion=diffusion,
                        sample=sample, dtype=dtype, **more)["samples"]


def ddim(eta):
    return {"sampler": "ddim", "ddim_steps": DDIM_STEPS, "ddim_eta": eta}


def ddpm(variance):
    return {"sampler": "ddpm", "ddpm_variance": variance}


class Sampling(parity.ParityTest):
    def assert_close(self, ours, peers, bound, what):
        """Samples are of about [-1, 1], so the difference is not divided by anything."""
        self.assertEqual(ours.shape, peers.shape, what)
        self.assertEqual(ours.dtype, peers.dtype, what)
        # Else nearness would say little: of noise, or of what was clamped.
        self.assertGreater(parity.largest(peers), 0.5, what)
        self.assertGreater((peers.abs() < 0.999).double().mean(), 0.05, what)
        error = parity.largest(ours - peers)
        self.assertLessEqual(error, bound, what)
        print(f"{what}: {error:.1e}")

    def test_lucidrains_ddim(self):
        for config, dtype, objective, eta in CASES:
            with self.subTest(model=config["name"], dtype=dtype, objective=objective, eta=eta):
                diffusion = {"schedule": "sigmoid", "objective": objective}
                noise, peer = noise_of(config, DDIM_STEPS, dtype), peer_of(config, dtype)
                peers = lucid_samples(peer, diffusion, noise, sampling_timesteps=DDIM_STEPS,
                                      ddim_sampling_eta=eta)
                ours = our_samples(peer, config, diffusion, ddim(eta), noise)
                bound = 1e-10 if dtype == torch.float64 else 1e-4
                self.assert_close(ours, peers, bound,
                                  f"{config['name']} {objective} ddim eta {eta} {dtype}")

    def test_lucidrains_ddpm(self):
        for config, dtype, objective, _ in CASES:
            with self.subTest(model=config["name"], dtype=dtype, objective=objective):
                diffusion = {"schedule": "cosine", "objective": objective,
                             "timesteps": DDPM_TIMESTEPS}
                noise, peer = noise_of(config, DDPM_TIMESTEPS, dtype), peer_of(config, dtype)
                peers = lucid_samples(peer, diffusion, noise)
                ours = our_samples(peer, config, diffusion, ddpm("small"), noise)
                bound = 1e-10 if dtype == torch.float64 else 1e-4
                self.assert_close(ours, peers, bound, f"{config['name']} {objective} ddpm {dtype}")

    def test_lucidrains_ddim_whose_number_of_steps_does_not_divide_the_timesteps(self):
        config, dtype, diffusion = parity.LUCID_SMALL, torch.float32, {"objective": "v"}
        for steps in (3, 7, 13):
            with self.subTest(steps=steps):
                noise, peer = noise_of(config, steps, dtype), peer_of(config, dtype)
                peers = lucid_samples(peer, diffusion, noise, sampling_timesteps=steps)
                ours = our_samples(peer, config, diffusion,
                                   {"sampler": "ddim", "ddim_steps": steps}, noise)
                self.assert_close(ours, peers, 1e-4, f"ddim of {steps} steps")

    def test_diffusers_ddim(self):
        config, dtype = parity.HO_SMALL, torch.float32
        peer = peer_of(config, dtype)
        betas = parity.diffusion_of(peer, {}, config["resolution"]).betas
        for eta in (0.0, 0.7):
            with self.subTest(eta=eta), torch.inference_mode():
                noise = noise_of(config, DDIM_STEPS, dtype)
                ours = our_samples(peer, config, {}, ddim(eta), noise)
                self.assert_close(ours, ddim_samples(peer, betas, noise, eta), 1e-4,
                                  f"diffusers ddim eta {eta}")

    def test_diffusers_ddim_whose_number_of_steps_does_not_divide_the_timesteps(self):
        config, dtype = parity.HO_SMALL, torch.float32
        peer = peer_of(config, dtype)
        betas = parity.diffusion_of(peer, {}, config["resolution"]).betas
        for steps in (3, 7, 13):
            with self.subTest(steps=steps), torch.inference_mode():
                noise = noise_of(config, steps, dtype)
                sample = {"sampler": "ddim", "ddim_steps": steps, "ddim_eta": 0.7}
                peers = ddim_samples(peer, betas, noise, 0.7, steps)
                ours = our_samples(peer, config, {}, sample | {"grid": "trailing"}, noise)
                self.assert_close(ours, peers, 1e-4, f"diffusers ddim of {steps} steps")
                with self.assertRaises(AssertionError):
                    self.assert_close(our_samples(peer, config, {}, sample, noise), peers, 1e-4,
                                      "the other grid")

    def test_the_timesteps_of_trailing_are_those_of_diffusers(self):
        for count in (30, 100, 1000):
            ours = parity.probe("timesteps", timesteps=count, grid="trailing")
            scheduler = DDIMScheduler(num_train_timesteps=count, timestep_spacing="trailing")
            for steps in range(1, count + 1):
                scheduler.set_timesteps(steps)
                peers = scheduler.timesteps[scheduler.timesteps >= 0]
                self.assertEqual(ours["t"][steps - 1, :steps].tolist(), peers.tolist(), (count, steps))
                following = (peers - count // steps).clamp(min=-1)
                self.assertEqual(ours["next"][steps - 1, :steps].tolist(), following.tolist(), (count, steps))

    def test_the_grids_agree_where_the_number_of_steps_divides_the_timesteps(self):
        lucid, trailing = (parity.probe("timesteps", timesteps=1000, grid=grid)["t"] for grid in ("lucid", "trailing"))
        same = [steps for steps in range(1, 101) if torch.equal(lucid[steps - 1], trailing[steps - 1])]
        self.assertEqual(same, [1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100])

    def test_diffusers_ddpm(self):
        config, dtype = parity.HO_SMALL, torch.float32
        diffusion = {"timesteps": DDPM_TIMESTEPS}
        peer = peer_of(config, dtype)
        betas = parity.diffusion_of(peer, diffusion, config["resolution"]).betas
        for variance in ("small", "large"):
            with self.subTest(variance=variance), torch.inference_mode():
                noise = noise_of(config, DDPM_TIMESTEPS, dtype)
                ours = our_samples(peer, config, diffusion, ddpm(variance), noise)
                self.assert_close(ours, ddpm_samples(peer, betas, noise, variance), 1e-4,
                                  f"diffusers ddpm {variance}")

    def test_another_layout_batch_or_kernel_stays_as_near(self):
        for config in (parity.LUCID_SMALL, parity.HO_SMALL):
            with self.subTest(model=config["name"]):
                diffusion = {"objective": "v"}
                noise = noise_of(config, DDIM_STEPS, torch.float32)
                peer = peer_of(config, torch.float32)
                peers = lucid_samples(peer, diffusion, noise, sampling_timesteps=DDIM_STEPS)
                ours = our_samples(peer, config, diffusion, ddim(0.0), noise, batch=2,
                                   channels_last=True, ops="fused")
                self.assert_close(ours, peers, 1e-4, f"{config['name']} fused+channels-last")

    def test_another_variance_eta_or_number_of_steps_is_noticed(self):
        config, dtype = parity.LUCID_SMALL, torch.float32
        peer = peer_of(config, dtype)
        diffusion = {"timesteps": DDPM_TIMESTEPS, "objective": "v"}
        noise = noise_of(config, DDPM_TIMESTEPS, dtype)
        peers = lucid_samples(peer, diffusion, noise)
        ddim_peers = lucid_samples(peer, diffusion, noise, sampling_timesteps=DDIM_STEPS)
        for sample, other in (
            (ddpm("large"), peers), (ddim(0.1), ddim_peers),
            ({"sampler": "ddim", "ddim_steps": DDIM_STEPS + 1}, ddim_peers),
        ):
            with self.subTest(sample=sample), self.assertRaises(AssertionError):
                ours = our_samples(peer, config, diffusion, sample, noise)
                self.assert_close(ours, other, 1e-4, "noticed")


if __name__ == "__main__":
    parity.main()
