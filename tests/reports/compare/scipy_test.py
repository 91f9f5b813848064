"""Every statistic of reports/compare beside SciPy, on the same random samples, to 1e-9.

The first argument is the path of noisemark_statistics_probe, then unittest's own. Exit code 77 where
SciPy is not installed (1 where it is required). With --record FILE behind the path SciPy's answers about the smaller samples
are kept there: scipy_fixtures.json, beside which scipy_fixtures_test.py holds the probe everywhere."""

import json
import math
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(TESTS / "reports"), str(TESTS / "parity")]
import peers_required  # noqa: E402
import probe  # noqa: E402

try:
    import numpy
    import scipy
    from mersenne_twister import Mt19937_64
    from scipy import optimize, stats
except ImportError as missing:
    peers_required.cannot_import(missing)

PROBE = sys.argv.pop(1) if len(sys.argv) > 1 else ""
ALTERNATIVES = ("two-sided", "greater", "less")
LARGEST_RECORDED = 21  # values of a sample
RECORDED = []  # questions with SciPy's answers


def ask(questions):
    return probe.ask(PROBE, questions)


def record(question, theirs):
    lengths = [len(value) for value in question.values() if isinstance(value, list)]
    if max(lengths, default=0) <= LARGEST_RECORDED:
        RECORDED.append({"question": question, "answer": theirs})


def samples(seed, counts, tied=False, zeros=False):
    """Differences as rounds give them: a small shift, spread, now and then a wild one."""
    generator = numpy.random.default_rng(seed)
    for count in counts:
        for shift in (0.0, 0.3, -1.0):
            values = shift + generator.standard_t(3, count)
            if tied:
                values = numpy.round(2 * values) / 2
            if tied and not zeros:
                values[values == 0] = 0.5
            yield [float(value) for value in values]


class ScipyTest(unittest.TestCase):
    def close(self, ours, theirs, what):
        self.assertTrue(math.isfinite(theirs), what)
        self.assertTrue(probe.is_close(ours, theirs), (ours, theirs, what))

    def compare(self, questions, expected):
        """`expected(question)` gives SciPy's answer, in the shape of ours."""
        for question, answer in zip(questions, ask(questions)):
            theirs = {name: float(value) for name, value in probe.named(expected(question)).items()}
            for name, value in theirs.items():
                self.close(probe.named(answer)[name], value, (question, name))
            record(question, theirs)


class SignedRank(ScipyTest):
    def questions(self, differences):
        return [{"statistic": "signed_rank", "values": values, "alternative": alternative}
                for values in differences for alternative in ALTERNATIVES]

    def wilcoxon(self, question, **options):
        values, alternative = question["values"], question["alternative"]
        found = stats.wilcoxon(values, alternative=alternative, **options)
        return {"p": found.pvalue}

    def test_without_ties_is_scipys_exact_count(self):
        self.compare(self.questions(samples(1, (1, 2, 3, 5, 8, 10, 13, 20, 35, 50))),
                     lambda question: self.wilcoxon(question, method="exact"))

    def test_with_ties_and_zeros_is_scipys_count_of_all_signs(self):
        every = stats.PermutationMethod(n_resamples=2**13 + 1)
        for zeros in (False, True):
            self.compare(self.questions(samples(2, (4, 7, 10), tied=True, zeros=zeros)),
                         lambda question: self.wilcoxon(question, method=every))

    def test_of_many_is_scipys_normal_approximation(self):
        for tied in (False, True):
            self.compare(self.questions(samples(3, (70, 120, 400), tied=tied, zeros=tied)),
                         lambda q: self.wilcoxon(q, method="asymptotic", correction=True)
                         if q["alternative"] != "two-sided" else self.doubled(q))

    def doubled(self, question):
        """Our two-sided p is twice the smaller tail, each corrected toward the middle."""
        one_sided = [stats.wilcoxon(question["values"], alternative=alternative, correction=True,
                                    method="asymptotic").pvalue for alternative in ("greater", "less")]
        return {"p": min(1.0, 2 * min(one_sided))}

    def test_two_sided_of_many_is_scipys_own_away_from_the_middle(self):
        shifted = [[value + 0.5 for value in values] for values in samples(4, (80, 200))]
        self.compare([{"statistic": "signed_rank", "values": values, "alternative": "two-sided"}
                      for values in shifted],
                     lambda question: self.wilcoxon(question, method="asymptotic", correction=True))


