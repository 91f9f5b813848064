"""Our Fréchet distance beside pytorch-fid's own function and beside SciPy's matrix square root."""

import pathlib
import sys
import warnings

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "parity"))

import peers_required

try:
    import numpy as np
    from pytorch_fid.fid_score import calculate_frechet_distance, compute_statistics_of_path
    from scipy.linalg import sqrtm
except ImportError as missing:
    peers_required.cannot_import(missing)

import ours

# pytorch-fid goes through a general matrix square root, whose error in small eigenvalues is far above
# rounding; of the traces, diffusion.md's 1e-4 of an FID of some units.
PEER = 1e-6


def statistics(features):
    wide = features.astype(np.float64)
    return wide.mean(axis=0), np.cov(wide, rowvar=False)


def by_scipy(first, second):
    """The definition, with the symmetric form of the square root, in which no imaginary part arises."""
    (mu1, s1), (mu2, s2) = first, second
    root = sqrtm(s1).real
    cross = np.trace(sqrtm(root @ s2 @ root).real)
    return ((mu1 - mu2) ** 2).sum() + np.trace(s1) + np.trace(s2) - 2 * cross


class Frechet(ours.OursTest):
    def compare(self, a, b):
        first, second = statistics(a), statistics(b)
        mine = self.fid(self.save("a.npy", a), self.save("b.npy", b), "--json")
        traces = np.trace(first[1]) + np.trace(second[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = calculate_frechet_distance(*first, *second)
            scipy = by_scipy(first, second)
        print(f"{a.shape} {b.shape} {mine['method']}: ours {mine['value']:.9f}, "
              f"pytorch-fid {peer:.9f}, scipy {scipy:.9f}")
        self.assertLessEqual(abs(mine["value"] - scipy), PEER * traces)
        self.assertLessEqual(abs(mine["value"] - peer), PEER * traces)

    def test_more_samples_than_features(self):
        for d in (2, 17, 64, 200):
            self.compare(ours.features(1, 5 * d, d), ours.features(2, 4 * d, d, 2.5, 0.02))

    def test_a_wide_spectrum(self):
        self.compare(ours.features(1, 900, 64, 2.0), ours.features(2, 800, 64, 2.5))

    def test_fewer_samples_than_features_against_the_exact_rank(self):
        """pytorch-fid adds 1e-6 to the diagonal or keeps the noise of the zeros; so no comparison of values
        to more than the roots of what is lost: 200 eigenvalues at sqrt(1e-16) of the traces."""
        a, b = ours.features(1, 60, 200, 1.0), ours.features(2, 50, 200, 1.0, 0.1)
        first, second = statistics(a), statistics(b)
        mine = self.fid(self.save("a.npy", a), self.save("b.npy", b), "--json")
        self.assertEqual(mine["method"], "features")
        wide = [x.astype(np.float64) - x.astype(np.float64).mean(axis=0) for x in (a, b)]
        cross = np.linalg.svd(wide[0] @ wide[1].T, compute_uv=False).sum() / np.sqrt(59 * 49)
        exact = (((first[0] - second[0]) ** 2).sum() + np.trace(first[1]) + np.trace(second[1])
                 - 2 * cross)
        self.assertLessEqual(abs(mine["value"] - exact), 1e-11 * mine["trace_term"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = calculate_frechet_distance(*first, *second)
        print(f"N < d: ours {mine['value']:.9f}, numpy's svd {exact:.9f}, pytorch-fid {peer:.9f}")
        self.assertLessEqual(abs(mine["value"] - peer), 1e-4 * mine["trace_term"])

    def test_each_reads_the_others_statistics(self):
        a, b = ours.features(3, 300, 32), ours.features(4, 200, 32, 2.5)
        ours_file = self.folder / "ours.npz"
        self.fid(self.save("a.npy", a), "--out", ours_file)
        mu, sigma = compute_statistics_of_path(str(ours_file), None, 1, 32, "cpu")
        np.testing.assert_allclose(mu, statistics(a)[0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(sigma, statistics(a)[1], rtol=0, atol=1e-13)
        with np.load(ours_file) as file:
            self.assertEqual(int(file["n"]), 300)
        # pytorch-fid --save-stats writes them so
        mean, covariance = statistics(b)
        np.savez_compressed(self.folder / "peer.npz", mu=mean, sigma=covariance)
        by_files = self.fid(ours_file, self.folder / "peer.npz", "--json")
        by_features = self.fid(self.folder / "a.npy", self.save("b.npy", b), "--json")
        self.assertAlmostEqual(by_files["value"], by_features["value"], delta=1e-12)
        self.assertIsNone(by_files["b"]["n"])

    def test_another_divisor_is_noticed(self):
        """The comparison can fail: a covariance over N in place of N - 1."""
        a, b = ours.features(1, 60, 8), ours.features(2, 60, 8)
        wrong = a.mean(axis=0), np.cov(a, rowvar=False, bias=True)
        mine = self.fid(self.save("a.npy", a), self.save("b.npy", b), "--json")
        self.assertGreater(abs(by_scipy(wrong, statistics(b)) - mine["value"]),
                           10 * PEER * mine["trace_term"])


if __name__ == "__main__":
    ours.main()
