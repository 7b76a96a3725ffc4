"""How alike two spoken answers are: the published 64-band gate, and the companions that see what it cannot.

Conventions
-----------
Waveforms are one channel [N], full scale 1, both at one rate; a rate is given where a window is stated in time and
has no default. Lengths may differ: what one side has and the other lacks is compared with silence, never cut off.
Ratios are port / reference. An empty or non-finite waveform gives NaN, so that `value <= limit` fails.

Metrics
-------
spectral_distance_db           the published gate: time-averaged, level-invariant, in 64 bands
duration_ratio                 length of the port / length of the reference
rms_ratio                      RMS of the port / RMS of the reference
fit_gain_and_lag               the gain and delay that explain the port best
frame_log_spectral_distance_db frame by frame, after that gain and delay are taken out
envelope_correlation           likeness of loudness over time

The published gate is blind to order and to missing content: noise played backwards, or with its second half silenced,
passes it. `frame_log_spectral_distance_db` sees both, and `envelope_correlation` sees both without aligning anything.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.metrics.tensors import NotComparable

DIGEST_BANDS = 64
DIGEST_FRAME_SAMPLES = 1024
DIGEST_HOP_SAMPLES = 512
DIGEST_OFFSET = 1e-12
FRAME_S = 0.032
ENVELOPE_FRAME_S = 0.02
# Bins this far below the reference's mean power (−60 dB) count as silent, and differences among them as none.
SILENCE_POWER = 1e-6
# Least correlation at which a lag means something: its square, a tenth, is the share of the energy that is explained.
RELATED = math.sqrt(0.1)
# An envelope that varies less than this, relative to its mean, has no shape to correlate: float32 rounding is below it.
FLAT_ENVELOPE = 1e-6


def validate(reference: NDArray[Any], port: NDArray[Any]) -> None:
    """Raise NotComparable unless both waveforms are one channel, [N] and [M]."""
    for side, samples in (("reference", reference), ("port", port)):
        if np.ndim(samples) != 1:
            raise NotComparable(f"shape: the {side} has {list(np.shape(samples))}; one channel [N] can be compared")


def digest(samples: NDArray[Any]) -> NDArray[np.float64]:
    """The 64-band digest of one channel [N], in dB, shape [64]; all NaN when `samples` is empty.

    Frames of 1024 with hop 512 under a symmetric Hann window, not centred, what does not fill a frame dropped; only a
    waveform shorter than one frame is zero-padded. Power is averaged over time; the 513 bins are split in order into a
    band of 9 and 63 bands of 8; 10·log10 of each band's mean + 1e-12. Source: NVIDIA TensorRT-Model-Connect,
    `trtmc_perf_serving/digests.py`.
    """
    if len(samples) == 0:
        return np.full(DIGEST_BANDS, np.nan)
    padded = _pad_end(np.asarray(samples, dtype=np.float64), DIGEST_FRAME_SAMPLES)
    power = _power(padded, DIGEST_FRAME_SAMPLES, DIGEST_HOP_SAMPLES).mean(axis=0)
    bands = np.array([band.mean() for band in np.array_split(power, DIGEST_BANDS)])
    return np.asarray(10 * np.log10(bands + DIGEST_OFFSET))


def spectral_distance_db(reference: NDArray[Any], port: NDArray[Any]) -> float:
    """RMS over the 64 bands of the difference of the two digests, each less its own mean; in dB. Symmetric.

    The published gate is 3.0 dB, with a duration ratio of 0.8 to 1.2 and an RMS ratio of 0.5 to 2.0. Source: NVIDIA
    TensorRT-Model-Connect, `trtmc_aiperf_plugins/accuracy.py`.
    """
    validate(reference, port)
    if not (_usable(reference) and _usable(port)):
        return math.nan
    left, right = digest(reference), digest(port)
    return float(np.sqrt(np.mean(((left - left.mean()) - (right - right.mean())) ** 2)))


def duration_ratio(reference: NDArray[Any], port: NDArray[Any]) -> float:
    """Samples of the port / samples of the reference; NaN when the reference is empty."""
    validate(reference, port)
    return len(port) / len(reference) if len(reference) else math.nan


def rms_ratio(reference: NDArray[Any], port: NDArray[Any]) -> float:
    """RMS of the port / RMS of the reference: 1 when both are silent, infinite when only the reference is."""
    validate(reference, port)
    if not (_usable(reference) and _usable(port)):
        return math.nan
    left, right = _rms(reference), _rms(port)
    if left == 0:
        return 1.0 if right == 0 else math.inf
    return right / left


def fit_gain_and_lag(reference: NDArray[Any], port: NDArray[Any]) -> tuple[float, int]:
    """The gain in dB and the lag in samples that explain the port best; a positive lag is a late port.

    Lag: where the magnitude of the cross-correlation is largest (polarity is not told). Gain: the median, over frames
    of 1024 samples and their bins in which neither side is silent, of port over reference in dB once the lag is taken
    out; so that silenced passages or a filtered band do not bend it. The gain is −inf for a silent port, inf for a
    silent reference, 0 for two silent sides; it is NaN and the lag 0 when no lag explains a tenth of the port's energy,
    or when a side is empty or not finite.
    """
    validate(reference, port)
    if not (_usable(reference) and _usable(port)):
        return math.nan, 0
    silent = not np.any(reference), not np.any(port)
    if any(silent):
        return (0.0 if all(silent) else math.inf if silent[0] else -math.inf), 0
    left, right = np.asarray(reference, dtype=np.float64), np.asarray(port, dtype=np.float64)
    lag_samples = _fit_lag(left, right)
    if lag_samples is None:
        return math.nan, 0
    return _median_gain_db(*_aligned(left, right, lag_samples)), lag_samples


def _fit_lag(left: NDArray[np.float64], right: NDArray[np.float64]) -> int | None:
    """The lag of the highest cross-correlation, None when it says nothing: of unrelated noise it would be any lag."""
    # Half a second to import: only those who compare speech wait for it.
    from scipy.signal import correlate, correlation_lags

    if np.array_equal(left, right):
        return 0  # nothing correlates better with a waveform than itself
    correlation = np.abs(correlate(right, left, mode="full", method="fft"))
    highest = int(correlation.argmax())
    if not correlation[highest] >= RELATED * math.sqrt((left @ left) * (right @ right)):
        return None
    return int(correlation_lags(len(right), len(left))[highest])


def _median_gain_db(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Median level of `right` over `left` where both are audible, in dB; NaN when they never are together."""
    powers = [_framed(side, DIGEST_FRAME_SAMPLES) for side in (left, right)]
    audible = np.logical_and(*(power > SILENCE_POWER * power.mean() for power in powers))
    return float(np.median(10 * np.log10(powers[1][audible] / powers[0][audible]))) if audible.any() else math.nan


