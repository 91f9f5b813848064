"""Batches made in Python from the documentation (batches.py) beside ours, bit for bit."""

import os
import random
import tempfile

import batches
import drawn
import numpy as np
import parity
import pictures
import torch


class Batches(parity.ParityTest):
    def compare(self, settings, first, steps, **request):
        ours = parity.probe("batches", seed=settings.seed, batch=settings.batch, first=first, steps=first + steps,
                            diffusion={"timesteps": settings.timesteps}, flip=settings.flip, **request)
        for s in range(steps):
            for name, value in zip(("x0", "t", "noise"), batches.make_batch(settings, first + s)):
                self.assert_same_bits(ours[name][s], torch.from_numpy(value), f"{name} of step {first + s}")

    def test_gmm16(self):
        mixture = batches.gmm16()
        picture = lambda j: batches.gmm16_picture(2**40 + 3, j, *mixture)
        request = {"data": "gmm16", "data_seed": 2**40 + 3, "train_samples": 50, "model": {"channels": 1, "resolution": 16}}
        self.compare(batches.Settings(5, 50, 7, 1000, False, picture), 0, 16, **request)
        self.compare(batches.Settings(2**63 - 9, 50, 3, 77, False, picture), 10**6, 2, **request)

    def test_synthetic(self):
        draws = lambda j: batches.Sequence(4, batches.DATA, 1, j)
        picture = lambda j: batches.smooth_field(draws(j), 3, 24, 6, 4).astype(np.float32)
        self.compare(batches.Settings(6, 9, 5, 4000, True, picture), 0, 5, data="synthetic", data_seed=4,
                     train_samples=9, model={"channels": 3, "resolution": 24})

    def test_cifar10(self):
        with tempfile.TemporaryDirectory() as folder:
            records = b""
            for i, name in enumerate([f"data_batch_{j}.bin" for j in range(1, 6)] + ["test_batch.bin"]):
                made = b"".join(bytes([i]) + random.Random(j).randbytes(3072) for j in range(8 * i, 8 * i + 8))
                records += made if i < 5 else b""
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(made)
            stored = np.frombuffer(records, dtype=np.uint8).reshape(40, 3073)[:, 1:].reshape(40, 3, 32, 32)
            picture = lambda j: stored[j].astype(np.float32) / np.float32(255) * np.float32(2) - np.float32(1)
            self.compare(batches.Settings(1, 40, 16, 1000, True, picture), 0, 6, data="cifar10", folder=folder,
                         model={"channels": 3, "resolution": 32})

    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for j in range(25):
                path = os.path.join(folder, f"{j % 3}", f"{j}.{'png' if j % 2 else 'jpg'}")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                pictures.photo(24 + 3 * j, 96 - 2 * j).save(path)
            train, test = drawn.folder_splits(folder)
            picture = lambda j: drawn.folder_picture(os.path.join(folder, train[j]), 16)
            request = {"data": "folder", "folder": folder, "model": {"channels": 3, "resolution": 16}}
            self.compare(batches.Settings(3, len(train), 6, 1000, True, picture), 0, 5, **request)
            self.assertEqual(len(test), 2)

    def test_evaluation(self):
        seed, timesteps, samples = 2**33 + 1, 1000, 24
        diffusion = {"timesteps": timesteps}
        ours = parity.probe("evaluation", seed=seed, data="synthetic", data_seed=4, samples=samples, batch=5,
                            diffusion=diffusion, model={"channels": 3, "resolution": 16})
        buffers = parity.probe("schedule", diffusion=diffusion)
        for i in range(samples):
            image = batches.smooth_field(batches.Sequence(4, batches.DATA, 2, i), 3, 16, 6, 4).astype(np.float32)
            t, noise = drawn.evaluation_draw(seed, timesteps, image, i)
            seen = (buffers["sqrt_alphas_cumprod"][t] * torch.from_numpy(image)
                    + buffers["sqrt_one_minus_alphas_cumprod"][t] * torch.from_numpy(noise))
            self.assertEqual(int(ours["t"][i]), t)
            self.assert_same_bits(ours["x"][i], seen, f"test image {i}")

    def test_initial_noise(self):
        for seed in (0, 2**40 + 3):
            ours = parity.probe("initial_noise", seed=seed, samples=3, model={"channels": 3, "resolution": 16},
                                sample={"sampler": "ddim", "ddim_steps": 2})
            for i in range(3):
                x = torch.from_numpy(drawn.initial_noise(seed, (3, 16, 16), i))
                self.assert_same_bits(ours["x_T"][i], x, f"x_T of sample {i}")


if __name__ == "__main__":
    parity.main()
