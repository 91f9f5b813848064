"""Image files: what Pillow's Image.open(file).convert("RGB") makes of them, bit for bit."""

import io
import os
import random
import tempfile
import warnings
import zlib

import numpy
import parity
import pictures
import torch
from PIL import Image

warnings.simplefilter("ignore")


def peers(data):
    """uint8 [H, W, 3], or None where Pillow refuses the file, or it has printers' colours."""
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
        if image.mode == "CMYK":
            return None
        return torch.from_numpy(numpy.array(image.convert("RGB")))
    except Exception:  # Pillow raises whatever its readers raise
        return None


def ours(files):
    """The same for a list of files, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, str(i)) for i in range(len(files))]
        for path, data in zip(paths, files):
            with open(path, "wb") as file:
                file.write(data)
        reply = parity.probe("decode", files=paths)
    return [reply.get(path) for path in paths]


def mutated(data, rng):
    data = bytearray(data)
    kind = rng.randrange(4)
    at = rng.randrange(len(data))
    if kind == 0:
        del data[at:]
    elif kind == 1:
        del data[at:at + rng.randrange(1, 9)]
    elif kind == 2:
        data[at] ^= 1 << rng.randrange(8)
    else:
        data[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(data)


class Images(parity.ParityTest):
    def assert_all_alike(self, files):
        for (name, data), mine in zip(files.items(), ours(list(files.values()))):
            peer = peers(data)
            self.assertIsNotNone(peer, f"{name}: Pillow refuses it")
            self.assertIsNotNone(mine, f"{name}: refused")
            self.assert_same_bits(mine, peer, name)

    def test_every_kind_of_png_has_the_peers_bits(self):
        self.assert_all_alike(pictures.all_pngs())

    def test_every_kind_of_jpeg_has_the_peers_bits(self):
        self.assert_all_alike(pictures.all_jpegs())

    def test_what_is_odd_behind_the_pixels_is_no_damage(self):
        whole = pictures.png(9, 8, 2, 8)
        end = pictures.chunk(b"IEND", b"")
        body = whole[:-len(end)]
        self.assert_all_alike({
            "no end": body, "half an end": whole[:-6], "bytes behind": whole + b"junk" * 9,
            "a wrong checksum": whole[:-1] + b"x", "no letters": body + b"\0\0\0\0....1234",
            "more pixels": body + pictures.chunk(b"IDAT", b"hello") + end,
            "pixels without their checksum": body[:-1] + b"x" + end,
        })

    def test_missing_pixels_are_damage_even_where_the_peer_makes_them_up(self):
        base = pictures.jpeg(pictures.photo(64, 64))
        restarts = pictures.jpeg(pictures.photo(64, 64), restart_marker_blocks=2)
        marker = restarts.index(b"\xff\xd3")
        progressive = pictures.jpeg(pictures.photo(64, 64), progressive=True)
        files = {
            "cut, with an end": base[:-300] + b"\xff\xd9", "cut out": base[:-400] + base[-200:],
            "a restart lost": restarts[:marker] + restarts[marker + 2:],
            "scans missing": progressive[:progressive.rindex(b"\xff\xda")] + b"\xff\xd9",
            "rows missing": pictures.png(9, 8, 2, 8)[:33] + pictures.chunk(b"IDAT", zlib.compress(bytes(28 * 5)))
                            + pictures.chunk(b"IEND", b""),
        }
        for (name, data), mine in zip(files.items(), ours(list(files.values()))):
            self.assertIsNotNone(peers(data), f"{name}: Pillow refuses it too, so it shows nothing")
            self.assertIsNone(mine, name)

    def assert_read_or_refused_alike(self, files):
        read = 0
        for index, (data, mine) in enumerate(zip(files, ours(files))):
            peer = peers(data)
            self.assertEqual(mine is None, peer is None, f"file {index}")
            if peer is not None:
                self.assert_same_bits(mine, peer, f"file {index}")
                read += 1
        self.assertGreater(min(read, len(files) - read), len(files) // 4)

    def test_animations_right_or_wrong_are_read_or_refused_as_the_peer_does(self):
        rng = random.Random(27)
        self.assert_read_or_refused_alike([pictures.animation(rng) for _ in range(2000)])

    def test_chunks_beside_the_pixels_right_or_wrong_are_read_or_refused_as_the_peer_does(self):
        rng = random.Random(27)
        self.assert_read_or_refused_alike([pictures.beside(rng) for _ in range(3000)])

    def test_pixels_behind_the_end_of_their_stream_are_read_or_refused_as_the_peer_does(self):
        rng = random.Random(27)
        self.assert_read_or_refused_alike([pictures.spilled(rng) for _ in range(2000)])

    def test_jpegs_of_any_sampling_are_read_or_refused_as_the_peer_does(self):
        rng = random.Random(27)
        self.assert_read_or_refused_alike([pictures.sampled(rng) for _ in range(2000)])

    def test_printers_colours_are_refused(self):
        self.assertEqual(ours([pictures.jpeg(pictures.photo(8, 8).convert("CMYK"))]), [None])

    def test_mutated_files_are_refused_or_alike(self):
        rng = random.Random(27)
        sources = [pictures.png(9, 8, *kind, interlaced) for kind in pictures.KINDS for interlaced in (0, 1)]
        for progressive in (False, True):
            for subsampling in (0, 2):
                options = {"progressive": progressive, "subsampling": subsampling}
                sources += [pictures.jpeg(pictures.photo(24, 16), **options)] * 6
        files = [mutated(source, rng) for source in sources for _ in range(40)]
        alike = 0
        for index, (data, mine) in enumerate(zip(files, ours(files))):
            peer = peers(data)
            if peer is None or mine is None:
                continue
            self.assert_same_bits(mine, peer, f"mutation {index}")
            alike += 1
        self.assertGreater(alike, len(files) // 20)


if __name__ == "__main__":
    parity.main()