class Estimate(ScipyTest):
    def test_is_the_median_of_all_averages(self):
        questions = [{"statistic": "estimate", "values": values, "resamples": 1, "seed": 0,
                      "confidence": 0.9} for values in samples(6, (1, 2, 5, 8, 21, 60))]

        def averages(question):
            values = numpy.array(question["values"])
            i, j = numpy.triu_indices(len(values))
            return {"estimate": numpy.median((values[i] + values[j]) / 2)}

        self.compare(questions, averages)

    def test_interval_is_scipys_of_the_same_resamples(self):
        """The indices are those of std::mt19937_64 by a generator of our own here; numpy takes the
        estimate of each resample, and SciPy the interval of the estimates."""
        questions = [{"statistic": "estimate", "values": values, "resamples": resamples, "seed": seed,
                      "confidence": confidence}
                     for values in samples(12, (2, 5, 12, 21))
                     for resamples, seed, confidence in ((199, 0, 0.95), (500, 20260102, 0.8))]

        def same_resamples(question):
            values, count = numpy.array(question["values"]), len(question["values"])
            generator = Mt19937_64(question["seed"])
            indices = numpy.array([[generator.draw() * count >> 64 for _ in range(count)]
                                   for _ in range(question["resamples"])])
            i, j = numpy.triu_indices(count)
            resamples = values[indices]
            estimates = numpy.median((resamples[:, i] + resamples[:, j]) / 2, axis=1)
            # Nothing is drawn anew: the distribution is handed over.
            found = stats.bootstrap((values,), numpy.mean, n_resamples=0, method="percentile",
                                    confidence_level=question["confidence"],
                                    bootstrap_result=SimpleNamespace(bootstrap_distribution=estimates))
            return {"low": found.confidence_interval.low, "high": found.confidence_interval.high}

        self.compare(questions, same_resamples)

    def test_interval_is_about_scipys_percentile_bootstrap(self):
        """Other generators draw other resamples: the ends agree within four of their own standard
        errors, taken from SciPy's spread over seeds."""
        values = next(samples(7, (12,)))

        def estimate(x, axis):
            i, j = numpy.triu_indices(x.shape[-1])
            return numpy.median((x[..., i] + x[..., j]) / 2, axis=axis)

        ends = []
        for seed in range(12):
            found = stats.bootstrap((values,), estimate, n_resamples=2000, method="percentile",
                                    confidence_level=0.9, rng=numpy.random.default_rng(seed))
            ends.append(tuple(found.confidence_interval))
        centre, spread = numpy.mean(ends, axis=0), numpy.std(ends, axis=0, ddof=1)
        ours = ask([{"statistic": "estimate", "values": values, "resamples": 20000, "seed": 1,
                     "confidence": 0.9}])[0]
        for end, mean, error in zip((ours["low"], ours["high"]), centre, spread):
            self.assertLess(abs(end - mean), 4 * error)


