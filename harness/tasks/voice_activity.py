"""Task `voice-activity`: the probability of speech in each chunk of a waveform.

Conventions: input is one channel at 16 kHz (chunks of 512 samples) or 8 kHz (256); a chunk is 32 ms. Outputs are
`probability` [T] of the whole waveform, `streamed` [T] of the same waveform pushed chunk by chunk, both float32 in
0..1. Taps are the intermediate activations, chunk by chunk, first dimension T.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness import signals as test_signals
from harness.clips import Clip
from harness.measurements import Measurement
from harness.metrics import voice_activity
from harness.metrics.tensors import NotComparable, compare_tensors
from harness.observations import TAP_PREFIX, Observation, Outputs

TASK = "voice-activity"
RATE_HZ = 16000
NARROW_RATE_HZ = 8000
CHUNK_SAMPLES = {16000: 512, 8000: 256}
CHUNK_MS = 32.0
THRESHOLD = 0.5
GOLDEN_TENSORS = ("probability",)

METRICS: Mapping[str, str] = {
    "length_error": "chunks",
    "dtype_mismatch": "1",
    "probability_max_abs": "1",
    "probability_rms": "1",
    "decision_flips": "chunks",
    "segment_boundary_error_ms": "ms",
    "stream_max_abs": "1",
    "tap_nrmse": "1",
    "taps_missing": "taps",
}


class VoiceActivity(Protocol):
    """What an implementation of this task offers; `taps` is optional."""

    version: str

    def probabilities(self, samples: NDArray[np.float32], rate_hz: int) -> NDArray[np.float32]:
        """Whole waveform [N] to one probability per chunk [T], from a fresh state; the last chunk is zero-padded."""

    def start(self, rate_hz: int) -> None:
        """Begin a stream with a fresh state."""

    def push(self, chunk: NDArray[np.float32]) -> float:
        """The probability of the next chunk, [512] or [256]."""

    def taps(self, samples: NDArray[np.float32], rate_hz: int) -> Mapping[str, NDArray[np.float32]]:
        """Intermediate activations in execution order."""


def stimuli(clips: Iterable[Clip]) -> list[Clip]:
    """Every clip as one channel at 16 kHz; clips recorded at 8 kHz also as they are, named `…@8000`.

    Channels are averaged and other rates converted once, before any implementation sees them, by soxr HQ; the clip's
    `origin` says so. Both sides are given the same samples.
    """
    made = []
    for clip in clips:
        samples = clip.mono()
        note = "" if clip.samples.ndim == 1 else f"mean of {len(clip.samples)} channels; "
        if clip.rate_hz == NARROW_RATE_HZ:
            made.append(dataclasses.replace(clip, id=f"{clip.id}@8000", samples=samples, origin=note + clip.origin))
        if clip.rate_hz != RATE_HZ:
            import soxr

            samples = soxr.resample(samples, clip.rate_hz, RATE_HZ, quality="HQ").astype(np.float32)
            note += f"{clip.rate_hz} to {RATE_HZ} Hz by soxr {soxr.__version__} HQ; "
        made.append(dataclasses.replace(clip, samples=samples, rate_hz=RATE_HZ, origin=note + clip.origin))
    return made


def signals() -> list[Clip]:
    """Short and odd lengths, silence and noise, at both rates."""
    made = []
    for rate_hz in (RATE_HZ, NARROW_RATE_HZ):
        chunk = CHUNK_SAMPLES[rate_hz]
        lengths = (1, 100, chunk, chunk + 1, 20 * chunk - 1)
        made += [test_signals.noise(rate_hz, length, seed=length) for length in lengths]
        made += [test_signals.silence(rate_hz), test_signals.log_sweep(rate_hz)]
    return made


def observe(implementation: VoiceActivity, clip: Clip) -> Outputs:
    """Run one clip whole, chunk by chunk, and with taps where offered; only the first two are timed."""
    chunk = CHUNK_SAMPLES[clip.rate_hz]
    started = time.perf_counter()
    probability = implementation.probabilities(clip.samples, clip.rate_hz)
    whole_s = time.perf_counter() - started
    padded = np.pad(clip.samples, (0, -len(clip.samples) % chunk))
    started = time.perf_counter()
    implementation.start(clip.rate_hz)
    streamed = [implementation.push(padded[at : at + chunk]) for at in range(0, len(padded), chunk)]
    stream_s = time.perf_counter() - started
    # 8 kHz runs another sub-network; taps are compared at 16 kHz, where every port that has them runs.
    offers_taps = hasattr(implementation, "taps") and clip.rate_hz == RATE_HZ
    return Outputs(
        {"probability": np.asarray(probability), "streamed": np.asarray(streamed, dtype=np.float32)},
        taps=implementation.taps(clip.samples, clip.rate_hz) if offers_taps else {},
        timings={"probability": whole_s, "streamed": stream_s},
    )


def compare(reference: Observation, port: Observation, clip: Clip) -> Iterator[Measurement]:
    """Measure probabilities, decisions, segments, streaming and taps. Raises NotComparable without probabilities."""
    if "probability" not in port.tensors:
        raise NotComparable(f"the port gives no probability; {'; '.join(port.warnings)}")
    expected, obtained = reference.tensors["probability"], port.tensors["probability"]
    lengths = f"{obtained.shape} chunks, reference {expected.shape}"
    yield _measure("length_error", "probability", float(abs(obtained.size - expected.size)), lengths)
    dtypes = f"{obtained.dtype}, reference {expected.dtype}"
    yield _measure("dtype_mismatch", "probability", float(obtained.dtype != expected.dtype), dtypes)
    yield from _compare_probabilities(expected, obtained, 1000 * clip.duration_s)
    if "streamed" in port.tensors:
        yield _stream(obtained, port.tensors["streamed"])
    if port.taps and reference.taps:
        yield from _compare_taps(reference, port)


def _compare_probabilities(expected: NDArray[Any], obtained: NDArray[Any], duration_ms: float) -> Iterator[Measurement]:
    try:
        error = compare_tensors(expected, obtained)
    except NotComparable as reason:
        for metric in ("probability_max_abs", "decision_flips", "segment_boundary_error_ms"):
            yield _measure(metric, "probability", float("nan"), str(reason), invalid=True)
        return
    worst = f"chunk {list(error.worst_index)}: {error.port_at_worst:.7g}, reference {error.reference_at_worst:.7g}"
    yield _measure("probability_max_abs", "probability", error.max_abs, worst)
    yield _measure("probability_rms", "probability", error.rms)
    flips = voice_activity.decision_flips(expected, obtained, THRESHOLD)
    yield _measure("decision_flips", "probability", float(flips), f"of {expected.size} chunks")
    sides = [voice_activity.segments(side, chunk_ms=CHUNK_MS, duration_ms=duration_ms) for side in (expected, obtained)]
    boundary_ms = voice_activity.boundary_error_ms(*sides)
    detail = f"{len(sides[1])} segments, reference {len(sides[0])}"
    yield _measure("segment_boundary_error_ms", "probability", boundary_ms, detail)


def _stream(whole: NDArray[Any], streamed: NDArray[Any]) -> Measurement:
    try:
        error = compare_tensors(whole, streamed)
    except NotComparable as reason:
        return _measure("stream_max_abs", "streamed", float("nan"), str(reason), invalid=True)
    return _measure("stream_max_abs", "streamed", error.max_abs, f"chunk {list(error.worst_index)}")


def _compare_taps(reference: Observation, port: Observation) -> Iterator[Measurement]:
    missing = [tap for tap in reference.taps if tap not in port.taps]
    detail = f"not in the port: {missing}" if missing else ""
    yield _measure("taps_missing", "taps", float(len(missing)), detail)
    for tap in reference.taps:
        if tap in missing:
            continue
        place = TAP_PREFIX + tap
        try:
            error = compare_tensors(reference.tensors[place], port.tensors[place])
        except NotComparable as reason:
            yield _measure("tap_nrmse", place, float("nan"), str(reason), invalid=True)
        else:
            yield _measure("tap_nrmse", place, float(np.sqrt(error.nmse)), f"largest at {list(error.worst_index)}")


def _measure(metric: str, place: str, value: float, detail: str = "", invalid: bool = False) -> Measurement:
    return Measurement(metric, METRICS[metric], place, float(value), detail, "invalid" if invalid else "measured")
