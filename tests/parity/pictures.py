"""Image files of every kind, made byte by byte, for images_test.py."""

import io
import random
import struct
import zlib

from PIL import Image, ImageCms

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
KINDS = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8),
         (4, 8), (4, 16), (6, 8), (6, 16)]  # colour type and depth
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def paeth(left, above, corner):
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(guess - value))


def filtered(row, above, step, kind):
    """A row as the PNG filter `kind` stores it."""
    out = bytearray([kind])
    for i, value in enumerate(row):
        left, corner = (row[i - step], above[i - step]) if i >= step else (0, 0)
        out.append((value - [0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner)][kind]) % 256)
    return bytes(out)


def rows_of(width, height, colour, depth, interlaced, rng):
    """The bytes before compression: random pixels, every row with a random filter. The upper byte of 16-bit gray is
    often zero, so that both sides of where Pillow cuts it off are met."""
    bits = SAMPLES[colour] * depth
    step = max(1, bits // 8)
    out = b""
    for x, y, dx, dy in PASSES if interlaced else [(0, 0, 1, 1)]:
        columns, rows = len(range(x, width, dx)), len(range(y, height, dy))
        above = bytes((columns * bits + 7) // 8)
        for _ in range(rows if columns else 0):
            row = bytearray(rng.randrange(256) for _ in above)
            if (colour, depth) == (0, 16):
                row[::2] = bytes(rng.choice((0, 0, 1, value)) for value in row[::2])
            out += filtered(row, above, step, rng.randrange(5))
            above = bytes(row)
    return out


def png(width, height, colour, depth, interlaced=0, before=(), between=(), amid=(), after=(), seed=0, palette=None,
        packed=zlib.compress, single=False):
    """A PNG with extra chunks before the palette, before, amid and after the pixels; `single`: a chunk for each byte of them."""
    rng = random.Random(f"{seed} {width} {height} {colour} {depth} {interlaced}")
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    data += b"".join(chunk(*extra) for extra in before)
    if colour == 3:
        colours = palette if palette is not None else bytes(rng.randrange(256) for _ in range(3 << depth))
        data += chunk(b"PLTE", colours)
    data += b"".join(chunk(*extra) for extra in between)
    stream = packed(rows_of(width, height, colour, depth, interlaced, rng))
    cut = rng.randrange(len(stream))  # two chunks of pixels, and one without any
    parts = [bytes([byte]) for byte in stream] if single else [stream[:cut], b"", stream[cut:]]
    middle = len(parts) // 2
    data += b"".join(chunk(b"IDAT", part) for part in parts[:middle]) + b"".join(chunk(*extra) for extra in amid)
    data += b"".join(chunk(b"IDAT", part) for part in parts[middle:])
    return data + b"".join(chunk(*extra) for extra in after) + chunk(b"IEND", b"")


def packing(level=6, bits=15, strategy=zlib.Z_DEFAULT_STRATEGY):
    def packed(data):
        stream = zlib.compressobj(level, zlib.DEFLATED, bits, 8, strategy)
        return stream.compress(data) + stream.flush()
    return packed


def ways(colour):
    """Name -> arguments of png(): ways to store the same pixels."""
    return {
        "stored": {"packed": packing(0)}, "of fixed codes": {"packed": packing(strategy=zlib.Z_FIXED)},
        "of codes alone": {"packed": packing(strategy=zlib.Z_HUFFMAN_ONLY)}, "of a small window": {"packed": packing(9, 9)},
        "a byte in a chunk": {"single": True},
    } | ({} if colour == 3 else {"a palette for others": {"between": [(b"PLTE", bytes(range(48)))]}})


def ancillary(colour, depth):
    """Name -> arguments of png(): what may stand beside the pixels, right and wrong."""
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turned
    gamma = lambda value: (b"gAMA", struct.pack(">I", value))
    chrm = (b"cHRM", struct.pack(">8I", 30000, 32900, 60000, 30000, 30000, 60000, 15000, 6000))
    first = {
        "gAMA 1/2.2": [gamma(45455)], "gAMA 1": [gamma(100000)], "gAMA 0": [gamma(0)], "gAMA twice": [gamma(45455)] * 2,
        "sRGB": [(b"sRGB", b"\0")], "sRGB of no intent": [(b"sRGB", b"\x09")],
        "cHRM": [chrm], "cHRM of zeros": [(b"cHRM", bytes(32))],
        "sRGB beside gAMA and cHRM": [(b"sRGB", b"\0"), gamma(100000), chrm],
        "iCCP": [(b"iCCP", b"ICC Profile\0\0" + zlib.compress(icc))],
        "iCCP cut": [(b"iCCP", b"ICC Profile\0\0" + zlib.compress(icc)[:-9])],
        "iCCP of another": [(b"iCCP", b"x\0\0" + zlib.compress(b"no profile"))],
        "iCCP beside sRGB": [(b"iCCP", b"x\0\0" + zlib.compress(icc)), (b"sRGB", b"\0")],
        "sBIT": [(b"sBIT", b"\x03" * SAMPLES[colour])], "sBIT long": [(b"sBIT", b"\x08" * 9)], "sBIT 0": [(b"sBIT", b"\0")],
        "cICP": [(b"cICP", b"\x09\x10\0\1")], "private": [(b"prVt", b"anything")],
        "private with a digit": [(b"ab1_", b"x")], "oFFs": [(b"oFFs", bytes(9))],
        "pHYs": [(b"pHYs", struct.pack(">IIB", 2835, 5670, 1))], "sPLT": [(b"sPLT", b"p\0\x08" + bytes(6))],
        "tEXt": [(b"tEXt", b"Comment\0hi")], "tEXt bare": [(b"tEXt", b"\0hi")],
        "zTXt": [(b"zTXt", b"a\0\0" + zlib.compress(b"hi"))], "zTXt broken": [(b"zTXt", b"a\0\0junk")],
        "iTXt": [(b"iTXt", b"a\0\0\0en\0b\0hi")], "eXIf": [(b"eXIf", exif.tobytes()[6:])],
        "sTER": [(b"sTER", b"\1")], "sCAL": [(b"sCAL", b"\x011.5\0" + b"2.5")], "pCAL": [(b"pCAL", b"p\0" + bytes(9) + b"\2m\0a\0b")],
        "gIFg": [(b"gIFg", bytes(4))], "gIFx": [(b"gIFx", b"NETSCAPE2.0" + bytes(5))], "gIFt": [(b"gIFt", bytes(24) + b"hi")],
        "dSIG": [(b"dSIG", bytes(16))], "fRAc": [(b"fRAc", bytes(5))], "mDCV": [(b"mDCV", bytes(24))], "cLLI": [(b"cLLI", bytes(8))],
        "caBX": [(b"caBX", b"jumb")], "Apple's iDOT": [(b"iDOT", bytes(28))],
        "tIME": [(b"tIME", bytes(7))], "tIME long": [(b"tIME", bytes(9))],
        "animated": [(b"acTL", struct.pack(">II", 1, 0)),
                     (b"fcTL", struct.pack(">IIIIIHHBB", 0, 9, 8, 0, 0, 1, 10, 1, 1))],
        "animated, default apart": [(b"acTL", struct.pack(">II", 1, 0))],
    }
    background = {0: 2, 4: 2, 3: 1, 2: 6, 6: 6}[colour]
    second = {"bKGD": [(b"bKGD", bytes(background))], "hIST": [(b"hIST", bytes(2 << min(depth, 8)))]}
    if colour in (0, 2):
        second["tRNS"] = [(b"tRNS", bytes([0, 1] * SAMPLES[colour]))]
        second["tRNS long"] = [(b"tRNS", bytes(20))]
    if colour == 3:
        second["tRNS"] = [(b"tRNS", b"\x80\0\xff")]
        second["tRNS of one"] = [(b"tRNS", b"\xff\0\xff")]
        second["tRNS long"] = [(b"tRNS", b"\x80" * 300)]
    files = {name: {"before": extra} for name, extra in first.items()}
    files |= {name: {"between": extra} for name, extra in second.items()}
    return files | {f"{name} late": {"after": first[name]} for name in ("tEXt", "eXIf", "private", "tIME")}


def spilled(rng):
    """A PNG whose pixels go on behind the end of their stream, right or wrong, at times cut off there."""
    whole = png(9, 8, *rng.choice(KINDS), rng.choice((0, 1)))
    body = whole[:-12]
    ends = [len(body)]
    for _ in range(rng.randrange(1, 5)):
        kind = rng.choice((b"IDAT", b"IDAT", b"IDAT", b"tEXt", b"DDAT", b"IEND"))
        more = chunk(kind, rng.choice((b"", b"hello", zlib.compress(b"a\0b"), rng.randbytes(3000))))
        if not rng.randrange(3):
            more = more[:-1] + bytes([more[-1] ^ 1])
        body += more
        ends.append(len(body))
    whole = body + rng.choice((chunk(b"IEND", b""), b""))
    cut = rng.choice((len(whole), rng.choice(ends) - rng.randrange(1, 8)) + 6 * (rng.randrange(ends[0], len(whole)),))
    return whole[:cut]


def beside(rng):
    """A PNG with chunks beside its pixels of every kind and length, right and wrong, at times cut off behind them."""
    colour, depth = rng.choice(KINDS)
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()

    def body(kind):
        if kind in (b"zTXt", b"iTXt", b"iCCP"):
            packed = zlib.compress(rng.choice((b"hi", b"x" * 2**20, b"x" * (2**20 + 1), b"", icc)))
            if not rng.randrange(4):
                packed = packed[:rng.randrange(len(packed))]
            key = rng.choice((b"", b"a", b"key", b"XML:com.adobe.xmp"))
            how = bytes(rng.choice((0, 0, 0, 1)) for _ in range(1 + (kind == b"iTXt")))
            rest = rng.choice((b"", b"en\0b\0", b"en\0")) if kind == b"iTXt" else b""
            whole = key + rng.choice((b"\0", b"\0", b"\0", b"")) + how + rest + packed
            return whole[:rng.choice((len(whole), len(whole), rng.randrange(len(whole) + 1)))]
        if kind == b"IHDR":
            return struct.pack(">IIBBBBB", 9, 8, rng.choice((8, 3)), 2, 0, rng.choice((0, 0, 1)), 0)[:rng.choice((13, 12, 14))]
        return bytes(rng.choice((0, 1, rng.randrange(256))) for _ in range(rng.randrange(40)))

    def extras(most, kinds):
        picked = rng.choices(kinds, k=rng.randrange(most))
        return [(kind, body(kind)) for kind in picked]

    kinds = (b"gAMA", b"cHRM", b"sRGB", b"pHYs", b"tRNS", b"iCCP", b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"bKGD", b"hIST",
             b"sBIT", b"tIME", b"oFFs", b"sPLT", b"cICP", b"prVt", b"sTER", b"sCAL", b"pCAL", b"gIFg", b"mDCV", b"iDOT", b"PLTE")
    data = png(9, 8, colour, depth, rng.randrange(2), extras(3, kinds), extras(2, kinds), extras(2, kinds) * (not rng.randrange(8)),
               extras(3, (*kinds, b"IHDR", b"PLTE", b"fcTL", b"acTL")))
    return data if rng.randrange(8) else data[:-rng.randrange(1, 60)]


def animation(rng):
    """A PNG with chunks of an animation, most of them right, before, amid and behind its first pixels."""
    colour, depth = rng.choice(KINDS)
    interlaced = rng.randrange(2)
    next_number, size = 0, (9, 8)

    def number():
        nonlocal next_number
        next_number += 1 if rng.randrange(40) else 2
        return struct.pack(">I", next_number - 1)

    def frame():
        x, y = rng.choice(((0, 0), (0, 0), (rng.randrange(9), rng.randrange(8))))
        wide, high = rng.choice(((9 - x, 8 - y), (9 - x, 8 - y), (rng.randrange(10 - x), rng.randrange(9 - y)), (10, 1)))
        return wide, high, struct.pack(">IIIIHHBB", wide, high, x, y, 1, 10, rng.randrange(3), rng.randrange(2))

    def chunks(most, kinds):
        nonlocal size
        for kind in rng.choices(*zip(*kinds.items()), k=rng.randrange(most)):
            body = b"a\0b"
            if kind == b"acTL":
                body = struct.pack(">II", rng.choice((0, 1, 1, 2, 3, 2**31, 2**31 + 1)), 0)
            elif kind == b"fcTL":
                *size, body = frame()
            if kind in (b"fcTL", b"fdAT"):
                body = number() + body
            yield chunk(kind, body if rng.randrange(40) else body[:rng.randrange(len(body))])

    before = b"".join(chunks(4, {b"acTL": 3, b"fcTL": 3, b"tEXt": 1}))
    stream = zlib.compress(rows_of(*(size if rng.randrange(20) else (9, 8)), colour, depth, interlaced, rng))
    cut = rng.randrange(1, len(stream))
    pixels = b""
    for at, part in enumerate((stream[:cut], b"", stream[cut:])):
        kind = rng.choice((b"IDAT", b"IDAT", b"IDAT", b"fdAT", b"DDAT" if at else b"IDAT"))
        pixels += chunk(kind, number() + part if kind == b"fdAT" else part)
    after = b"".join(chunks(5, {b"acTL": 1, b"fcTL": 3, b"fdAT": 3, b"tEXt": 1}))
    header = struct.pack(">IIBBBBB", 9, 8, depth, colour, 0, 0, interlaced)
    palette = chunk(b"PLTE", rng.randbytes(3 << depth)) if colour == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette + before + pixels + after + chunk(b"IEND", b""))


def all_pngs():
    """Name -> bytes: every colour type, depth and interlacing, in every small size and with every ancillary chunk."""
    files = {}
    for colour, depth in KINDS:
        for interlaced in (0, 1):
            name = f"colour {colour}, {depth} bits, {'interlaced' if interlaced else 'plain'}"
            for width, height in [(1, 1), (2, 1), (1, 5), (3, 3), (5, 2), (8, 8), (9, 17), (33, 6)]:
                files[f"{name}, {width} x {height}"] = png(width, height, colour, depth, interlaced)
            files[f"{name}, 257 x 70"] = png(257, 70, colour, depth, interlaced)
            for extra, arguments in (ancillary(colour, depth) | ways(colour)).items():
                files[f"{name}, {extra}"] = png(9, 8, colour, depth, interlaced, **arguments)
    for depth in (1, 2, 4, 8):
        for colours in (bytes([9, 8, 7]), bytes([9, 8, 7, 1]), bytes(range(256)) * 3):
            files[f"palette of {len(colours)} bytes, {depth} bits"] = png(9, 8, 3, depth, palette=colours)
    return files


def photo(width, height, seed=0):
    rng = random.Random(seed)
    slopes = [rng.randrange(1, 12) for _ in range(6)]
    return Image.frombytes("RGB", (width, height), bytes(
        (slopes[c] * x + slopes[3 + c] * y + rng.randrange(20) + 60 * c) % 256
        for y in range(height) for x in range(width) for c in range(3)))


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **({"quality": 90} | options))
    return out.getvalue()


