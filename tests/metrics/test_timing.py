"""Timing by hand and on SciPy's bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from harness.metrics import timing


def test_percentiles_by_hand():
    times = [4.0, 1.0, 3.0, 2.0, 5.0]
    assert timing.p50_s(times) == 3.0
    assert timing.p95_s(times) == pytest.approx(4.8)
    assert timing.percentile_s(times, 0) == 1.0
    assert timing.p50_s([7.0]) == timing.p95_s([7.0]) == 7.0


def test_real_time_factor():
    assert timing.real_time_factor(0.5, 10.0) == 0.05


def test_a_constant_ratio_has_no_uncertainty():
    assert timing.paired_ratio([1.0, 2.0, 4.0], [0.5, 1.0, 2.0], seed=0) == timing.Ratio(0.5, 0.5, 0.5, 3)


def test_one_slow_request_does_not_move_the_ratio():
    assert timing.paired_ratio([1.0] * 9, [2.0] * 8 + [500.0], seed=0).ratio == pytest.approx(2.0)


def test_pairs_matter_not_totals():
    # Each clip is 1.5 times as slow, whatever the clips' own lengths are.
    reference = [0.01, 0.1, 1.0, 10.0]
    assert timing.paired_ratio(reference, [1.5 * time for time in reference], seed=0).high == pytest.approx(1.5)


def test_the_interval_agrees_with_scipys_bootstrap():
    random = np.random.default_rng(3)
    reference = random.lognormal(0, 1, 40)
    port = reference * random.lognormal(0.2, 0.3, 40)
    found = timing.paired_ratio(reference, port, seed=1, resamples=20000)
    logs = np.log(port / reference)
    expected = scipy.stats.bootstrap(
        (logs,), np.median, n_resamples=20000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert found.ratio == pytest.approx(math.exp(np.median(logs)))
    assert math.log(found.low) == pytest.approx(expected.low, abs=0.02)
    assert math.log(found.high) == pytest.approx(expected.high, abs=0.02)


def test_a_seed_fixes_the_interval_and_confidence_widens_it():
    random = np.random.default_rng(4)
    reference, port = random.lognormal(0, 1, 20), random.lognormal(0, 1, 20)
    narrow = timing.paired_ratio(reference, port, seed=1, confidence=0.5)
    wide = timing.paired_ratio(reference, port, seed=1, confidence=0.95)
    assert narrow == timing.paired_ratio(reference, port, seed=1, confidence=0.5)
    few = [timing.paired_ratio(reference, port, seed=seed, resamples=9) for seed in (1, 2)]
    assert few[0] != few[1]
    assert wide.low < narrow.low < narrow.ratio < narrow.high < wide.high


@pytest.mark.parametrize("times", [[], [0.0], [-1.0, 1.0], [math.nan], [math.inf], [[1.0]]])
def test_what_is_no_time_is_refused(times):
    with pytest.raises(ValueError, match="needed"):
        timing.p50_s(times)


def test_unpaired_times_and_percentages_are_refused():
    with pytest.raises(ValueError, match="pair clip by clip"):
        timing.paired_ratio([1.0, 2.0], [1.0], seed=0)
    with pytest.raises(ValueError, match="per cent"):
        timing.paired_ratio([1.0], [1.0], seed=0, confidence=95)
