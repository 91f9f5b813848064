"""Every batch again, bit for bit: written in NumPy from suite/random/README.md alone. batches_test.py compares."""

import functools
import math
from dataclasses import dataclass

import numpy as np

DATA, ORDER, FLIP, TIMESTEP, NOISE = 1, 2, 3, 4, 5
HALF, MASK = np.uint64(32), np.uint64(0xFFFFFFFF)
added = lambda values: functools.reduce(lambda a, b: a + b, values)  # sum() compensates from Python 3.12 on


def negative_log(words):
    mantissa, exponent = np.frexp(words.astype(np.float64) + 1)
    mantissa, exponent = 2 * mantissa, exponent - 1.0
    upper = mantissa > math.sqrt(2)
    mantissa, exponent = np.where(upper, 0.5 * mantissa, mantissa), np.where(upper, exponent + 1, exponent)
    s = (mantissa - 1) / (mantissa + 1)
    z = s * s
    q = 1 / 19
    for j in (17, 15, 13, 11, 9, 7, 5, 3, 1):
        q = q * z + 1 / j
    return (32 - exponent) * math.log(2) - 2 * s * q


def sin_cos(words):
    words = words.astype(np.uint32)
    quarter = (words + np.uint32(1 << 29)) >> np.uint32(30)
    x = (words - (quarter << np.uint32(30))).view(np.int32).astype(np.float64) * (2.0**-31 * math.pi)
    z = x * x
    s, c = -1 / math.factorial(15), 1 / math.factorial(16)
    for n, sign in ((13, 1), (11, -1), (9, 1), (7, -1), (5, 1), (3, -1)):
        s = s * z + sign / math.factorial(n)
    for n, sign in ((14, -1), (12, 1), (10, -1), (8, 1), (6, -1), (4, 1), (2, -1)):
        c = c * z + sign / math.factorial(n)
    s, c = x + x * z * s, 1 + z * c
    turns = [quarter == 0, quarter == 1, quarter == 2, quarter == 3]
    return np.select(turns, [s, c, -s, -c]), np.select(turns, [c, -s, -c, s])


class Sequence:
    """The numbers of one (seed, stream, step, sample)."""

    def __init__(self, seed, stream, step, sample):
        self.key, self.counter, self.taken = (seed & 0xFFFFFFFF, seed >> 32), (stream, sample, step), 0

    def blocks(self, first, count):
        """Words [count, 4]."""
        a = np.arange(first, first + count, dtype=np.uint64)
        b, c, d = (np.full(count, value, dtype=np.uint64) for value in self.counter)
        for r in range(10):
            left, right = np.uint64(0xCD9E8D57) * c, np.uint64(0xD2511F53) * a
            k0, k1 = ((k + r * w) & 0xFFFFFFFF for k, w in zip(self.key, (0x9E3779B9, 0xBB67AE85)))
            a, b, c, d = (left >> HALF) ^ b ^ np.uint64(k0), left & MASK, (right >> HALF) ^ d ^ np.uint64(k1), right & MASK
        return np.stack([a, b, c, d], axis=1)

    def u32(self):
        if self.taken % 256 == 0 or not hasattr(self, "ahead"):
            self.base, self.ahead = self.taken // 4, self.blocks(self.taken // 4, 64).ravel().tolist()
        word = self.ahead[self.taken - 4 * self.base]
        self.taken += 1
        return word

    def u64(self):
        return self.u32() | self.u32() << 32

    def below(self, n):
        draw = self.u64()
        while draw < 2**64 % n:
            draw = self.u64()
        return draw % n

    def uniform(self):
        return ((self.u64() >> 11) + 1) * 2.0**-53

    def normals(self, n):
        first, count = -(-self.taken // 4), -(-n // 4)
        words = self.blocks(first, count)
        self.taken = 4 * (first + count)
        radii = np.sqrt(2 * negative_log(words[:, ::2]))
        sine, cosine = sin_cos(words[:, 1::2])
        return np.stack([radii * cosine, radii * sine], axis=2).ravel()[:n]


def smooth_field(draws, channels, side, waves, most):
    lines = [(draws.below(2 * most + 1) - most, draws.below(2 * most + 1) - most, draws.u32()) for _ in range(waves)]
    amplitudes = [[0.25 + 0.75 * draws.uniform() for _ in lines] for _ in range(channels)]

    def turn(f):
        words = [(abs(i * f) * 2**32 // side * (1 if f > 0 else -1)) % 2**32 for i in range(side)]
        return np.array(words, dtype=np.uint64)

    field = np.zeros((channels, side, side))
    for c, drawn in enumerate(amplitudes):
        for (f, g, phase), amplitude in zip(lines, [amplitude / added(drawn) for amplitude in drawn]):
            (sin_x, cos_x), (sin_y, cos_y) = sin_cos(turn(f)), sin_cos((turn(g) + np.uint64(phase)) & MASK)
            field[c] += (amplitude * cos_y)[:, None] * cos_x - (amplitude * sin_y)[:, None] * sin_x
    return field


def gmm16():
    pattern = lambda k, q, most: smooth_field(Sequence(16, DATA, q, k), 1, 16, 4, most).ravel()
    means = [mean * (0.6 / np.abs(mean).max()) for mean in (pattern(k, 0, 2) for k in range(8))]
    columns = [[pattern(k, q, 3) for q in range(1, 5)] for k in range(8)]
    return means, [[u * (0.1 / math.sqrt(added((u * u).tolist()) / 256)) for u in of_k] for of_k in columns]


def gmm16_picture(seed, j, means, columns):
    draws = Sequence(seed, DATA, 1, j)
    u = draws.uniform()
    k = next(k for k in range(8) if (k + 1) / 8 >= u)
    z, xi = draws.normals(4), draws.normals(256)
    value = means[k] + 0.05 * xi
    for column, weight in zip(columns[k], z):
        value = value + column * weight
    return value.reshape(1, 16, 16).astype(np.float32)


def permutation(seed, epoch, n):
    order, draws = list(range(n)), Sequence(seed, ORDER, epoch, 0)
    for m in range(n, 1, -1):
        other = draws.below(m)
        order[m - 1], order[other] = order[other], order[m - 1]
    return order


@dataclass
class Settings:
    """Holds what a benchmark says of its batches, and `picture(j)` [C, H, W]."""
    seed: int
    n: int
    batch: int
    timesteps: int
    flip: bool
    picture: object


def make_batch(settings, s):
    x0, t, noise = [], [], []
    for i in range(settings.batch):
        epoch, at = divmod(s * settings.batch + i, settings.n)
        picture = settings.picture(permutation(settings.seed, epoch, settings.n)[at])
        if settings.flip and Sequence(settings.seed, FLIP, s, i).u32() % 2:
            picture = picture[:, :, ::-1]
        x0.append(picture.copy())
        t.append(Sequence(settings.seed, TIMESTEP, s, i).below(settings.timesteps))
        noise.append(Sequence(settings.seed, NOISE, s, i).normals(picture.size).astype(np.float32).reshape(picture.shape))
    return np.stack(x0), np.array(t), np.stack(noise)