def with_segment(data, marker, body):
    return data[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body + data[2:]


def all_jpegs():
    """Name -> bytes: every kind that Pillow writes, and what others put into such files."""
    files = {}
    for width, height in [(1, 1), (7, 5), (8, 8), (16, 16), (17, 33), (40, 24)]:
        for subsampling in (0, 1, 2):
            for quality in (5, 60, 100):
                for progressive in (False, True):
                    options = {"subsampling": subsampling, "quality": quality, "progressive": progressive}
                    files[f"{width} x {height}, {options}"] = jpeg(photo(width, height, quality), **options)
        files[f"gray {width} x {height}"] = jpeg(photo(width, height).convert("L"))
        files[f"gray, progressive {width} x {height}"] = jpeg(photo(width, height).convert("L"), progressive=True)
        files[f"RGB {width} x {height}"] = jpeg(photo(width, height), keep_rgb=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    base = jpeg(photo(24, 16))
    bare = base[:2] + base[20:]  # the file without JFIF's segment
    adobe = lambda transform: with_segment(bare, 0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([transform]))
    return files | {
        "turned by EXIF": jpeg(photo(24, 16), exif=exif), "with a profile": jpeg(photo(24, 16), icc_profile=icc),
        "restarts": jpeg(photo(24, 16), restart_marker_blocks=1), "optimised": jpeg(photo(24, 16), optimize=True),
        "comment": jpeg(photo(24, 16), comment=b"hi"), "an empty comment": with_segment(base, 0xFE, b""),
        "two in one": base + base, "padded": base + bytes(64), "text behind": base + b"Hello",
        "fill bytes": base[:2] + b"\xff" * 3 + base[2:],
        "bytes before the end": base[:-2] + bytes(range(1, 41)) + b"\xff\xd9",
        "no JFIF": bare, "JFIF of version 9": base.replace(b"JFIF\0\1\1", b"JFIF\0\x09\1"),
        "APP segments": with_segment(with_segment(base, 0xE1, b"junk"), 0xED, b"Photoshop 3.0\0"),
        "a profile cut": with_segment(base, 0xE2, b"ICC_PROFILE\0\1\2cut"),
        "Adobe, of YCbCr": adobe(1), "Adobe, of RGB": adobe(0), "Adobe, unknown": adobe(7),
    }


class Bits:
    """A stream of entropy-coded bits as JPEG stores it."""

    def __init__(self):
        self.value, self.count, self.data = 0, 0, bytearray()

    def put(self, value, count):
        self.value, self.count = self.value << count | value, self.count + count
        while self.count >= 8:
            self.count -= 8
            byte = self.value >> self.count & 0xFF
            self.data += bytes([byte, 0]) if byte == 0xFF else bytes([byte])
        self.value &= (1 << self.count) - 1

    def number(self, code, length, size, value):
        """A code, then the bits of a number of `size` bits."""
        self.put(code, length)
        self.put(value if value >= 0 else value + (1 << size) - 1, size)

    def ended(self):
        if self.count:
            self.put((1 << 8 - self.count) - 1, 8 - self.count)
        data, self.data = bytes(self.data), bytearray()
        return data


AC_SYMBOLS = bytes([0x00, 0xF0] + [run << 4 | size for run in range(16) for size in range(1, 11)])


def put_block(bits, before, rng):
    """A block of random coefficients; its first one."""
    first = rng.randrange(-60, 61)
    size = abs(first - before).bit_length()
    bits.number(size, 4, size, first - before)
    at = 1
    for _ in range(rng.randrange(5)):
        run = rng.randrange(min(16, 64 - at))
        value = rng.choice((-1, 1)) * rng.randrange(1, 12)
        size = abs(value).bit_length()
        bits.number(AC_SYMBOLS.index(run << 4 | size), 8, size, value)
        at += run + 1
    if at < 64:
        bits.put(0, 8)
    return first


def drawn_jpeg(rng, width, height, factors, ids=(1, 2, 3), together=True, restart=0, wide=False, marks=()):
    """A JPEG of random coefficients. `factors`: each component's (across, down); `together`: in one scan; `wide`: steps of 16
    bits; `marks`: segments (marker, body) before all others."""
    segment = lambda marker, body: bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body
    most = [max(one[axis] for one in factors) for axis in (0, 1)]
    data = b"\xff\xd8" + b"".join(segment(*mark) for mark in marks)
    steps = [rng.randrange(1, 30) for _ in range(64)]
    data += segment(0xDB, struct.pack(">B64H", 16, *steps) if wide else bytes([0, *steps]))
    parts = b"".join(bytes([name, across << 4 | down, 0]) for name, (across, down) in zip(ids, factors))
    data += segment(0xC1 if wide else 0xC0, struct.pack(">BHHB", 8, height, width, len(factors)) + parts)
    data += segment(0xC4, bytes([0x00, 0, 0, 0, 12, *[0] * 12, *range(12)]))
    data += segment(0xC4, bytes([0x10, *[0] * 7, len(AC_SYMBOLS), *[0] * 8]) + AC_SYMBOLS)
    if restart:
        data += segment(0xDD, struct.pack(">H", restart))
    every = range(len(factors))
    for scan in [list(every)] if together else [[i] for i in every]:
        data += segment(0xDA, bytes([len(scan)]) + b"".join(bytes([ids[i], 0]) for i in scan) + bytes([0, 63, 0]))
        if len(scan) > 1:
            units, blocks = -(-width // (8 * most[0])) * -(-height // (8 * most[1])), [factors[i][0] * factors[i][1] for i in scan]
        else:
            across, down = factors[scan[0]] if len(factors) > 1 else most
            units, blocks = -(-(-(-width * across // most[0])) // 8) * -(-(-(-height * down // most[1])) // 8), [1]
        bits, before = Bits(), [0] * len(scan)
        for unit in range(units):
            if restart and unit and unit % restart == 0:
                data += bits.ended() + bytes([0xFF, 0xD0 + (unit // restart - 1) % 8])
                before = [0] * len(scan)
            for i, count in enumerate(blocks):
                for _ in range(count):
                    before[i] = put_block(bits, before[i], rng)
        data += bits.ended()
    return data + b"\xff\xd9"


def sampled(rng):
    """A JPEG of any sampling, names of components and order of scans, of which some are not to be read."""
    one = lambda: (rng.choice((1, 1, 2, 2, 3, 4)), rng.choice((1, 1, 2, 2, 4)))
    factors = [one() for _ in range(rng.choice((1, 3, 3, 3, 3, 3, 3, 4, 2)))]
    if rng.randrange(3):
        factors[1:] = [(1, 1)] * (len(factors) - 1)
    ids = rng.choice(((1, 2, 3, 4), (0, 1, 2, 3), b"RGBA", (1, 34, 35, 4), (7, 9, 8, 1)))
    marks = {"JFIF": (0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")}
    marks |= {transform: (0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([transform])) for transform in (0, 1, 2, 5)}
    picked = rng.choice(((), ("JFIF",), ("JFIF",), (0,), (1,), (2,), ("JFIF", 0), ("JFIF", 1), (5,)))
    return drawn_jpeg(rng, rng.randrange(1, 70), rng.randrange(1, 50), factors, ids, rng.randrange(4) > 0,
                      rng.choice((0, 0, 1, 3)), not rng.randrange(4), [marks[name] for name in picked])
