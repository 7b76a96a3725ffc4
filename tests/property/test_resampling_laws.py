"""Laws of the resampler metrics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import signals
from harness.metrics import resampling
from tests.strategies import waveforms

RATES_HZ = st.sampled_from([8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000])
METRICS = {
    signals.impulse: (resampling.passband_ripple_db, resampling.stopband_db, resampling.delay_samples),
    signals.log_sweep: (resampling.alias_db,),
    signals.sine: (resampling.thd_n_db,),
}


@given(st.integers(0, 10**7), RATES_HZ, RATES_HZ)
def test_a_length_is_the_exact_one_or_one_more(samples, rate_hz, target_hz):
    exact = -(-samples * target_hz // rate_hz)
    assert resampling.expected_length(samples, rate_hz, target_hz) in (exact, exact + 1)
    assert resampling.expected_length(samples, rate_hz, rate_hz) == samples


@given(waveforms())
def test_a_waveform_has_no_error_against_itself(samples):
    error = resampling.waveform_error(samples, samples.copy())
    assert (error.max_abs, error.rms, error.rms_dbfs, error.bit_exact) == (0, 0, resampling.FLOOR_DB, True)


@pytest.mark.parametrize("maker", METRICS)
@given(value=st.sampled_from([np.nan, np.inf, -np.inf]), place=st.floats(0, 1), target_hz=RATES_HZ)
def test_nan_never_passes(maker, value, place, target_hz):
    clip = maker(16000)
    samples = np.zeros(resampling.expected_length(len(clip.samples), 16000, target_hz), np.float32)
    samples[round(place * (len(samples) - 1))] = value
    for metric in METRICS[maker]:
        assert not metric(samples, 16000, target_hz, clip.signal) <= 1e9


@given(st.floats(0.01, 10), st.integers(-200, 200))
def test_the_impulse_metrics_see_gain_as_ripple_and_shift_as_delay(gain, shift):
    clip = signals.impulse(16000)
    samples = np.roll(gain * clip.samples.astype(np.float64), shift)
    ripple_db = resampling.passband_ripple_db(samples, 16000, 16000, clip.signal)
    assert ripple_db == pytest.approx(abs(20 * np.log10(gain)), abs=1e-9)
    assert resampling.delay_samples(samples, 16000, 16000, clip.signal) == pytest.approx(shift, abs=1e-6)


@given(st.floats(-110, -20), st.integers(0, 2**16))
def test_noise_of_a_known_level_is_read_as_such(level_db, seed):
    clip = signals.sine(16000)
    sine_rms = 0.5 / np.sqrt(2)
    noise = np.random.default_rng(seed).normal(size=16000)
    answer = clip.samples.astype(np.float64) + sine_rms * 10 ** (level_db / 20) * noise
    # 12,800 samples of noise: their RMS varies by 0.05 dB, five of which are allowed.
    assert resampling.thd_n_db(answer, 16000, 16000, clip.signal) == pytest.approx(level_db, abs=0.3)
