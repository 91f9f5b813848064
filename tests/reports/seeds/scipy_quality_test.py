"""The statistics of reports/seeds beside SciPy, on the same random samples, to 1e-9.

The first argument is the path of noisemark_quality_probe, then unittest's own. Exit code 77 where SciPy is not
installed (1 where it is required). With --record FILE behind the path SciPy's answers are kept there:
scipy_quality.json, beside which scipy_quality_recorded_test.py holds the probe everywhere."""

import json
import math
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "reports" / "compare"), str(TESTS / "parity")]
import peers_required  # noqa: E402
import probe  # noqa: E402

try:
    import numpy
    import scipy
    from scipy import integrate, optimize, stats
except ImportError as missing:
    peers_required.cannot_import(missing)

try:
    from statsmodels.stats import weightstats
except ImportError:
    weightstats = None

PROBE = sys.argv.pop(1) if len(sys.argv) > 1 else ""
RECORDED = []  # questions with SciPy's answers


def pairs(seed, counts):
    """Logarithms of losses: seeds move both sides, more or less."""
    generator = numpy.random.default_rng(seed)
    for count in counts:
        for correlation in (-0.6, 0.0, 0.3, 0.7, 0.99):
            common = generator.normal(size=count)
            own = generator.normal(size=count)
            reference = 0.02 * common - 2
            candidate = 0.02 * (correlation * common + math.sqrt(1 - correlation**2) * own) - 1.995
            yield [float(value) for value in reference], [float(value) for value in candidate]


class ScipyTest(unittest.TestCase):
    def compare(self, questions, expected):
        for question, answer in zip(questions, probe.ask(PROBE, questions)):
            theirs = {name: float(value) for name, value in probe.named(expected(question)).items()}
            for name, value in theirs.items():
                ours = probe.named(answer)[name]
                self.assertTrue(math.isfinite(value), question)
                self.assertTrue(probe.is_close(ours, value), (question, name, ours, value))
            RECORDED.append({"question": question, "answer": theirs})


class Tost(ScipyTest):
    def questions(self):
        return [{"statistic": "tost", "reference": reference, "candidate": candidate, "margin": margin, "alpha": alpha}
                for reference, candidate in pairs(1, (2, 3, 5, 8, 20))
                for margin in (0.00995, 0.0488) for alpha in (0.05, 0.0125)]

    def test_is_two_of_scipys_t_tests_chosen_by_pearsons_correlation(self):
        designs = set()

        def both(q):
            reference, candidate, margin = numpy.array(q["reference"]), numpy.array(q["candidate"]), q["margin"]
            correlation = stats.pearsonr(reference, candidate).statistic if len(reference) > 2 else 0.0
            paired = len(reference) == 2 or correlation < 0 or correlation > 0.5
            designs.add(paired)
            if paired:
                def test(shift, side):
                    return stats.ttest_rel(candidate + shift, reference, alternative=side)
            else:
                def test(shift, side):
                    return stats.ttest_ind(candidate + shift, reference, equal_var=False, alternative=side)
            lower, upper, plain = test(margin, "greater"), test(-margin, "less"), test(0, "two-sided")
            interval = plain.confidence_interval(1 - 2 * q["alpha"])
            return {"paired": paired, "correlation": correlation, "degrees": plain.df, "p_lower": lower.pvalue,
                    "p_upper": upper.pvalue, "p": max(lower.pvalue, upper.pvalue),
                    "p_worse": test(-margin, "greater").pvalue, "p_better": test(margin, "less").pvalue,
                    "low": interval.low, "high": interval.high}

        self.compare(self.questions(), both)
        self.assertEqual(designs, {True, False})

    @unittest.skipUnless(weightstats, "statsmodels is not installed")
    def test_is_statsmodels_own(self):
        def theirs(q):
            reference, candidate, margin = numpy.array(q["reference"]), numpy.array(q["candidate"]), q["margin"]
            correlation = stats.pearsonr(reference, candidate).statistic if len(reference) > 2 else 1.0
            if 0 <= correlation <= 0.5:
                p = weightstats.ttost_ind(candidate, reference, -margin, margin, usevar="unequal")[0]
            else:
                p = weightstats.ttost_paired(candidate, reference, -margin, margin)[0]
            return {"p": p}

        self.compare(self.questions(), theirs)


