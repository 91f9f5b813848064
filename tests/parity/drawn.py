"""The images of a folder, and what an evaluation and a sampling draw: written in NumPy and Pillow from
suite/random/README.md and suite/data/README.md alone, beside batches.py. batches_test.py compares."""

import hashlib
import os

import numpy as np
from batches import Sequence
from PIL import Image

EVAL_NOISE, SAMPLER = 8, 9
EVALUATED = 8  # timesteps


def folder_splits(root):
    """Paths of the training and of the test images of a folder without folders train and test."""
    paths = [os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names]
    by_hash = sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(path)).digest())
    test = set(by_hash[len(paths) - len(paths) // 10:])
    in_order = sorted(paths, key=os.fsencode)
    return [path for path in in_order if path not in test], [path for path in in_order if path in test]


def folder_picture(path, side):
    """float32 [3, side, side]: the shorter side resized by a triangle, antialiased, and the centre cut out."""
    image = Image.open(path).convert("RGB")
    width, height = image.size
    size = (side, int(side * height / width)) if width <= height else (int(side * width / height), side)
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = (int(round((length - side) / 2)) for length in image.size)
    image = image.crop((left, top, left + side, top + side))
    bytes_of = np.asarray(image).transpose(2, 0, 1)
    return bytes_of.astype(np.float32) / np.float32(255) * np.float32(2) - np.float32(1)


def evaluation_draw(seed, timesteps, picture, i):
    """Timestep and noise of image i of the test split."""
    noise = Sequence(seed, EVAL_NOISE, 0, i).normals(picture.size).astype(np.float32).reshape(picture.shape)
    return (2 * (i % EVALUATED) + 1) * timesteps // (2 * EVALUATED), noise


def initial_noise(seed, shape, sample):
    """x_T of a sample; what is added after evaluation k of the network has k in place of the step 0."""
    return Sequence(seed, SAMPLER, 0, sample).normals(int(np.prod(shape))).astype(np.float32).reshape(shape)
