"""The speech gate, its companions, and what each of them cannot see."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.signal

from harness.clips import load_clips
from harness.metrics import speech
from harness.metrics.tensors import NotComparable

RATE_HZ = 16000
GATE_DB = 3.0
# What `docs/metrics.md` suggests for the companions: float32 noise is far below, every planted damage far above.
COMPANION_DB = 1.0
COMPANION_CORRELATION = 0.95


def noise(samples=3 * RATE_HZ, seed=1):
    return (0.1 * np.random.default_rng(seed).normal(size=samples)).astype(np.float32)


def talk(samples=3 * RATE_HZ, seed=2):
    """Coloured noise in syllables of about a fifth of a second, with pauses between."""
    coloured = scipy.signal.lfilter([1.0], [1.0, -0.9], noise(samples, seed))
    time_s = np.arange(samples) / RATE_HZ
    syllables = np.clip(np.sin(2 * np.pi * 2.3 * time_s) + np.sin(2 * np.pi * 0.7 * time_s), 0, None)
    return (coloured * syllables).astype(np.float32)


def passes_gate(reference, port):
    return (
        speech.spectral_distance_db(reference, port) <= GATE_DB
        and 0.8 <= speech.duration_ratio(reference, port) <= 1.2
        and 0.5 <= speech.rms_ratio(reference, port) <= 2.0
    )


# The published gate


def test_the_digest_of_an_impulse_is_flat():
    # One impulse at the window's 100th sample: every bin holds w[100]² in the one frame there is.
    samples = np.zeros(1024)
    samples[100] = 1.0
    weight = 0.5 - 0.5 * math.cos(2 * math.pi * 100 / 1023)
    assert speech.digest(samples) == pytest.approx(np.full(64, 20 * math.log10(weight)), abs=1e-9)


def test_the_digest_agrees_with_scipys_spectrogram():
    samples = noise(RATE_HZ)
    window = scipy.signal.windows.hann(1024, sym=True)
    _, _, spectrum = scipy.signal.spectrogram(
        samples.astype(np.float64),
        window=window,
        nperseg=1024,
        noverlap=512,
        detrend=False,
        scaling="spectrum",
        mode="complex",
    )
    # SciPy's `spectrum` scaling divides by the window's sum; the digest does not.
    power = (np.abs(spectrum * window.sum()) ** 2).mean(axis=1)
    edges = [0, *range(9, 514, 8)]
    expected = [10 * math.log10(power[start:stop].mean() + 1e-12) for start, stop in pairwise(edges)]
    assert speech.digest(samples) == pytest.approx(expected, abs=1e-9)


def test_the_digest_has_64_bands_the_first_of_nine_bins():
    tone = np.sin(2 * np.pi * 9 * np.arange(1024) / 1024)  # in bin 9, the first of the second band
    digest = speech.digest(tone)
    assert digest.shape == (64,)
    assert digest.argmax() == 1


def test_silence_has_a_digest_at_the_offset():
    assert speech.digest(np.zeros(5000)) == pytest.approx(np.full(64, -120.0))


def test_a_clip_shorter_than_a_frame_is_padded_and_what_fills_no_frame_is_dropped():
    short = noise(700)
    assert np.array_equal(speech.digest(short), speech.digest(np.append(short, np.zeros(324, np.float32))))
    long = noise(1024 + 512 + 511)
    assert np.array_equal(speech.digest(long), speech.digest(long[: 1024 + 512]))


def test_the_distance_ignores_level():
    assert speech.spectral_distance_db(noise(), 0.25 * noise()) < 1e-6


def test_the_distance_of_a_known_tilt():
    # Upper half of the bands 10 dB down: ±5 dB about the mean, an RMS of 5 dB.
    reference, spectrum = noise(), np.fft.rfft(noise())
    spectrum[len(spectrum) // 2 :] *= 10 ** (-10 / 20)
    found = speech.spectral_distance_db(reference, np.fft.irfft(spectrum, len(reference)))
    assert found == pytest.approx(5.0, abs=0.15)


def test_duration_and_rms_ratio_are_port_over_reference():
    assert speech.duration_ratio(noise(1000), noise(1500)) == 1.5
    assert speech.rms_ratio(noise(), 0.5 * noise()) == pytest.approx(0.5)
    assert speech.rms_ratio(np.zeros(9), np.zeros(9)) == 1.0
    assert speech.rms_ratio(np.zeros(9), np.ones(9)) == math.inf
    assert speech.rms_ratio(np.ones(9), np.zeros(9)) == 0.0


# Blind spots


def test_time_reversal_passes_the_gate_and_fails_its_companions():
    reference = noise()
    port = reference[::-1]
    assert speech.spectral_distance_db(reference, port) < 0.2
    assert passes_gate(reference, port)
    assert speech.frame_log_spectral_distance_db(reference, port, RATE_HZ) > 5 * COMPANION_DB
    assert speech.envelope_correlation(reference, port, RATE_HZ) < 0.5


def test_a_silenced_second_half_passes_the_gate_and_fails_its_companions():
    reference = noise()
    port = reference.copy()
    port[len(port) // 2 :] = 0
    assert speech.spectral_distance_db(reference, port) < 0.3
    assert passes_gate(reference, port)
    assert speech.frame_log_spectral_distance_db(reference, port, RATE_HZ) > 5 * COMPANION_DB
    assert speech.envelope_correlation(reference, port, RATE_HZ) < COMPANION_CORRELATION


def test_removing_the_top_tenth_of_the_band_fails_the_gate():
    reference = noise()
    for attenuation, expected_db in ((0.0, 26), (0.1, 5.8)):
        spectrum = np.fft.rfft(reference.astype(np.float64))
        spectrum[round(0.9 * len(spectrum)) :] *= attenuation
        found = speech.spectral_distance_db(reference, np.fft.irfft(spectrum, len(reference)))
        assert found > GATE_DB
        assert found == pytest.approx(expected_db, rel=0.1)


def test_an_empty_band_makes_the_gate_hear_what_nobody_can():
    # Oversensitive rather than blind: above the old Nyquist there is next to nothing, and noise of −120 dBFS is more.
    reference = scipy.signal.resample(noise(), 3 * len(noise()) // 2)
    port = reference + 1e-6 * noise(len(reference), seed=3) / 0.1
    assert speech.spectral_distance_db(reference, port) > GATE_DB
    assert speech.frame_log_spectral_distance_db(reference, port, 24000) < 0.01


@pytest.mark.slow
def test_reversed_real_speech_passes_the_gate_and_fails_both_companions(real_clips):
    clips = load_clips(real_clips)
    assert clips
    for clip in clips:
        port = clip.samples[::-1]
        assert passes_gate(clip.samples, port), clip.id
        assert speech.frame_log_spectral_distance_db(clip.samples, port, clip.rate_hz) > 5 * COMPANION_DB, clip.id
        assert speech.envelope_correlation(clip.samples, port, clip.rate_hz) < COMPANION_CORRELATION, clip.id


def test_the_companions_pass_what_must_not_matter():
    reference = talk()
    port = reference + np.float32(1e-6) * noise(len(reference), seed=3)
    assert speech.frame_log_spectral_distance_db(reference, port, RATE_HZ) < 0.1
    assert speech.envelope_correlation(reference, port, RATE_HZ) > 0.999999


# Gain and lag


@pytest.mark.parametrize("lag", [-321, -1, 0, 1, 320])
@pytest.mark.parametrize("gain_db", [-2.5, 0.0, 6.0])
def test_a_known_gain_and_lag_are_found(lag, gain_db):
    reference = np.append(np.zeros(400, np.float32), talk())  # a pause, so that an early port loses nothing
    scaled = 10 ** (gain_db / 20) * reference.astype(np.float64)
    port = np.concatenate([np.zeros(lag), scaled]) if lag >= 0 else scaled[-lag:]
    found = speech.fit_gain_and_lag(reference, port)
    assert found[0] == pytest.approx(gain_db, abs=1e-6)
    assert found[1] == lag
    assert speech.frame_log_spectral_distance_db(reference, port, RATE_HZ) < 1e-6


def test_silenced_passages_and_polarity_do_not_bend_the_fit():
    port = -0.5 * talk()
    port[RATE_HZ : 2 * RATE_HZ] = 0
    gain_db, lag_samples = speech.fit_gain_and_lag(talk(), port)
    assert gain_db == pytest.approx(20 * math.log10(0.5), abs=0.1)
    assert lag_samples == 0


@pytest.mark.parametrize(
    ("fit", "sentence"),
    [
        ((-2.5, 320), "-2.5 dB, 320 samples late"),
        ((1.25, -1), "+1.2 dB, 1 sample early"),
        ((-0.04, 0), "0.0 dB, in time"),
        ((-math.inf, 0), "the port is silent"),
        ((math.inf, 0), "only the reference is silent"),
        ((math.nan, 0), "no gain and lag explain the port"),
    ],
)
def test_the_fit_as_a_sentence(fit, sentence):
    assert speech.describe_fit(*fit) == sentence


def test_unrelated_noise_has_no_fit():
    gain_db, lag_samples = speech.fit_gain_and_lag(noise(seed=1), noise(seed=9))
    assert math.isnan(gain_db)
    assert lag_samples == 0


def test_the_fit_of_silence():
    sound, silence = talk(), np.zeros(3 * RATE_HZ, np.float32)
    assert speech.fit_gain_and_lag(sound, silence) == (-math.inf, 0)
    assert speech.fit_gain_and_lag(silence, sound) == (math.inf, 0)
    assert speech.fit_gain_and_lag(silence, silence) == (0.0, 0)


# The companions by hand


def test_frame_distance_of_a_band_that_is_half_gone():
    # Half of the bins 10 dB down, the median gain somewhere between: either way the frames' RMS is 10·√½ dB.
    reference = noise()
    spectrum = np.fft.rfft(reference.astype(np.float64))
    spectrum[: round(0.45 * len(spectrum))] *= 10 ** (-10 / 20)
    found = speech.frame_log_spectral_distance_db(reference, np.fft.irfft(spectrum, len(reference)), RATE_HZ)
    assert found == pytest.approx(10 * math.sqrt(0.45), abs=0.3)


def test_frame_distance_of_independent_noise():
    # The log of a power that is exponentially distributed varies by π/√6 nepers: two of them differ by 10/ln10·π/√3 dB.
    found = speech.frame_log_spectral_distance_db(noise(seed=1), noise(seed=9), RATE_HZ)
    assert found == pytest.approx(10 / math.log(10) * math.pi / math.sqrt(3), abs=0.25)


def test_silent_frames_neither_dominate_nor_dilute():
    reference, port = noise(seed=1), noise(seed=9)
    pause = np.zeros(10 * len(reference), np.float32)
    alone = speech.frame_log_spectral_distance_db(reference, port, RATE_HZ)
    hiss = np.float32(1e-6)
    found = speech.frame_log_spectral_distance_db(
        np.append(reference, pause), np.append(port, hiss * noise(len(pause))), RATE_HZ
    )
    assert found == pytest.approx(alone, rel=0.1)


def test_a_missing_end_is_seen_not_cut_off():
    reference = talk()
    port = reference[: round(0.85 * len(reference))]
    assert passes_gate(reference, port)
    assert speech.frame_log_spectral_distance_db(reference, port, RATE_HZ) > 1.0
    assert speech.frame_log_spectral_distance_db(port, reference, RATE_HZ) > 1.0


def test_envelope_correlation_agrees_with_numpy():
    reference, port = talk(seed=2), talk(seed=5)
    envelopes = [np.sqrt((side.astype(np.float64).reshape(-1, 320) ** 2).mean(axis=1)) for side in (reference, port)]
    expected = np.corrcoef(*envelopes)[0, 1]
    assert speech.envelope_correlation(reference, port, RATE_HZ) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.5


def test_opposite_envelopes_correlate_negatively():
    quiet, loud = np.full(320, 0.1), np.full(320, 0.9)
    found = speech.envelope_correlation(np.append(quiet, loud), np.append(loud, quiet), RATE_HZ)
    assert found == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("reference", "port", "expected"),
    [
        (np.zeros(3200), np.zeros(3200), 1.0),
        (np.zeros(3200), np.ones(3200), 0.0),
        (np.ones(3200), np.full(3200, 0.5), 1.0),
        (np.ones(3200), talk(3200), 0.0),
        (np.ones(3200), np.ones(1600), 0.0),
        (np.ones(100), np.ones(100), 1.0),
    ],
)
def test_envelopes_without_shape(reference, port, expected):
    assert speech.envelope_correlation(reference, port, RATE_HZ) == expected


def test_frame_distance_of_silence():
    silence = np.zeros(RATE_HZ)
    assert speech.frame_log_spectral_distance_db(silence, silence, RATE_HZ) == 0.0
    assert speech.frame_log_spectral_distance_db(silence, noise(RATE_HZ), RATE_HZ) == math.inf
    assert speech.frame_log_spectral_distance_db(noise(RATE_HZ), silence, RATE_HZ) > 30


# Bad input


def measures():
    return [
        speech.spectral_distance_db,
        speech.rms_ratio,
        lambda reference, port: speech.fit_gain_and_lag(reference, port)[0],
        lambda reference, port: speech.frame_log_spectral_distance_db(reference, port, RATE_HZ),
        lambda reference, port: speech.envelope_correlation(reference, port, RATE_HZ),
    ]


@pytest.mark.parametrize("measure", measures())
@pytest.mark.parametrize("damage", ["empty", "nan", "inf"])
def test_an_unusable_side_gives_nan(measure, damage):
    sound = talk(4000)
    bad = sound[:0] if damage == "empty" else np.where(np.arange(4000) == 7, float(damage), sound)
    assert math.isnan(measure(sound, bad))
    assert math.isnan(measure(bad, sound))
    assert math.isnan(measure(bad, bad))


def test_the_duration_of_nothing_is_no_number():
    assert math.isnan(speech.duration_ratio(np.zeros(0), np.zeros(0)))


@pytest.mark.parametrize("measure", [*measures(), speech.duration_ratio])
def test_more_than_one_channel_is_refused(measure):
    with pytest.raises(NotComparable, match=r"the port has \[2, 50\]"):
        measure(np.zeros(50), np.zeros((2, 50)))


def test_a_rate_in_khz_is_refused():
    with pytest.raises(ValueError, match="kHz"):
        speech.envelope_correlation(np.zeros(9), np.zeros(9), 16)
