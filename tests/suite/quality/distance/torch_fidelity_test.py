"""Our distances beside torch-fidelity's own functions on the same features: Fréchet, kernel, precision and
recall, Inception score."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "parity"))

import peers_required

try:
    import numpy as np
    import torch
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_isc import isc_features_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric
    from torch_fidelity.metric_prc import prc_features_to_metric
except ImportError as missing:
    peers_required.cannot_import(missing)

import ours

FID = "frechet_inception_distance"
KID = "kernel_inception_distance"


class TorchFidelity(ours.OursTest):
    def both(self, a, b, *words):
        return self.fid(self.save("a.npy", a), self.save("b.npy", b), "--json", *words)

    def test_frechet_distance(self):
        for d in (16, 64, 200):
            a, b = ours.features(1, 5 * d, d, 2.0), ours.features(2, 4 * d, d, 1.5, 0.02)
            # Their mean is taken in the type of the features: wider ones, or theirs is the rounding.
            stats = [fid_features_to_statistics(torch.from_numpy(x.astype(np.float64))) for x in (a, b)]
            peer = fid_statistics_to_metric(*stats, False)[FID]
            mine = self.both(a, b)
            print(f"d {d}: ours {mine['value']:.9f}, torch-fidelity {peer:.9f}")
            self.assertLessEqual(abs(mine["value"] - peer), 1e-6 * abs(peer))

    def test_kernel_distance_of_the_same_subsets(self):
        a, b = ours.features(1, 700, 48), ours.features(2, 600, 48, 2.8, 0.05)
        peer = kid_features_to_metric(torch.from_numpy(a), torch.from_numpy(b), kid_subsets=20,
                                      kid_subset_size=150, kid_degree=3, kid_gamma=None, kid_coef0=1,
                                      rng_seed=2020, verbose=False)
        mine = self.both(a, b, "--kid", "--subsets", "20", "--subset-size", "150", "--draws",
                         "numpy")["kernel"]
        print(f"ours {mine['mean']:.9f} ± {mine['standard_deviation']:.9f}, torch-fidelity "
              f"{peer[KID + '_mean']:.9f} ± {peer[KID + '_std']:.9f}")
        self.assertLessEqual(abs(mine["mean"] - peer[KID + "_mean"]), 1e-6)
        self.assertLessEqual(abs(mine["standard_deviation"] - peer[KID + "_std"]), 1e-6)
        # Other subsets, another estimate: the comparison can fail.
        other = self.both(a, b, "--kid", "--subsets", "20", "--subset-size", "150")["kernel"]
        self.assertGreater(abs(other["mean"] - peer[KID + "_mean"]), 1e-6)

    def test_precision_and_recall(self):
        real, generated = ours.features(1, 400, 24, 1.0), ours.features(2, 300, 24, 1.0, 0.3)
        # In 0.4.0 the generated samples are the first argument.
        peer = prc_features_to_metric(torch.from_numpy(generated).double(),
                                      torch.from_numpy(real).double(), prc_neighborhood=3,
                                      prc_batch_size=10000, save_cpu_ram=False, verbose=False)
        mine = self.both(generated, real, "--prc")
        print(f"ours {mine['precision_frac']:.4f} {mine['recall_frac']:.4f}, torch-fidelity "
              f"{peer['precision']:.4f} {peer['recall']:.4f}")
        self.assertAlmostEqual(mine["precision_frac"], peer["precision"], delta=1e-6)
        self.assertAlmostEqual(mine["recall_frac"], peer["recall"], delta=1e-6)
        self.assertNotEqual(peer["precision"], peer["recall"])

    def test_inception_score(self):
        logits = np.random.default_rng(0).standard_normal((503, 30)).astype(np.float32) * 3
        for splits in (1, 10):
            peer = isc_features_to_metric(torch.from_numpy(logits), splits=splits, shuffle=True,
                                          rng_seed=2020)
            mine = self.score(self.save("logits.npy", logits), splits)
            self.assertAlmostEqual(mine["mean"], peer["inception_score_mean"], delta=1e-9)
            self.assertAlmostEqual(mine["standard_deviation"], peer["inception_score_std"], delta=1e-9)


if __name__ == "__main__":
    ours.main()
