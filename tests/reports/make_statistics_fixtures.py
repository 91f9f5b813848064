"""Writes statistics_fixtures.json: what numpy and SciPy say about a few samples.

Usage: python make_statistics_fixtures.py > statistics_fixtures.json   (numpy, scipy)
"""

import json
import sys

import numpy
import scipy
import scipy.stats


def median_interval(values, confidence):
    """SciPy's own interval of a quantile, by the same binomial order statistics."""
    test = scipy.stats.quantile_test(values, q=numpy.median(values), p=0.5)
    interval = test.confidence_interval(confidence_level=confidence)
    low, high = float(interval.low), float(interval.high)
    return None if numpy.isnan(low) or numpy.isnan(high) else [low, high]


def case(name, values):
    values = [float(x) for x in values]
    return {
        "name": name,
        "values": values,
        "quantiles": {str(p): float(numpy.quantile(values, p)) for p in (0, 0.05, 0.25, 0.9, 1)},
        "median": float(numpy.median(values)),
        "mad": float(scipy.stats.median_abs_deviation(values)),
        "mean": float(numpy.mean(values)),
        "sd": float(numpy.std(values, ddof=1)),
        "interval": {str(c): median_interval(values, c) for c in (0.9, 0.95, 0.99)},
    }


def main():
    generator = numpy.random.default_rng(7)
    cases = [
        case("two", [1.5, 0.25]),
        case("five", [3, 1, 4, 1, 5]),
        case("six", [0.31, 0.29, 0.30, 0.35, 0.28, 0.33]),
        case("ties", [1, 1, 1, 2, 2, 2, 2, 9]),
        case("odd", generator.lognormal(-2, 0.1, 31)),
        case("even", generator.normal(10, 1, 100)),
        case("long", generator.gamma(3, 1, 501)),
    ]
    versions = {"numpy": numpy.__version__, "scipy": scipy.__version__}
    json.dump({"made_with": versions, "cases": cases}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
