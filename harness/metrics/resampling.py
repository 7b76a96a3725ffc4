"""What a resampler does to test signals whose parameters are known.

Conventions
-----------
`samples` is the resampler's answer, one channel [M], at `target_hz`, to a signal of `harness.signals` at `rate_hz`;
`signal` is that clip's `signal` mapping. *Lower Nyquist* is half of the lower of the two rates. Levels are in dB,
never below `FLOOR_DB`, which also stands for "there is nothing to measure" (no image without upsampling, no alias
without downsampling). Every level is an error: smaller is better. An answer that is empty or not finite, or in which
the signal is lost, gives NaN or infinity, so that `value <= limit` fails.

Metrics
-------
expected_length      samples librosa gives for a rate pair
waveform_error       max abs, RMS, RMS in dBFS, bit-exactness
passband_ripple_db   impulse: largest deviation from unity gain up to 0.9 of the lower Nyquist
stopband_db          impulse: highest image above the lower Nyquist (upsampling)
alias_db             sweep: what is left while it is above the target's Nyquist (downsampling)
delay_samples        impulse: distance from its ideal place, in output samples
thd_n_db             sine: residual after fitting the sine, relative to the sine
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.metrics.tensors import NotComparable, compare_tensors

FLOOR_DB = -240.0
PASSBAND_SHARE = 0.9
# Bins of the impulse response's spectrum: 0.7 Hz apart at 48 kHz, far finer than any ripple of a filter this short.
SPECTRUM_SAMPLES = 1 << 16
# A sharp filter still rings from its passband while the sweep crosses the Nyquist frequency. Read from there, soxr HQ
# has −68 dB and LQ −101 dB (24 to 16 kHz); read from 5 % above, −136 and −111 dB, the order of their quality.
ALIAS_SHARE = 1.05
# The sweep's abrupt end is a click of its own, and the filter rings around it.
SWEEP_END_S = 0.01
# Share of the signal left out at either end of the sine, where the filter still sees its onset.
SINE_EDGE_SHARE = 0.1


@dataclass(frozen=True)
class WaveformError:
    """max_abs, rms: in sample units (full scale is 1). rms_dbfs: 20·log10(rms), 0 dBFS being an RMS of 1."""

    max_abs: float
    rms: float
    rms_dbfs: float
    bit_exact: bool


def validate(samples: NDArray[Any], rate_hz: int, target_hz: int, signal: Mapping[str, Any], kind: str) -> None:
    """Raise NotComparable unless `samples` is one channel, ValueError unless rates and signal are what is needed."""
    if samples.ndim != 1:
        raise NotComparable(f"shape: {list(samples.shape)}; one channel [M] can be analysed")
    if rate_hz <= 0 or target_hz <= 0:
        raise ValueError(f"{rate_hz} Hz to {target_hz} Hz: rates are above 0 (did you pass kHz?)")
    if signal.get("kind") != kind:
        raise ValueError(f"the answer to a signal of kind {signal.get('kind')!r}; this metric needs {kind!r}")


def expected_length(samples: int, rate_hz: int, target_hz: int) -> int:
    """Output samples of `librosa.resample` for `samples` input samples.

    The product is rounded in float64 before it is rounded up, which for 44100, 22050 and 11025 to 24000 Hz can give one
    sample more than exact arithmetic does (147 samples at 44100 Hz: 81, not 80). Source: `librosa.core.audio`.
    """
    return math.ceil(samples * (float(target_hz) / rate_hz))


def waveform_error(reference: NDArray[Any], port: NDArray[Any]) -> WaveformError:
    """Sample by sample error of two waveforms of equal shape, [M] or [C, M].

    Raises NotComparable when shape or dtype differ.
    """
    error = compare_tensors(reference, port)
    return WaveformError(error.max_abs, error.rms, _level_db(error.rms), error.bit_exact)


def passband_ripple_db(samples: NDArray[Any], rate_hz: int, target_hz: int, signal: Mapping[str, Any]) -> float:
    """Largest |gain in dB| from 0 Hz to 0.9 of the lower Nyquist, from the answer to an impulse.

    Unity gain is an answer whose sum is amplitude·target/rate; a wrong overall scale therefore counts as ripple.
    """
    validate(samples, rate_hz, target_hz, signal, "impulse")
    if not _usable(samples):
        return math.nan
    frequency_hz, gain = _gain(samples, rate_hz, target_hz, signal)
    passband = gain[frequency_hz <= PASSBAND_SHARE * min(rate_hz, target_hz) / 2]
    return max(abs(_level_db(float(passband.min()))), abs(_level_db(float(passband.max()))))


def stopband_db(samples: NDArray[Any], rate_hz: int, target_hz: int, signal: Mapping[str, Any]) -> float:
    """Highest gain above the lower Nyquist, in dB relative to unity gain, from the answer to an impulse.

    FLOOR_DB unless target_hz is above rate_hz: the output has no frequency above the lower Nyquist then.
    """
    validate(samples, rate_hz, target_hz, signal, "impulse")
    if not _usable(samples):
        return math.nan
    if target_hz <= rate_hz:
        return FLOOR_DB
    frequency_hz, gain = _gain(samples, rate_hz, target_hz, signal)
    return _level_db(float(gain[frequency_hz >= rate_hz / 2].max()))


def alias_db(samples: NDArray[Any], rate_hz: int, target_hz: int, signal: Mapping[str, Any]) -> float:
    """Power of the output while the sweep is above the target's Nyquist, relative to its power in the passband, in dB.

    Both are mean squares over time: from the moment the sweep crosses 1.05·target_hz/2 to 10 ms before its end, against
    from its start to the moment it crosses 0.9·target_hz/2. FLOOR_DB unless the sweep rises above 1.05·target_hz/2. NaN
    when it ends within 10 ms of that, infinite when the passband is silent.
    """
    validate(samples, rate_hz, target_hz, signal, "sweep")
    if not _usable(samples):
        return math.nan
    from_hz, to_hz = float(signal["from_hz"]), float(signal["to_hz"])
    if target_hz >= rate_hz or ALIAS_SHARE * target_hz / 2 >= to_hz:
        return FLOOR_DB

    def crossing(frequency_hz: float) -> int:
        return round(len(samples) * math.log(frequency_hz / from_hz) / math.log(to_hz / from_hz))

    alias_end = len(samples) - round(SWEEP_END_S * target_hz)
    passband = samples[: crossing(PASSBAND_SHARE * target_hz / 2)].astype(np.float64)
    alias = samples[crossing(ALIAS_SHARE * target_hz / 2) : alias_end].astype(np.float64)
    if passband.size == 0 or alias.size == 0:
        return math.nan
    return _ratio_db(_rms(alias), _rms(passband))


def delay_samples(samples: NDArray[Any], rate_hz: int, target_hz: int, signal: Mapping[str, Any]) -> float:
    """How late an impulse comes out, in output samples and fractions of one; negative is early.

    The ideal place is position·target/rate. The delay is the mean slope of the phase over the passband, each frequency
    weighted by its energy: the angle of the sum over neighbouring bins of H[k+1]·conj(H[k]), which needs no unwrapping.
    NaN when the passband is silent.
    """
    validate(samples, rate_hz, target_hz, signal, "impulse")
    if not _usable(samples):
        return math.nan
    ideal = signal["position_samples"] * (target_hz / rate_hz)
    count = max(SPECTRUM_SAMPLES, len(samples))
    frequency = np.fft.rfftfreq(count)
    spectrum = np.fft.rfft(samples.astype(np.float64), count) * np.exp(2j * np.pi * frequency * ideal)
    passband = spectrum[frequency * target_hz <= PASSBAND_SHARE * min(rate_hz, target_hz) / 2]
    slope = np.sum(passband[1:] * np.conj(passband[:-1]))
    return float(-np.angle(slope) / (2 * np.pi) * count) if slope != 0 else math.nan


def thd_n_db(samples: NDArray[Any], rate_hz: int, target_hz: int, signal: Mapping[str, Any]) -> float:
    """RMS of what is not the sine, relative to the RMS of the sine, in dB.

    The sine of the stated frequency is fitted by least squares, amplitude and phase, over the middle four fifths; the
    residual holds harmonics, noise and DC. Infinite when nothing of the sine is left, NaN when the sine is not below
    the lower Nyquist or there are fewer than 4 samples to fit.
    """
    validate(samples, rate_hz, target_hz, signal, "sine")
    edge = round(len(samples) * SINE_EDGE_SHARE)
    middle = samples[edge : len(samples) - edge].astype(np.float64)
    if not _usable(samples) or len(middle) < 4 or signal["frequency_hz"] >= min(rate_hz, target_hz) / 2:
        return math.nan
    phase = 2 * np.pi * signal["frequency_hz"] / target_hz * np.arange(len(middle))
    basis = np.stack([np.sin(phase), np.cos(phase)], axis=1)
    fitted = basis @ np.linalg.lstsq(basis, middle, rcond=None)[0]
    return _ratio_db(_rms(middle - fitted), _rms(fitted))


def _usable(samples: NDArray[Any]) -> bool:
    return samples.size > 0 and bool(np.isfinite(samples).all())


def _gain(
    samples: NDArray[Any], rate_hz: int, target_hz: int, signal: Mapping[str, Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Frequencies in Hz and the gain at each, 1 being unity."""
    count = max(SPECTRUM_SAMPLES, len(samples))
    spectrum = np.abs(np.fft.rfft(samples.astype(np.float64), count))
    unity = signal["amplitude"] * target_hz / rate_hz
    return np.asarray(np.fft.rfftfreq(count, 1 / target_hz)), np.asarray(spectrum / unity)


def _rms(values: NDArray[np.float64]) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _ratio_db(part: float, whole: float) -> float:
    """20·log10 of part / whole; infinite when the whole is 0."""
    return _level_db(part / whole) if whole > 0 else math.inf


def _level_db(amplitude: float) -> float:
    """20·log10 of an amplitude, not below FLOOR_DB; NaN stays NaN."""
    if math.isnan(amplitude):
        return math.nan
    return max(20 * math.log10(amplitude), FLOOR_DB) if amplitude > 0 else FLOOR_DB
