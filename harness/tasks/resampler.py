"""Task `resampler`: a waveform at one rate to the same waveform at another.

Conventions: every clip is resampled to 16 kHz and to 24 kHz; outputs are named `resampled_16000`, `resampled_24000`,
and `streamed_…` for the same input handed over in blocks. Shapes [M] or [C, M], rates in Hz, errors in sample units of
±1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness import signals as test_signals
from harness.clips import Clip
from harness.measurements import Measurement
from harness.metrics import resampling
from harness.metrics.tensors import NotComparable, compare_tensors
from harness.observations import Observation, Outputs
from harness.tasks.rows import SPEECH_METRICS, Rows

TASK = "resampler"
RATES_HZ = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000)
TARGET_RATES_HZ = (16000, 24000)
LENGTHS = (0, 1, 2, 100, 147, 1009)
MINUTE_RATES_HZ = (24000, 44100)
# Blocks of a stream: not a divisor of anything, so that block borders fall everywhere.
BLOCK_SAMPLES = 1021
# HQ is a 20-bit recipe. Levels below its −120 dB are float32 rounding, which differs from processor to processor.
RECIPE_FLOOR_DB = -120.0
LONGEST_GOLDEN_S = 10.0
GOLDEN_TENSORS = tuple(f"resampled_{rate_hz}" for rate_hz in TARGET_RATES_HZ)

METRICS: Mapping[str, str] = {
    "length_error": "samples",
    "dtype_mismatch": "1",
    "max_abs": "1",
    "rms_dbfs": "dBFS",
    "bit_inexact_share": "1",
    "identity_max_abs": "1",
    "stream_max_abs": "1",
    "passband_ripple_excess_db": "dB",
    "stopband_excess_db": "dB",
    "alias_excess_db": "dB",
    "thd_n_excess_db": "dB",
    "delay_error_samples": "samples",
    **SPEECH_METRICS,
}
ROWS = Rows(METRICS)


class Resampler(Protocol):
    """What an implementation of this task offers; `stream` is optional."""

    version: str

    def resample(self, samples: NDArray[Any], rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
        """The whole waveform at once: [N] or [C, N] to [M] or [C, M], dtype kept."""

    def stream(self, blocks: Sequence[NDArray[Any]], rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
        """The same waveform handed over in blocks, with state carried between them."""


def stimuli(clips: Iterable[Clip]) -> list[Clip]:
    """Every clip as it is: a resampler takes any rate and any number of channels.

    No golden is kept for a long clip: its waveforms alone would be a third of all goldens.
    """
    return [replace(clip, golden=clip.golden and clip.duration_s <= LONGEST_GOLDEN_S) for clip in clips]


def signals() -> list[Clip]:
    """Test signals at every source rate: what the dB gates need, the lengths where ports go wrong, and a minute."""
    made = []
    for rate_hz in RATES_HZ:
        made += [test_signals.log_sweep(rate_hz), test_signals.sine(rate_hz), test_signals.impulse(rate_hz)]
        made += [test_signals.noise(rate_hz, length, seed=length) for length in LENGTHS]
    made += [test_signals.noise(rate_hz, 60 * rate_hz, seed=60) for rate_hz in MINUTE_RATES_HZ]
    made.append(test_signals.stereo_noise(44100, 4410))
    return made


def observe(implementation: Resampler, clip: Clip) -> Outputs:
    """Resample one clip to every target rate, whole and, where offered, in blocks."""
    tensors: dict[str, NDArray[Any]] = {}
    timings: dict[str, float] = {}
    for target_hz in TARGET_RATES_HZ:
        started = time.perf_counter()
        tensors[f"resampled_{target_hz}"] = implementation.resample(clip.samples, clip.rate_hz, target_hz)
        timings[f"resampled_{target_hz}"] = time.perf_counter() - started
        if hasattr(implementation, "stream"):
            blocks = _blocks(clip.samples)
            started = time.perf_counter()
            tensors[f"streamed_{target_hz}"] = implementation.stream(blocks, clip.rate_hz, target_hz)
            timings[f"streamed_{target_hz}"] = time.perf_counter() - started
    return Outputs(tensors, timings=timings)


def _blocks(samples: NDArray[Any]) -> list[NDArray[Any]]:
    starts = range(0, max(samples.shape[-1], 1), BLOCK_SAMPLES)
    return [samples[..., start : start + BLOCK_SAMPLES] for start in starts]


def compare(reference: Observation, port: Observation, clip: Clip) -> Iterator[Measurement]:
    """Measure the port's output for every target rate against the reference's.

    Raises NotComparable when an output is missing or has other dimensions or channels.
    """
    for target_hz in TARGET_RATES_HZ:
        place = f"resampled_{target_hz}"
        if place not in port.tensors:
            raise NotComparable(f"the port gives no {place}; {'; '.join(port.warnings)}")
        expected, obtained = reference.tensors[place], port.tensors[place]
        if obtained.ndim != expected.ndim or obtained.shape[:-1] != expected.shape[:-1]:
            raise NotComparable(f"{place}: shape {list(obtained.shape)}, the reference's is {list(expected.shape)}")
        yield from _compare_waveforms(expected, obtained, place)
        if target_hz == clip.rate_hz:
            yield _difference("identity_max_abs", place, clip.samples, obtained)
        if (streamed := port.tensors.get(f"streamed_{target_hz}")) is not None:
            yield _difference("stream_max_abs", f"streamed_{target_hz}", obtained, streamed)
        comparable = expected.shape == obtained.shape and expected.shape[-1] > 0
        if comparable and clip.scope == "signals":
            yield from _compare_signal(expected, obtained, clip, target_hz, place)
        if clip.scope == "clips":
            yield from ROWS.speech(place, expected, obtained, target_hz)


def _compare_waveforms(expected: NDArray[Any], obtained: NDArray[Any], place: str) -> Iterator[Measurement]:
    lengths = f"{obtained.shape[-1]} samples, reference {expected.shape[-1]}"
    yield ROWS.measured("length_error", place, abs(obtained.shape[-1] - expected.shape[-1]), lengths)
    dtypes = f"{obtained.dtype}, reference {expected.dtype}"
    yield ROWS.measured("dtype_mismatch", place, expected.dtype != obtained.dtype, dtypes)
    if expected.size == 0 and obtained.shape == expected.shape:
        return  # nothing to compare but the length; an empty comparison is not a pass of `max_abs`
    try:
        error = compare_tensors(expected, obtained)
    except NotComparable as reason:
        yield ROWS.invalid("max_abs", place, reason)
        return
    worst = f"at {list(error.worst_index)}: {error.port_at_worst:.9g}, reference {error.reference_at_worst:.9g}"
    yield ROWS.measured("max_abs", place, error.max_abs, worst)
    yield ROWS.measured("rms_dbfs", place, 20 * float(np.log10(max(error.rms, 1e-12))))
    yield ROWS.measured("bit_inexact_share", place, float(np.mean(expected != obtained)))


def _difference(metric: str, place: str, expected: NDArray[Any], obtained: NDArray[Any]) -> Measurement:
    """`metric` as the largest difference of two arrays of one observation."""
    if expected.shape == obtained.shape and expected.size == 0:
        return ROWS.measured(metric, place, 0.0, "both are empty, as they must be")
    return ROWS.max_abs(metric, place, expected, obtained)


def _compare_signal(
    expected: NDArray[Any], obtained: NDArray[Any], clip: Clip, target_hz: int, place: str
) -> Iterator[Measurement]:
    """How much worse than the reference's the port's answer to a test signal is."""
    analyses: dict[str, dict[str, Callable[..., float]]] = {
        "impulse": {
            "passband_ripple_excess_db": resampling.passband_ripple_db,
            "stopband_excess_db": resampling.stopband_db,
        },
        "sweep": {"alias_excess_db": resampling.alias_db},
        "sine": {"thd_n_excess_db": resampling.thd_n_db},
    }
    kind = clip.signal.get("kind", "")
    for metric, analyse in analyses.get(kind, {}).items():
        values = [analyse(side, clip.rate_hz, target_hz, clip.signal) for side in (expected, obtained)]
        detail = f"{values[1]:.3f} dB, reference {values[0]:.3f} dB"
        left, right = (value if math.isnan(value) else max(value, RECIPE_FLOOR_DB) for value in values)
        yield ROWS.measured(metric, place, right - left, detail)
    if kind == "impulse":
        delays = [resampling.delay_samples(side, clip.rate_hz, target_hz, clip.signal) for side in (expected, obtained)]
        yield ROWS.measured(
            "delay_error_samples", place, abs(delays[1] - delays[0]), f"{delays[1]:.4f}, {delays[0]:.4f}"
        )
