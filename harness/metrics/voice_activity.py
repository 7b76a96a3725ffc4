"""How far one course of speech probabilities is from another, in probability, in decisions and in milliseconds.

Conventions
-----------
Probabilities are [T], one per chunk, 0..1; times are in milliseconds from the start of the waveform; a segment is
(start, end) with start < end. A NaN probability makes every result NaN, so that `value <= limit` fails.

Metrics
-------
probability_error   largest and RMS difference of the probabilities
decision_flips      chunks on whose decision the two sides differ
segments            the stretches of speech that a course of probabilities means
boundary_error_ms   largest difference of matching boundaries
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.metrics.tensors import NotComparable, compare_tensors

Segment = tuple[float, float]


@dataclass(frozen=True)
class SegmentOptions:
    """How probabilities become segments; the defaults are those of `silero_vad.get_speech_timestamps` 6.2.3.

    threshold: speech begins at this probability or above. negative_threshold: speech may end below this one.
    min_speech_ms: shorter segments are dropped. min_silence_ms: a shorter pause does not end a segment. pad_ms: added
    on either side, but neighbours never overlap.
    """

    threshold: float = 0.5
    negative_threshold: float = 0.35
    min_speech_ms: float = 250.0
    min_silence_ms: float = 100.0
    pad_ms: float = 30.0


def validate(reference: NDArray[Any], port: NDArray[Any]) -> None:
    """Raise NotComparable unless both are one course of probabilities [T] of equal length."""
    for side, values in (("reference", reference), ("port", port)):
        if np.ndim(values) != 1:
            raise NotComparable(
                f"shape: the {side} has {list(np.shape(values))}; one probability per chunk [T] is needed"
            )
    if len(reference) != len(port):
        raise NotComparable(f"shape: the port has {len(port)} chunks, the reference {len(reference)}")


def probability_error(reference: NDArray[Any], port: NDArray[Any]) -> tuple[float, float]:
    """Largest and RMS difference of the probabilities. Raises NotComparable when shape or dtype differ. Symmetric."""
    validate(reference, port)
    error = compare_tensors(reference, port)
    return error.max_abs, error.rms


def decision_flips(reference: NDArray[Any], port: NDArray[Any], threshold: float = 0.5) -> float:
    """Chunks at which one side is at or above the threshold and the other is not; NaN when a probability is NaN.

    Symmetric. Raises NotComparable when the lengths differ.
    """
    validate(reference, port)
    if np.isnan(reference).any() or np.isnan(port).any():
        return math.nan
    return float(np.count_nonzero((reference >= threshold) != (port >= threshold)))


def segments(
    probabilities: NDArray[Any],
    *,
    chunk_ms: float,
    duration_ms: float | None = None,
    options: SegmentOptions | None = None,
) -> list[Segment]:
    """The stretches of speech in a course of probabilities [T], in milliseconds.

    chunk_ms: length of a chunk (32 for Silero). duration_ms: length of the waveform, which bounds the last segment; the
    chunks' own length when not given. The algorithm is that of `silero_vad.get_speech_timestamps` (6.2.3,
    `utils_vad.py`) with no limit on a segment's length. A NaN probability gives one segment of NaN, which no list of
    segments equals.
    """
    if np.ndim(probabilities) != 1:
        raise NotComparable(f"shape: {list(np.shape(probabilities))}; one probability per chunk [T] is needed")
    if not chunk_ms > 0:
        raise ValueError(f"chunk_ms is {chunk_ms}: above 0 is needed")
    if np.isnan(probabilities).any():
        return [(math.nan, math.nan)]
    options = options or SegmentOptions()
    end_ms = len(probabilities) * chunk_ms if duration_ms is None else duration_ms
    return _padded(_bare_segments(probabilities, chunk_ms, end_ms, options), end_ms, options.pad_ms)


def _bare_segments(
    probabilities: NDArray[Any], chunk_ms: float, end_ms: float, options: SegmentOptions
) -> list[Segment]:
    """Segments without padding: hysteresis between two thresholds, then the shortest pause and the shortest speech."""
    found: list[Segment] = []
    began: float | None = None
    paused: float | None = None
    for index, probability in enumerate(probabilities):
        now = index * chunk_ms
        if probability >= options.threshold:
            began = now if began is None else began
            paused = None
        elif probability < options.negative_threshold and began is not None:
            paused = now if paused is None else paused
            if now - paused >= options.min_silence_ms:
                found.append((began, paused))
                began = paused = None
    if began is not None:
        # A pause that the end of the waveform cuts short does not end the speech before it.
        found.append((began, end_ms))
    return [(start, end) for start, end in found if end - start > options.min_speech_ms]


def _padded(bare: Sequence[Segment], end_ms: float, pad_ms: float) -> list[Segment]:
    """Widen every segment by `pad_ms`, or by half of the pause where two paddings would meet, within the waveform."""
    starts, ends = [start for start, _ in bare], [end for _, end in bare]
    for index in range(len(bare) - 1):
        pause = bare[index + 1][0] - bare[index][1]
        reach = pad_ms if pause >= 2 * pad_ms else pause / 2
        ends[index] += reach
        starts[index + 1] -= reach
    if bare:
        starts[0] -= pad_ms
        ends[-1] += pad_ms
    return [(max(0.0, start), min(end_ms, end)) for start, end in zip(starts, ends, strict=True)]


def boundary_error_ms(reference: Sequence[Segment], port: Sequence[Segment]) -> float:
    """Largest |difference| of matching starts and ends, in milliseconds; infinite when the counts differ. Symmetric.

    Segments match by order. Two empty lists agree: 0. A NaN boundary gives NaN.
    """
    if len(reference) != len(port):
        return math.inf
    if not reference:
        return 0.0
    return float(np.abs(np.asarray(reference, dtype=np.float64) - np.asarray(port, dtype=np.float64)).max())
