"""The resampler metrics on answers worked out by hand, and on librosa and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness import signals
from harness.metrics import resampling
from harness.metrics.tensors import NotComparable

LEVELS = {
    "impulse": (resampling.passband_ripple_db, resampling.stopband_db, resampling.delay_samples),
    "sweep": (resampling.alias_db,),
    "sine": (resampling.thd_n_db,),
}
MAKERS = {"impulse": signals.impulse, "sweep": signals.log_sweep, "sine": signals.sine}


def ideal_impulse(rate_hz, target_hz, delay_samples=0.0, gain=1.0):
    """The impulse as a perfect resampler gives it: a sinc that ends at the lower Nyquist."""
    clip = signals.impulse(rate_hz)
    ratio = target_hz / rate_hz
    count = resampling.expected_length(len(clip.samples), rate_hz, target_hz)
    place = clip.signal["position_samples"] * ratio + delay_samples
    narrow = min(1.0, 1 / ratio)
    # Slightly narrower than the lower Nyquist and windowed, so that the ends of the sinc do not ring.
    offset = np.arange(count) - place
    samples = narrow * 0.97 * np.sinc(narrow * 0.97 * offset) * np.exp(-((offset / (0.3 * count)) ** 2) * 4)
    return gain * ratio * samples, clip


@pytest.mark.parametrize(
    ("samples", "rate_hz", "target_hz", "expected"),
    [
        (0, 44100, 16000, 0),
        (1, 48000, 16000, 1),
        (1001, 24000, 16000, 668),
        (147, 44100, 24000, 81),  # float64 rounds the product up past 80
        (147, 22050, 24000, 161),  # 160 by exact arithmetic
        (12345, 16000, 16000, 12345),
    ],
)
def test_expected_length(samples, rate_hz, target_hz, expected):
    assert resampling.expected_length(samples, rate_hz, target_hz) == expected


@pytest.mark.parametrize("rate_hz", [8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000])
@pytest.mark.parametrize("target_hz", [16000, 24000])
def test_expected_length_is_librosas(rate_hz, target_hz):
    librosa = pytest.importorskip("librosa")
    for length in (1, 2, 100, 147, 1009):
        found = librosa.resample(np.zeros(length, np.float32), orig_sr=rate_hz, target_sr=target_hz)
        assert resampling.expected_length(length, rate_hz, target_hz) == len(found)


def test_waveform_error_by_hand():
    error = resampling.waveform_error(np.zeros(4, np.float32), np.array([0.5, 0, 0, 0], np.float32))
    assert (error.max_abs, error.rms, error.bit_exact) == (0.5, 0.25, False)
    assert error.rms_dbfs == pytest.approx(20 * math.log10(0.25))


def test_waveforms_that_are_equal_are_at_the_floor():
    error = resampling.waveform_error(np.ones(4), np.ones(4))
    assert (error.max_abs, error.rms_dbfs, error.bit_exact) == (0.0, resampling.FLOOR_DB, True)


def test_full_scale_is_an_rms_of_one():
    assert resampling.waveform_error(np.zeros(2), np.ones(2)).rms_dbfs == 0.0


@pytest.mark.parametrize(("rate_hz", "target_hz"), [(16000, 24000), (24000, 16000), (44100, 24000), (8000, 16000)])
@pytest.mark.parametrize("delay", [0.0, 1.0, -3.25, 0.37])
def test_delay_of_an_ideal_impulse(rate_hz, target_hz, delay):
    samples, clip = ideal_impulse(rate_hz, target_hz, delay)
    assert resampling.delay_samples(samples, rate_hz, target_hz, clip.signal) == pytest.approx(delay, abs=1e-6)


@pytest.mark.parametrize(("rate_hz", "target_hz"), [(16000, 24000), (24000, 16000), (8000, 16000)])
@pytest.mark.parametrize("gain", [1.0, 0.5, math.sqrt(1.5)])
def test_ripple_of_an_ideal_impulse_is_its_gain(rate_hz, target_hz, gain):
    samples, clip = ideal_impulse(rate_hz, target_hz, gain=gain)
    found = resampling.passband_ripple_db(samples, rate_hz, target_hz, clip.signal)
    assert found == pytest.approx(abs(20 * math.log10(gain)), abs=1e-3)


def test_ripple_of_two_echoes():
    # 1 + 0.1·z⁻⁴ swings between 1.1 and 0.9, so the worse of 0.83 and 0.92 dB.
    clip = signals.impulse(16000)
    samples = clip.samples.astype(np.float64)
    samples[clip.signal["position_samples"] + 4] = 0.1
    found = resampling.passband_ripple_db(samples, 16000, 16000, clip.signal)
    assert found == pytest.approx(-20 * math.log10(0.9), abs=1e-6)


def test_images_of_zero_stuffing_are_as_loud_as_the_signal():
    clip = signals.impulse(8000)
    stuffed = np.zeros(2 * len(clip.samples))
    stuffed[::2] = 2 * clip.samples
    assert resampling.stopband_db(stuffed, 8000, 16000, clip.signal) == pytest.approx(0.0, abs=1e-9)


def test_image_of_linear_interpolation():
    # The triangle (½, 1, ½) has the gain cos²(πf/fs): at the old Nyquist, a quarter of the new rate, it is ½.
    clip = signals.impulse(8000)
    answer = np.interp(np.arange(2 * len(clip.samples)) / 2, np.arange(len(clip.samples)), clip.samples)
    found = resampling.stopband_db(answer, 8000, 16000, clip.signal)
    assert found == pytest.approx(20 * math.log10(0.5), abs=1e-9)


def test_alias_of_dropping_samples_is_as_loud_as_the_signal():
    clip = signals.log_sweep(48000)
    assert resampling.alias_db(clip.samples[::2], 48000, 24000, clip.signal) == pytest.approx(0.0, abs=0.02)


def test_alias_of_a_known_level():
    clip = signals.log_sweep(48000)
    answer = clip.samples[::2].astype(np.float64)
    beyond = round(len(answer) * math.log(12000 / 20) / math.log(24000 / 20))
    answer[beyond:] *= 0.001
    assert resampling.alias_db(answer, 48000, 24000, clip.signal) == pytest.approx(-60.0, abs=0.02)


def test_harmonic_of_a_known_level():
    rate_hz = 16000
    clip = signals.sine(rate_hz)
    time_s = np.arange(rate_hz) / rate_hz
    answer = 0.5 * np.sin(2 * np.pi * 997 * time_s + 0.7) + 0.005 * np.sin(2 * np.pi * 2991 * time_s)
    assert resampling.thd_n_db(answer, rate_hz, rate_hz, clip.signal) == pytest.approx(-40.0, abs=1e-3)


def test_a_constant_offset_counts_as_noise():
    clip = signals.sine(16000)
    answer = clip.samples.astype(np.float64) + 0.5 / math.sqrt(2) * 0.1
    assert resampling.thd_n_db(answer, 16000, 16000, clip.signal) == pytest.approx(-20.0, abs=0.02)


def test_rounding_to_int16_reads_as_it_should():
    # Uniform error of 1/32768 has an RMS of 1/32768/√12; the sine's is 0.5/√2.
    clip = signals.sine(16000)
    answer = np.rint(clip.samples.astype(np.float64) * 32768) / 32768
    expected = 20 * math.log10(1 / 32768 / math.sqrt(12) / (0.5 / math.sqrt(2)))
    assert resampling.thd_n_db(answer, 16000, 16000, clip.signal) == pytest.approx(expected, abs=0.5)


def test_the_edges_of_the_sine_are_not_read():
    clip = signals.sine(16000)
    answer = clip.samples.copy()
    answer[:1000] = answer[-1000:] = 0
    assert resampling.thd_n_db(answer, 16000, 16000, clip.signal) < -120


def test_identity_is_clean():
    for kind, metrics in LEVELS.items():
        clip = MAKERS[kind](16000)
        for metric in metrics:
            found = metric(clip.samples, 16000, 16000, clip.signal)
            assert abs(found) < 1e-6 or found < -130, metric.__name__


@pytest.mark.parametrize(("rate_hz", "target_hz"), [(24000, 16000), (44100, 24000), (16000, 24000)])
def test_soxr_hq_reads_as_specified_and_better_than_lq(rate_hz, target_hz):
    """HQ is a 20 bit recipe: about −120 dB and flat to 0.91 of the Nyquist frequency; LQ ends its passband sooner."""
    librosa = pytest.importorskip("librosa")

    def answer(clip, quality):
        return librosa.resample(clip.samples, orig_sr=rate_hz, target_sr=target_hz, res_type=quality)

    def read(metric, clip, quality):
        return metric(answer(clip, quality), rate_hz, target_hz, clip.signal)

    impulse, sweep, sine = (MAKERS[kind](rate_hz) for kind in ("impulse", "sweep", "sine"))
    assert read(resampling.passband_ripple_db, impulse, "soxr_hq") < 0.01
    assert read(resampling.passband_ripple_db, impulse, "soxr_lq") > 10
    assert abs(read(resampling.delay_samples, impulse, "soxr_hq")) < 1e-3
    assert read(resampling.thd_n_db, sine, "soxr_hq") < -120
    if target_hz > rate_hz:
        assert read(resampling.stopband_db, impulse, "soxr_hq") < -120
        assert read(resampling.stopband_db, impulse, "soxr_lq") > -110
    else:
        assert read(resampling.alias_db, sweep, "soxr_hq") < -130
        assert read(resampling.alias_db, sweep, "soxr_lq") > -125


def test_where_there_is_nothing_above_nyquist_the_floor_is_given():
    impulse, sweep = signals.impulse(24000), signals.log_sweep(16000)
    assert resampling.stopband_db(impulse.samples, 24000, 24000, impulse.signal) == resampling.FLOOR_DB
    assert resampling.stopband_db(impulse.samples[::2], 24000, 12000, impulse.signal) == resampling.FLOOR_DB
    assert resampling.alias_db(sweep.samples, 16000, 16000, sweep.signal) == resampling.FLOOR_DB
    assert resampling.alias_db(np.zeros(24000), 16000, 24000, sweep.signal) == resampling.FLOOR_DB


@pytest.mark.parametrize("kind", ["impulse", "sweep", "sine"])
@pytest.mark.parametrize("target_hz", [16000, 48000])
@pytest.mark.parametrize("damage", ["empty", "nan", "inf", "silent"])
def test_a_lost_answer_never_passes(kind, target_hz, damage):
    clip = MAKERS[kind](24000)
    samples = np.zeros(resampling.expected_length(len(clip.samples), 24000, target_hz))
    if damage == "empty":
        samples = samples[:0]
    elif damage != "silent":
        samples[7] = float(damage)
    # With silence only the metrics that need a passband can tell; the floor where nothing can alias is checked above.
    blind = {"silent": {"stopband_db", "alias_db" if target_hz > 24000 else ""}}.get(damage, set())
    for metric in LEVELS[kind]:
        if metric.__name__ not in blind:
            assert not metric(samples, 24000, target_hz, clip.signal) <= 100


def test_what_is_no_channel_rate_or_signal_is_refused():
    clip = signals.impulse(16000)
    with pytest.raises(NotComparable, match="one channel"):
        resampling.stopband_db(np.zeros((2, 9)), 16000, 24000, clip.signal)
    with pytest.raises(ValueError, match="kHz"):
        resampling.stopband_db(clip.samples, 16000, 0, clip.signal)
    with pytest.raises(ValueError, match="needs 'sine'"):
        resampling.thd_n_db(clip.samples, 16000, 16000, clip.signal)
