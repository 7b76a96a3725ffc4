"""How long the two sides take.

Conventions
-----------
Times are in seconds, above 0, one per request, warm-up already left out. Ratios are port / reference: below 1 the
port is faster. Times of the two sides are paired by clip; the clips are the sample, so the interval tells how the
ratio would move with other clips, not how a clock jitters.

Metrics
-------
percentile_s       a percentile of the times; p50_s and p95_s by name
real_time_factor   processing time per second of audio
paired_ratio       port / reference over paired clips, with a bootstrap confidence interval
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ratio:
    """ratio: port / reference. low, high: bounds of the confidence interval. pairs: clips it was taken over."""

    ratio: float
    low: float
    high: float
    pairs: int


def validate(times_s: Sequence[float]) -> NDArray[np.float64]:
    """The times as an array; raises ValueError unless there is at least one and all are finite and above 0."""
    times = np.asarray(times_s, dtype=np.float64)
    if times.ndim != 1 or times.size == 0:
        raise ValueError(f"{times.size} times of shape {list(times.shape)}: at least one, in one row, is needed")
    if not (np.isfinite(times).all() and (times > 0).all()):
        raise ValueError(f"times run from {times.min()} to {times.max()} s: finite ones above 0 are needed")
    return times


def percentile_s(times_s: Sequence[float], percent: float) -> float:
    """The percentile, 0..100, interpolated linearly between the two nearest times."""
    return float(np.percentile(validate(times_s), percent))


def p50_s(times_s: Sequence[float]) -> float:
    """The median time."""
    return percentile_s(times_s, 50)


def p95_s(times_s: Sequence[float]) -> float:
    """The time that 95 % of the requests do not exceed."""
    return percentile_s(times_s, 95)


def real_time_factor(process_s: float, duration_s: float) -> float:
    """Processing time per second of audio: 1 keeps up exactly, below 1 is faster than real time."""
    validate([process_s, duration_s])
    return process_s / duration_s


def paired_ratio(
    reference_s: Sequence[float],
    port_s: Sequence[float],
    *,
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Ratio:
    """Median over clips of port / reference, with a percentile bootstrap interval over the clips.

    The median is taken of the logarithms, so that exchanging the sides gives the reciprocal. Equal seeds give equal
    intervals. With one pair the interval is that one ratio.

    Raises ValueError when the two sides have not one time each for every clip, or `confidence` is not between 0 and 1.
    """
    reference, port = validate(reference_s), validate(port_s)
    if len(reference) != len(port):
        raise ValueError(f"the port has {len(port)} times, the reference {len(reference)}: they must pair clip by clip")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: between 0 and 1 is needed (did you pass per cent?)")
    logs = np.log(port / reference)
    drawn = np.random.default_rng(seed).integers(len(logs), size=(resamples, len(logs)))
    medians = np.median(logs[drawn], axis=1)
    low, high = np.percentile(medians, [50 * (1 - confidence), 50 * (1 + confidence)])
    return Ratio(math.exp(np.median(logs)), math.exp(low), math.exp(high), len(logs))