class Proportion(ScipyTest):
    def test_is_scipys_exact_interval(self):
        questions = [{"statistic": "proportion", "hits": hits, "trials": trials, "confidence": confidence}
                     for trials in (1, 2, 36, 40, 100, 1000) for hits in {0, 1, trials // 2, trials - 1, trials}
                     for confidence in (0.8, 0.95, 0.99)]

        def expected(question):
            found = stats.binomtest(question["hits"], question["trials"])
            interval = found.proportion_ci(question["confidence"], method="exact")
            return {"low": interval.low, "high": interval.high}

        self.compare(questions, expected)


class Multiplicity(ScipyTest):
    def test_adjusted_values_are_scipys_and_holms_definition(self):
        generator = numpy.random.default_rng(8)
        lists = [[float(p) for p in generator.beta(0.5, 2, count)] for count in (1, 2, 7, 40, 300)]
        lists.append([0.02, 0.02, 0.5, 1.0, 0.0])
        self.compare([{"statistic": "benjamini_hochberg", "values": p} for p in lists],
                     lambda question: list(stats.false_discovery_control(question["values"])))

        def holm(question):
            p = question["values"]
            ranked = sorted(p)
            last = [max(i for i, other in enumerate(ranked) if other == value) for value in p]
            return [min(1.0, max((len(p) - i) * ranked[i] for i in range(end + 1))) for end in last]

        self.compare([{"statistic": "holm", "values": p} for p in lists], holm)


class Equivalence(ScipyTest):
    def test_paired_is_two_of_scipys_t_tests(self):
        questions = [{"statistic": "paired", "values": values, "margin": margin, "alpha": alpha}
                     for values in samples(9, (2, 3, 8, 30, 200))
                     for margin in (0.1, 1.0) for alpha in (0.05, 0.01)]

        def one_sample(q):
            lower = stats.ttest_1samp(q["values"], -q["margin"], alternative="greater")
            upper = stats.ttest_1samp(q["values"], q["margin"], alternative="less")
            both = stats.ttest_1samp(q["values"], 0).confidence_interval(1 - 2 * q["alpha"])
            return {"p_lower": lower.pvalue, "p_upper": upper.pvalue, "low": both.low,
                    "high": both.high, "p": max(lower.pvalue, upper.pvalue)}

        self.compare(questions, one_sample)

    def test_independent_is_two_of_scipys_welch_tests(self):
        bases = list(samples(10, (2, 5, 12)))
        candidates = [[3 * value for value in values] for values in samples(11, (9, 3, 40))]
        questions = [{"statistic": "welch", "base": base, "candidate": candidate, "margin": margin,
                      "alpha": 0.05}
                     for base, candidate in zip(bases, candidates) for margin in (0.2, 2.0)]

        def welch(q):
            base, candidate = numpy.array(q["base"]), numpy.array(q["candidate"])
            lower = stats.ttest_ind(candidate + q["margin"], base, equal_var=False,
                                    alternative="greater")
            upper = stats.ttest_ind(candidate - q["margin"], base, equal_var=False,
                                    alternative="less")
            plain = stats.ttest_ind(candidate, base, equal_var=False)
            both = plain.confidence_interval(0.9)
            return {"p_lower": lower.pvalue, "p_upper": upper.pvalue, "low": both.low,
                    "high": both.high, "degrees": plain.df}

        self.compare(questions, welch)


class Repetitions(ScipyTest):
    def power(self, effect, pairs, alpha):
        critical = stats.t.isf(alpha, pairs - 1)
        return stats.nct.sf(critical, pairs - 1, effect * math.sqrt(pairs))

    def test_detectable_is_the_root_of_scipys_noncentral_t(self):
        questions = [{"statistic": "detectable", "deviation": 1.7, "pairs": pairs, "alpha": alpha,
                      "power": power} for pairs in (2, 3, 5, 8, 20, 100)
                     for alpha in (0.05, 0.01) for power in (0.5, 0.8, 0.95)]

        def root(q):
            return q["deviation"] * optimize.brentq(
                lambda effect: self.power(effect, q["pairs"], q["alpha"]) - q["power"], 0, 200,
                xtol=1e-13, rtol=1e-13)

        self.compare(questions, root)

    def test_pairs_have_enough_power_and_one_fewer_has_not(self):
        questions = [{"statistic": "pairs", "deviation": 1.0, "difference": difference,
                      "alpha": 0.05, "power": power}
                     for difference in (0.1, 0.35, 0.9, 2.5) for power in (0.8, 0.9)]
        for q, pairs in zip(questions, ask(questions)):
            self.assertGreaterEqual(self.power(q["difference"], pairs, q["alpha"]), q["power"], q)
            if pairs > 2:
                fewer = self.power(q["difference"], pairs - 1, q["alpha"])
                self.assertLess(fewer, q["power"], q)


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