def describe_fit(gain_db: float, lag_samples: int) -> str:
    """The fit as a reader says it: `-2.5 dB, 320 samples late`."""
    if math.isnan(gain_db):
        return "no gain and lag explain the port"
    if math.isinf(gain_db):
        return "the port is silent" if gain_db < 0 else "only the reference is silent"
    level = "0.0 dB" if abs(gain_db) < 0.05 else f"{gain_db:+.1f} dB"
    if lag_samples == 0:
        return f"{level}, in time"
    unit = "sample" if abs(lag_samples) == 1 else "samples"
    return f"{level}, {abs(lag_samples)} {unit} {'late' if lag_samples > 0 else 'early'}"


def frame_log_spectral_distance_db(reference: NDArray[Any], port: NDArray[Any], rate_hz: int) -> float:
    """Mean over frames of the RMS over bins of the difference of the log power spectra, in dB.

    Lag (0 when the two are unrelated) and gain are fitted and taken out first, as `fit_gain_and_lag` does. Frames of
    32 ms with half overlap, centred, symmetric Hann. To both powers is added a floor 60 dB below the reference's mean
    power; frames in which neither side rises above the floor are left out, so that silence neither dominates nor
    dilutes. 0 when both sides are silent, infinite when only the reference is. Not symmetric: the floor is the
    reference's. Form after Gray and Markel (1976), "Distance measures for speech processing".
    """
    validate(reference, port)
    _check_rate(rate_hz)
    if not (_usable(reference) and _usable(port)):
        return math.nan
    if not np.any(reference):
        return math.inf if np.any(port) else 0.0
    whole = np.asarray(reference, dtype=np.float64), np.asarray(port, dtype=np.float64)
    aligned = _aligned(*whole, _fit_lag(*whole) or 0)
    gain_db = _median_gain_db(*aligned)
    left, right = (_framed(side, round(FRAME_S * rate_hz)) for side in aligned)
    if math.isfinite(gain_db):
        right = right / 10 ** (gain_db / 10)
    floor = SILENCE_POWER * left.mean()
    active = np.maximum(left.max(axis=1), right.max(axis=1)) > floor
    difference = 10 * np.log10((right[active] + floor) / (left[active] + floor))
    return float(np.sqrt(np.mean(difference**2, axis=1)).mean())


