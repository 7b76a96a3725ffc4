"""Laws of the speech metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.metrics import speech
from tests.strategies import waveforms

RATE_HZ = 16000


@given(waveforms())
def test_a_waveform_is_no_distance_from_itself(samples):
    assert speech.spectral_distance_db(samples, samples) == 0
    assert speech.duration_ratio(samples, samples) == 1
    assert speech.rms_ratio(samples, samples) == 1
    assert speech.fit_gain_and_lag(samples, samples) == (0, 0)
    assert speech.frame_log_spectral_distance_db(samples, samples, RATE_HZ) == 0
    assert speech.envelope_correlation(samples, samples, RATE_HZ) == pytest.approx(1, abs=1e-12)


@given(waveforms(), waveforms())
def test_what_says_it_is_symmetric_is(left, right):
    assert speech.spectral_distance_db(left, right) == speech.spectral_distance_db(right, left)
    there = speech.envelope_correlation(left, right, RATE_HZ)
    assert there == pytest.approx(speech.envelope_correlation(right, left, RATE_HZ), abs=1e-12)
    assert -1 <= there <= 1


@given(waveforms(min_samples=400), st.integers(0, 500), st.floats(-20, 20))
def test_gain_and_lag_are_found_and_taken_out(samples, lag, gain_db):
    port = np.concatenate([np.zeros(lag), 10 ** (gain_db / 20) * samples.astype(np.float64)])
    found_db, found_lag = speech.fit_gain_and_lag(samples, port)
    assert found_db == pytest.approx(gain_db, abs=1e-6)
    assert found_lag == lag
    assert speech.frame_log_spectral_distance_db(samples, port, RATE_HZ) < 1e-3


@given(waveforms(min_samples=2000), st.integers(0, 1999))
def test_one_nan_is_always_seen(samples, at):
    port = samples.copy()
    port[at] = np.nan
    assert math.isnan(speech.spectral_distance_db(samples, port))
    assert math.isnan(speech.rms_ratio(samples, port))
    assert math.isnan(speech.frame_log_spectral_distance_db(samples, port, RATE_HZ))
    assert math.isnan(speech.envelope_correlation(samples, port, RATE_HZ))


@given(waveforms(min_samples=2600, max_samples=6000))
def test_a_silenced_third_is_always_seen_by_the_frame_distance(samples):
    third = len(samples) // 3
    port = samples.copy()
    port[third : 2 * third] = 0
    # A third that was almost silent to begin with is no loss.
    assume(np.sqrt(np.mean(samples[third : 2 * third] ** 2)) > 0.1 * np.sqrt(np.mean(samples**2)))
    assert speech.frame_log_spectral_distance_db(samples, port, RATE_HZ) > 3
