"""The generator that Noisemark's resampling draws from, for references in Python."""


class Mt19937_64:
    """Matsumoto and Nishimura's 64-bit Mersenne Twister, written from their definition."""

    def __init__(self, seed):
        self.mask = (1 << 64) - 1
        self.state = [seed & self.mask]
        for i in range(1, 312):
            last = self.state[-1]
            self.state.append((6364136223846793005 * (last ^ (last >> 62)) + i) & self.mask)
        self.at = 312

    def refill(self):
        low, high = (1 << 31) - 1, self.mask ^ ((1 << 31) - 1)
        for i in range(312):
            x = (self.state[i] & high) | (self.state[(i + 1) % 312] & low)
            twist = 0xB5026F5AA96619E9 if x & 1 else 0
            self.state[i] = self.state[(i + 156) % 312] ^ (x >> 1) ^ twist
        self.at = 0

    def draw(self):
        if self.at == 312:
            self.refill()
        x = self.state[self.at]
        self.at += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000 & self.mask
        x ^= (x << 37) & 0xFFF7EEE000000000 & self.mask
        return x ^ (x >> 43)

    def below(self, bound):
        return self.draw() * bound >> 64