def envelope_correlation(reference: NDArray[Any], port: NDArray[Any], rate_hz: int) -> float:
    """Pearson correlation of the RMS in frames of 20 ms, −1..1; 1 is alike. Symmetric; nothing is aligned.

    The shorter side is taken as silent to the end of the longer. A flat envelope (a steady tone, silence, a clip of
    one frame) has no shape to correlate: two flat ones give 1, one flat one gives 0, silence against sound gives 0.
    """
    validate(reference, port)
    _check_rate(rate_hz)
    if not (_usable(reference) and _usable(port)):
        return math.nan
    if np.any(reference) != np.any(port):
        return 0.0
    length = max(len(reference), len(port))
    left, right = (_envelope(side, length, round(ENVELOPE_FRAME_S * rate_hz)) for side in (reference, port))
    flat = [bool(side.std() <= FLAT_ENVELOPE * side.mean()) for side in (left, right)]
    if any(flat):
        return float(all(flat))
    left, right = left - left.mean(), right - right.mean()
    return float(np.clip((left @ right) / math.sqrt((left @ left) * (right @ right)), -1.0, 1.0))


def _usable(samples: NDArray[Any]) -> bool:
    return len(samples) > 0 and bool(np.isfinite(samples).all())


def _check_rate(rate_hz: int) -> None:
    if rate_hz < 1000:
        raise ValueError(f"{rate_hz} Hz is no rate of speech (did you pass kHz?)")


def _rms(samples: NDArray[Any]) -> float:
    return math.sqrt(float(np.mean(np.square(samples, dtype=np.float64))))


def _pad_end(samples: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    return np.pad(samples, (0, max(0, length - len(samples))))


def _aligned(
    left: NDArray[np.float64], right: NDArray[np.float64], lag_samples: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both sides on one time line that holds all of either, `right` moved `lag_samples` earlier."""
    left, right = np.pad(left, (max(0, lag_samples), 0)), np.pad(right, (max(0, -lag_samples), 0))
    length = max(len(left), len(right))
    return _pad_end(left, length), _pad_end(right, length)


def _framed(samples: NDArray[np.float64], frame_samples: int) -> NDArray[np.float64]:
    """Power spectra [frames, bins] with half overlap, centred: half a frame of zeros at either end.

    Without them the window would all but hide the first and the last samples.
    """
    hop = frame_samples // 2
    padded = np.pad(samples, (hop, hop + -len(samples) % hop))
    return _power(padded, frame_samples, hop)


def _power(samples: NDArray[np.float64], frame_samples: int, hop_samples: int) -> NDArray[np.float64]:
    """|rfft|² of every whole frame under a symmetric Hann window: [frames, frame_samples // 2 + 1]."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, frame_samples)[::hop_samples]
    return np.asarray(np.abs(np.fft.rfft(frames * np.hanning(frame_samples), axis=1)) ** 2)


def _envelope(samples: NDArray[Any], length: int, frame_samples: int) -> NDArray[np.float64]:
    """RMS of consecutive frames that cover `length` samples; the last frame counts only the samples it has."""
    starts = np.arange(0, length, frame_samples)
    energy = np.add.reduceat(_pad_end(np.asarray(samples, dtype=np.float64), length) ** 2, starts)
    return np.asarray(np.sqrt(energy / np.diff(np.append(starts, length))))
