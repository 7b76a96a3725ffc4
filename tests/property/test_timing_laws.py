"""Laws of the timing metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics import timing
from tests.strategies import times_s

PAIRS = st.integers(1, 12).flatmap(lambda count: st.tuples(times_s(count), times_s(count)))


@given(times_s(5), st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise_and_stay_among_the_times(times, one, other):
    low, high = (timing.percentile_s(times, percent) for percent in sorted((one, other)))
    # Interpolation between two equal times may round by one unit in the last place.
    assert min(times) * (1 - 1e-15) <= low <= high * (1 + 1e-15)
    assert high <= max(times) * (1 + 1e-15)


@given(times_s(5))
def test_a_side_is_as_fast_as_itself(times):
    assert timing.paired_ratio(times, times, seed=0, resamples=50) == timing.Ratio(1, 1, 1, 5)


@given(PAIRS)
def test_exchanging_the_sides_gives_the_reciprocal(pair):
    there = timing.paired_ratio(*pair, seed=0, resamples=50)
    back = timing.paired_ratio(*reversed(pair), seed=0, resamples=50)
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.low <= there.ratio * (1 + 1e-12) or there.pairs < 3
    assert there.low <= there.high
