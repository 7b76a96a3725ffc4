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
from harness.clips import Clip, one_channel
from harness.measurements import Measurement
from harness.metrics import voice_activity
from harness.metrics.tensors import NotComparable, compare_tensors
from harness.observations import Observation, Outputs
from harness.tasks.rows import TAP_METRICS, Rows

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
    **TAP_METRICS,
}
ROWS = Rows(METRICS)


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

    Both sides are given the same samples.
    """
    made = []
    for clip in clips:
        if clip.rate_hz == NARROW_RATE_HZ:
            made.append(dataclasses.replace(one_channel(clip, NARROW_RATE_HZ), id=f"{clip.id}@8000"))
        made.append(one_channel(clip, RATE_HZ))
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
    yield ROWS.measured("length_error", "probability", abs(obtained.size - expected.size), lengths)
    dtypes = f"{obtained.dtype}, reference {expected.dtype}"
    yield ROWS.measured("dtype_mismatch", "probability", obtained.dtype != expected.dtype, dtypes)
    yield from _compare_probabilities(expected, obtained, 1000 * clip.duration_s)
    if "streamed" in port.tensors:
        yield ROWS.max_abs("stream_max_abs", "streamed", obtained, port.tensors["streamed"])
    yield from ROWS.taps(reference, port)


def _compare_probabilities(expected: NDArray[Any], obtained: NDArray[Any], duration_ms: float) -> Iterator[Measurement]:
    try:
        error = compare_tensors(expected, obtained)
    except NotComparable as reason:
        for metric in ("probability_max_abs", "decision_flips", "segment_boundary_error_ms"):
            yield ROWS.invalid(metric, "probability", reason)
        return
    worst = f"chunk {list(error.worst_index)}: {error.port_at_worst:.7g}, reference {error.reference_at_worst:.7g}"
    yield ROWS.measured("probability_max_abs", "probability", error.max_abs, worst)
    yield ROWS.measured("probability_rms", "probability", error.rms)
    flips = voice_activity.decision_flips(expected, obtained, THRESHOLD)
    yield ROWS.measured("decision_flips", "probability", flips, f"of {expected.size} chunks")
    sides = [voice_activity.segments(side, chunk_ms=CHUNK_MS, duration_ms=duration_ms) for side in (expected, obtained)]
    boundary_ms = voice_activity.boundary_error_ms(*sides)
    detail = f"{len(sides[1])} segments, reference {len(sides[0])}"
    yield ROWS.measured("segment_boundary_error_ms", "probability", boundary_ms, detail)