def equivalence_power(q):
    """By definition: the mean, where it must lie given the error that was estimated."""
    error, degrees, margin = q["standard_error"], q["degrees"], q["margin"]
    t = stats.t.isf(q["alpha"], degrees)
    widest = margin / (error * t)
    root = math.sqrt(degrees)

    def at(u):
        above = (margin - q["difference"]) / error - t * u
        below = -(margin + q["difference"]) / error + t * u
        return (stats.norm.cdf(above) - stats.norm.cdf(below)) * stats.chi.pdf(u * root, degrees) * root

    most = min(widest, stats.chi.isf(1e-17, degrees) / root)
    points = numpy.linspace(0, most, 17)
    return sum(integrate.quad(at, low, high, epsabs=1e-15, epsrel=1e-13)[0]
               for low, high in zip(points, points[1:]))


def find_power(effect, degrees, alpha):
    return stats.nct.sf(stats.t.isf(alpha, degrees), degrees, effect)


class Power(ScipyTest):
    def test_of_equivalence_is_scipys_integral(self):
        self.compare([{"statistic": "power", "standard_error": error, "degrees": degrees, "difference": difference,
                       "margin": 0.00995, "alpha": alpha}
                      for error in (0.0005, 0.002, 0.004, 0.02) for degrees in (1, 2, 4, 6.7, 30)
                      for difference in (0.0, 0.004, -0.009, 0.02) for alpha in (0.05, 0.0125)], equivalence_power)

    def test_detectable_is_the_root_of_scipys_noncentral_t(self):
        def root(q):
            return q["standard_error"] * optimize.brentq(
                lambda effect: find_power(effect, q["degrees"], q["alpha"]) - q["power"], 0, 500,
                xtol=1e-13, rtol=1e-13)

        self.compare([{"statistic": "detectable", "standard_error": 0.003, "degrees": degrees, "alpha": alpha,
                       "power": power} for degrees in (1, 2, 3.3, 4, 9.5, 40) for alpha in (0.05, 0.0125)
                      for power in (0.5, 0.8, 0.95)], root)

    def test_seeds_suffice_by_scipys_power_and_one_fewer_does_not(self):
        def power(q, seeds):
            error = math.sqrt(q["variance"] / seeds)
            degrees = (seeds - 1) * (1 if q["paired"] else 2)
            beyond = abs(q["difference"]) - q["margin"]
            if beyond < 0:
                return equivalence_power({**q, "standard_error": error, "degrees": degrees})
            return find_power(beyond / error, degrees, q["alpha"])

        questions = [{"statistic": "seeds", "paired": paired, "variance": 1e-4, "difference": difference,
                      "margin": 0.00995, "alpha": 0.05, "power": 0.8}
                     for paired in (True, False) for difference in (0.0, 0.003, -0.005, 0.03, -0.05)]
        answers = probe.ask(PROBE, questions)
        for q, seeds in zip(questions, answers):
            self.assertGreaterEqual(power(q, seeds), 0.8, (q, seeds))
            if seeds > 2:
                self.assertLess(power(q, seeds - 1), 0.8, (q, seeds))
            RECORDED.append({"question": q, "answer": {"": float(seeds)}})


class Range(ScipyTest):
    def test_interval_of_replicates_is_numpys(self):
        generator = numpy.random.default_rng(3)
        questions = []
        for count in (5, 40):
            replicates = [float(value) for value in 10 + generator.gamma(2, 1, count)]
            questions.append({"statistic": "resampled", "value": 10.5, "replicates": replicates, "confidence": 0.9})

        def resampled(q):
            low, high = numpy.percentile(q["replicates"], [5, 95]) - numpy.mean(q["replicates"])
            return {"low": q["value"] - high, "high": q["value"] - low}

        self.compare(questions, resampled)


def main():
    """Writes what was recorded only when every test passed."""
    file = None
    if sys.argv[1:2] == ["--record"]:
        file = Path(sys.argv[2])
        del sys.argv[1:3]
    tests = unittest.main(exit=False)
    if file and tests.result.wasSuccessful():
        made_with = {"numpy": numpy.__version__, "scipy": scipy.__version__}
        lines = ",\n".join(json.dumps(each) for each in RECORDED)
        file.write_text(f'{{"made_with": {json.dumps(made_with)}, "answers": [\n{lines}\n]}}\n')
    sys.exit(0 if tests.result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
